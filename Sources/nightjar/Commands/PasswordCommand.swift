import Agent
import ArgumentParser
import Digests
import Documents
import Glibc

struct PasswordCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "password", abstract: "Reads a password and prints its scrypt hash, for the file of the password-file plugin.",
        discussion: "Asks twice on the terminal without showing what is typed; in a pipe it takes the first line of standard input.")

    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let password: String
            if isatty(0) == 1 {
                password = try PasswordPrompt.ask("Password: ")
                guard try PasswordPrompt.ask("Again: ").utf8.elementsEqual(password.utf8) else {
                    throw AgentError(.failed, "the two passwords differ")
                }
            } else {
                password = try PasswordPrompt.readLine()
            }
            let hash = try PasswordHash.make(password: password)
            if json { Output.json(["hash": .string(hash)]) } else { Output.line(hash) }
        }
    }
}
