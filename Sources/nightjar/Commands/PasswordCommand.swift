import ArgumentParser
import Digests
import Documents

struct PasswordCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "password", abstract: "Reads a password and prints its scrypt hash, for the file of the password-file plugin.",
        discussion: "Asks twice on the terminal without showing what is typed; in a pipe it reads the first line of standard input.")

    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let hash = try PasswordHash.make(password: PasswordPrompt.choose())
            if json { Output.json(["hash": .string(hash)]) } else { Output.line(hash) }
        }
    }
}
