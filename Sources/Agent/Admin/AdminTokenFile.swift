import AgentConfiguration
import Encodings
import Environment
import TLS

/// The token of an admin port for which the configuration names none: made at the first start, in the data folder, for the agent's user.
enum AdminTokenFile {
    static func path(data: String) -> String { "\(data)/admin.token" }

    /// What is in the file, which is made where it is missing.
    ///
    /// - Throws: `AgentError` `.configuration` for a file that others can read, or that holds no token.
    static func secret(data: String, _ random: any RandomSource) throws(AgentError) -> Secret {
        let path = path(data: data)
        var stored: SecretBytes?
        do throws(TLSFileError) { stored = try SecretFile.read(path) } catch {
            guard error.kind == .missing else { throw AgentError(.configuration, "the token of the admin port: \(error)") }
        }
        if let stored { return try secret(in: stored, path) }
        let token = Hex.encode(random.bytes(32))
        do throws(TLSFileError) { try SecretFile.write(path, SecretBytes(token + "\n"), replaces: false) } catch {
            throw AgentError(.failed, "the token of the admin port: \(error)")
        }
        return Secret(token)
    }

    private static func secret(in bytes: SecretBytes, _ path: String) throws(AgentError) -> Secret {
        let text = bytes.withBytes { String(decoding: $0, as: UTF8.self) }
        let token = text.filter { !$0.isWhitespace }
        guard token.utf8.count >= 16, token.utf8.allSatisfy({ 0x21...0x7E ~= $0 }) else {
            throw AgentError(
                .configuration,
                "\(path): holds no token of 16 printable characters or more: take the file away, and the agent makes another, or set admin.token")
        }
        return Secret(token)
    }
}
