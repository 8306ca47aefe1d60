import ArgumentParser
import Documents
import Encodings

struct DisconnectCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "disconnect", abstract: "Ends the connections of a user, or those from an address, at a running agent.",
        discussion: """
            They may come back and log in again: to keep a user out, remove the user from what the authenticator checks; that ends \
            the user's connections by itself. `nightjar status` lists users and addresses.
            """)

    @OptionGroup var location: LocationOptions
    @Argument(help: ArgumentHelp("A user's name, or an address with or without its port.", valueName: "user|address")) var who: String
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let answer = try await location.agent().request("POST", "/api/disconnect/\(PercentEncoding.encode(who))")
            if json { return Output.json(answer) }
            let count = answer["disconnected"]?.asInt64 ?? 0
            Output.line("\(TextTable.printable(who)): \(Plural.count(count, "connection")) ended")
        }
    }
}
