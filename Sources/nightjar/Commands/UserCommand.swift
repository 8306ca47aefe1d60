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
            """,
        subcommands: [Add.self, Remove.self, List.self, Passwd.self])

    struct Add: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "add", abstract: "Adds a user with a password.", discussion: "Creates the file if there is none.")

        @OptionGroup var users: UsersFileOptions
        @Argument(help: "The user's name.") var name: String
        @Flag(help: "The user may pull but not push.") var readOnly = false
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
                try trial.add(name, hash: "", isReadOnly: readOnly)
                let hash = try PasswordHash.make(password: PasswordPrompt.choose())
                try file.change(isThere: false) { try $0.add(name, hash: hash, isReadOnly: readOnly) }
                UserCommand.tell("added to", name, file, json)
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
                            "name": .string(user.name), "read_only": user.problem == nil ? .bool(user.isReadOnly) : .null, "line": .int(Int64(user.line)),
                            "problem": JSONOutput.text(user.problem),
                        ])
                    }))
                } else if found.isEmpty {
                    Output.line("no users in \(TextTable.printable(file.path))")
                } else {
                    var table = TextTable(["NAME", "MAY", "LINE", "PROBLEM"])
                    for user in found {
                        let may = user.problem != nil ? "-" : user.isReadOnly ? "pull" : "pull and push"
                        table.add([user.name.isEmpty ? "-" : user.name, may, "\(user.line)", user.problem ?? "-"])
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

    private static func tell(_ what: String, _ name: String, _ file: UsersFile, _ json: Bool) {
        if json { return Output.json(JSONOutput.object(["name": .string(name), "file": .string(file.path)])) }
        Output.line("\(TextTable.printable(name)) \(what) \(TextTable.printable(file.path)); a running agent picks it up by itself within seconds")
    }
}
