import Agent
import ArgumentParser
import Glibc
import TLS

/// Where a passphrase comes from. Never from the command line itself, which every user of the machine can read.
struct PassphraseOptions: ParsableArguments, Sendable {
    @Option(name: .long, help: ArgumentHelp("Take the passphrase from the first line of this file (- for standard input).", valueName: "file"), completion: .file())
    var passphraseFile: String?

    @Option(name: .long, help: ArgumentHelp("Take the passphrase from this environment variable.", valueName: "name"))
    var passphraseEnv: String?

    func validate() throws {
        if passphraseFile != nil, passphraseEnv != nil { throw ValidationError("give --passphrase-file or --passphrase-env, not both") }
    }

    /// Whether a source was named, so that no question is needed.
    var isGiven: Bool { passphraseFile != nil || passphraseEnv != nil }

    /// Reads the passphrase from the named source; otherwise asks on the terminal.
    ///
    /// - Parameter twice: for a new passphrase.
    func read(_ question: String, twice: Bool = false) throws -> SecretBytes {
        if let passphraseFile { return try check(Self.line(of: passphraseFile)) }
        if let passphraseEnv {
            guard let value = getenv(passphraseEnv) else { throw AgentError(.invalid, "the environment variable \(passphraseEnv) is not set") }
            return try check(String(cString: value))
        }
        guard isatty(0) == 1 else {
            throw AgentError(.invalid, "a passphrase is needed: give --passphrase-file or --passphrase-env")
        }
        let typed = try PasswordPrompt.ask(question)
        if twice, try !PasswordPrompt.ask("Again: ").utf8.elementsEqual(typed.utf8) { throw AgentError(.failed, "the two passphrases differ") }
        return try check(typed)
    }

    private static func line(of path: String) throws -> String {
        let file = try InputFile(path)
        defer { file.close() }
        var bytes = try file.all(limit: 65_536)
        if let end = bytes.firstIndex(of: 0x0A) { bytes.removeSubrange(end...) }
        if bytes.last == 0x0D { bytes.removeLast() }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw AgentError(.invalid, "\(file.name): the passphrase is not UTF-8") }
        return text
    }

    private func check(_ text: String) throws -> SecretBytes {
        guard !text.isEmpty else { throw AgentError(.invalid, "the passphrase is empty") }
        guard !text.utf8.contains(0) else { throw AgentError(.invalid, "the passphrase contains the character NUL") }
        guard text.utf8.count <= TLSLimits.passphraseBytes else {
            throw AgentError(.invalid, "the passphrase has more than passphraseBytes = \(TLSLimits.passphraseBytes) bytes")
        }
        return SecretBytes(text)
    }
}
