import Agent
import Glibc

/// Asks for passwords on the terminal without showing them.
enum PasswordPrompt {
    /// - Throws: ``AgentError`` if there is no terminal, or on Control-C.
    static func ask(_ question: String) throws -> String {
        let terminal = open("/dev/tty", O_RDWR | O_CLOEXEC)
        guard terminal >= 0 else { throw AgentError(.failed, "there is no terminal on which to ask for a password") }
        defer { close(terminal) }
        var before = termios()
        guard tcgetattr(terminal, &before) == 0 else { throw AgentError(.failed, "the terminal does not accept settings") }
        var quiet = before
        // Without ISIG, so that Control-C cannot end the program while the terminal's echo is off.
        quiet.c_lflag &= ~tcflag_t(ECHO | ICANON | ISIG)
        // Discards what was typed before the question, because it may have been echoed.
        tcsetattr(terminal, TCSAFLUSH, &quiet)
        defer {
            tcsetattr(terminal, TCSAFLUSH, &before)
            Output.write(terminal, "\n")
        }
        Output.write(terminal, question)
        var typed: [UInt8] = []
        while true {
            var byte: UInt8 = 0
            let count = read(terminal, &byte, 1)
            if count < 0, errno == EINTR { continue }
            guard count == 1 else { throw AgentError(.failed, "no password was typed") }
            switch byte {
            case 0x0A, 0x0D: return try text(typed)
            case 0x03, 0x1A, 0x1C: throw AgentError(.failed, "interrupted")
            case 0x04: if typed.isEmpty { throw AgentError(.failed, "no password was typed") }
            case 0x08, 0x7F:
                // One character, which may consist of several bytes.
                while let last = typed.popLast(), last & 0xC0 == 0x80 {}
            case 0x15: typed = []
            default: typed.append(byte)
            }
        }
    }

    /// Reads a new password: asks twice on a terminal, or takes the first line of a pipe.
    static func choose() throws -> String {
        guard isatty(0) == 1 else { return try readLine() }
        let password = try ask("Password: ")
        guard try ask("Again: ").utf8.elementsEqual(password.utf8) else { throw AgentError(.failed, "the two passwords differ") }
        return password
    }

    /// The first line of standard input.
    static func readLine() throws -> String {
        var typed = try InputFile(nil).all(limit: 65_536)
        if let end = typed.firstIndex(of: 0x0A) { typed.removeSubrange(end...) }
        if typed.last == 0x0D { typed.removeLast() }
        return try text(typed)
    }

    private static func text(_ bytes: [UInt8]) throws -> String {
        guard let text = String(validating: bytes, as: UTF8.self) else { throw AgentError(.invalid, "the password is not UTF-8") }
        guard !text.isEmpty else { throw AgentError(.invalid, "the password is empty") }
        return text
    }
}
