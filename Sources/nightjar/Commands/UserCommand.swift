import Agent
import ArgumentParser
import Digests
import Documents
import Environment

struct UserCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "user", abstract: "Manages who may log in to a listener: the users file of the password-file plugin.",
        discussion: """
            The file is that of the configuration's listener, or --file. It is replaced as a whole, readable by the agent's user only. A running \
            agent picks up the change by itself within seconds: users who were removed or got another password are disconnected. Passwords are asked \
            for on the terminal and not shown; in a pipe the first line of standard input is the password.

            A line is NAME:HASH, and may go on with :read_only, :channels=NAME,NAME and :roles=NAME,NAME. Channels and roles count where the listener has \
            a sync function: a user pulls what it puts into the user's channels, what documents grant to the user or its roles, and the channel "!".
            """,
        subcommands: [Add.self, Remove.self, List.self, Passwd.self, Permit.self])

    /// What a user may do.
    struct Permissions: ParsableArguments, Sendable {
        @Flag(help: "The user may pull but not push.") var readOnly = false
        @Option(name: .customLong("channel"), help: ArgumentHelp("A channel that the user may pull; * for all. May be repeated.", valueName: "name")) var channels: [String] = []
        @Option(name: .customLong("role"), help: ArgumentHelp("A role of the user, for sync functions. May be repeated.", valueName: "name")) var roles: [String] = []

        var options: UserOptions {
            var options = UserOptions()
            (options.isReadOnly, options.channels, options.roles) = (readOnly, channels, roles)
            return options
        }

        func validate() throws { if let problem = options.problem { throw ValidationError(problem) } }
    }

    struct Add: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "add", abstract: "Adds a user with a password.", discussion: "Creates the file if there is none.")

        @OptionGroup var users: UsersFileOptions
        @OptionGroup var permissions: Permissions
        @Argument(help: "The user's name.") var name: String
        @Flag(help: "Print JSON.") var json = false

        func validate() throws {
            if let problem = UserLines.problem(ofName: name) { throw ValidationError(problem) }
            // It would work, but nobody would understand why the name without the blank does not.
            if name.hasPrefix(" ") || name.hasSuffix(" ") { throw ValidationError("a user's name must not begin or end with a blank") }
        }

        func run() async throws {
            try await Failure.reporting {
                let file = try users.find()
                // Checked here so that nobody types a password in vain, and again when the file is written.
                var trial = try file.read(isThere: false)
                try trial.add(name, hash: "", permissions.options)
                let hash = try PasswordHash.make(password: PasswordPrompt.choose())
                try file.change(isThere: false) { try $0.add(name, hash: hash, permissions.options) }
                UserCommand.tell("added to", name, file, json)
                // A user who was removed and added again has lost them.
                if permissions.options.channels.isEmpty, trial.users.contains(where: { !$0.options.channels.isEmpty }) {
                    Output.errorLine("nightjar: \(TextTable.printable(name)) has no channels, and other users have: \(UserCommand.withoutChannels) (--channel)")
                }
            }
        }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "remove", abstract: "Removes a user, whom a running agent then disconnects.", aliases: ["rm"])

        @OptionGroup var users: UsersFileOptions
        @Argument(help: "The user's name.") var name: String
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            try await Failure.reporting {
                let file = try users.find()
                try file.change(isThere: true) { try $0.remove(name) }
                UserCommand.tell("removed from", name, file, json)
            }
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "Lists the users, never their hashes.",
            discussion: "Exit status 1 if a line is invalid, so that its user cannot log in.")

        @OptionGroup var users: UsersFileOptions
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            try await Failure.reporting {
                let file = try users.find()
                let found = try file.read(isThere: true).users
                if json {
                    Output.json(.array(found.map { user in
                        JSONOutput.object([
                            // Nobody can log in with an invalid line.
                            "name": .string(user.name), "read_only": user.problem == nil ? .bool(user.options.isReadOnly) : .null,
                            "channels": user.problem == nil ? .array(user.options.channels.map { .string($0) }) : .null,
                            "roles": user.problem == nil ? .array(user.options.roles.map { .string($0) }) : .null,
                            "line": .int(Int64(user.line)), "problem": JSONOutput.text(user.problem),
                        ])
                    }))
                } else if found.isEmpty {
                    Output.line("no users in \(TextTable.printable(file.path))")
                } else {
                    var table = TextTable(["NAME", "MAY", "CHANNELS", "ROLES", "LINE", "PROBLEM"])
                    for user in found {
                        let may = user.problem != nil ? "-" : user.options.isReadOnly ? "pull" : "pull and push"
                        func list(_ names: [String]) -> String { names.isEmpty ? "-" : names.joined(separator: ", ") }
                        table.add([user.name.isEmpty ? "-" : user.name, may, list(user.options.channels), list(user.options.roles), "\(user.line)", user.problem ?? "-"])
                    }
                    Output.write(1, table.text)
                }
                if found.contains(where: { $0.problem != nil }) { throw ExitCode(Failure.failed) }
            }
        }
    }

    struct Passwd: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "passwd", abstract: "Gives a user a new password; connections that were made with the old one end.")

        @OptionGroup var users: UsersFileOptions
        @Argument(help: "The user's name.") var name: String
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            try await Failure.reporting {
                let file = try users.find()
                var trial = try file.read(isThere: true)
                try trial.change(name, hash: "")
                let hash = try PasswordHash.make(password: PasswordPrompt.choose())
                try file.change(isThere: true) { try $0.change(name, hash: hash) }
                UserCommand.tell("has a new password in", name, file, json)
            }
        }
    }

    struct Permit: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "permit", abstract: "Sets what a user may do: replaces read_only, channels and roles, and keeps the password.",
            discussion: "What is not given is taken away. The user's connections are judged again within seconds.")

        @OptionGroup var users: UsersFileOptions
        @OptionGroup var permissions: Permissions
        @Argument(help: "The user's name.") var name: String
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            try await Failure.reporting {
                let file = try users.find()
                let before = try file.read(isThere: true).users.first { $0.name.utf8.elementsEqual(name.utf8) }?.options
                try file.change(isThere: true) { try $0.permit(name, permissions.options) }
                UserCommand.tell("has other permissions in", name, file, json)
                for line in before.map({ UserCommand.losses($0, permissions.options) }) ?? [] { Output.errorLine("nightjar: \(TextTable.printable("\(name) \(line)"))") }
            }
        }
    }

    private static let withoutChannels = "where a sync function puts documents into channels, such a user pulls public documents only, and loses what it has pulled of others"

    /// What a user had and has no more, or may do now.
    private static func losses(_ before: UserOptions, _ now: UserOptions) -> [String] {
        var lines: [String] = []
        if before.isReadOnly, !now.isReadOnly { lines.append("may push now: read_only was taken away") }
        let channels = before.channels.filter { !now.channels.contains($0) }
        if !channels.isEmpty, !now.channels.contains("*") { lines.append("no longer has the \(channels.count == 1 ? "channel" : "channels") \(channels.joined(separator: ", "))") }
        if !before.channels.isEmpty, now.channels.isEmpty { lines.append("has no channels any more: \(withoutChannels)") }
        let roles = before.roles.filter { !now.roles.contains($0) }
        if !roles.isEmpty { lines.append("no longer has the \(roles.count == 1 ? "role" : "roles") \(roles.joined(separator: ", "))") }
        return lines
    }

    private static func tell(_ what: String, _ name: String, _ file: UsersFile, _ json: Bool) {
        if json { return Output.json(JSONOutput.object(["name": .string(name), "file": .string(file.path)])) }
        Output.line("\(TextTable.printable(name)) \(what) \(TextTable.printable(file.path)); a running agent picks it up by itself within seconds")
    }
}
