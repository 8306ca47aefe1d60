import Agent
import AgentConfiguration
import ArgumentParser
import Documents
import Encodings
import LuaRuntime
import NIOPosix

struct ConflictsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "conflicts", abstract: "Shows how conflicts were decided and what another resolver would have done, and decides waiting ones.",
        discussion: """
            Works on a running agent, or on the data folder if none runs there. DB is DATABASE or DATABASE.SCOPE.COLLECTION; \
            without it all databases are looked at.
            """,
        subcommands: [List.self, Show.self, ConflictsResolveCommand.self, Replay.self, Retry.self])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "Lists the conflicts that wait for a resolver, then decided ones, newest first.")

        @OptionGroup var location: LocationOptions
        @Argument(help: "DATABASE or DATABASE.SCOPE.COLLECTION; all if absent.") var db: String?
        @Flag(help: "Only those that wait because their resolver failed.") var pending = false
        @Option(help: ArgumentHelp("At most this many of each kind and database; standard error says if there are more.", valueName: "n"))
        var limit = 100
        @Flag(help: "Print a JSON array.") var json = false

        func validate() throws { try ConflictsCommand.check(limit, "--limit", 1_000_000) }

        func run() async throws {
            try await Failure.reporting {
                try await ConflictsCommand.with(location, db) { source, scope, _ in
                    let found = try await source.list(scope, pendingOnly: pending, limit: limit)
                    if json { Output.json(.array(found.rows)) } else { Output.write(1, ConflictText.list(found.rows)) }
                    if found.isCut {
                        Output.errorLine("nightjar: there are more: these are \(limit) of each kind and database; --limit shows more")
                    }
                }
            }
        }
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "show", abstract: "Shows conflicts with their bodies and the differences. Exit status 1 if there is none.")

        @OptionGroup var location: LocationOptions
        @Argument(help: "A number of the history, or a document's id: its pending conflict and its last decided ones.") var id: String
        @Option(help: ArgumentHelp("At most this many decided ones of the document; standard error says if there are more.", valueName: "n"))
        var limit = 20
        @Option(help: ArgumentHelp("DATABASE or DATABASE.SCOPE.COLLECTION; all if absent.", valueName: "db")) var db: String?
        @Flag(help: "Print a JSON array.") var json = false

        func validate() throws { try ConflictsCommand.check(limit, "--limit", 1_000_000) }

        func run() async throws {
            try await Failure.reporting {
                try await ConflictsCommand.with(location, db) { source, scope, _ in
                    let found = try await source.find(id, scope, limit: limit)
                    let rows = found.rows
                    if rows.isEmpty { throw AgentError(.notFound, "no conflict has the number \(id), and no document of this id has one") }
                    if json { Output.json(.array(rows)) } else { Output.write(1, rows.map { ConflictText.show($0) }.joined(separator: "\n")) }
                    if found.isCut {
                        Output.errorLine("nightjar: there are more: these are the last \(limit) decided ones of the document; --limit shows more")
                    }
                }
            }
        }
    }

    struct Replay: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "replay", abstract: "Runs a resolver over the decided conflicts and shows where it would have decided differently.",
            discussion: """
                The plugin runs in the real sandbox; no data is touched. Exit status 1 if it fails on a conflict; a difference is \
                no failure.
                """)

        @OptionGroup var location: LocationOptions
        @Argument(help: "DATABASE or DATABASE.SCOPE.COLLECTION; all if absent.") var db: String?
        @Option(help: ArgumentHelp("The candidate: NAME.lua or NAME/init.lua.", valueName: "file"), completion: .file()) var plugin: String
        @Option(help: ArgumentHelp("The candidate's parameters (default: those in the configuration, if it uses a plugin of that "
            + "name).", valueName: "json")) var params: String?
        @Option(help: ArgumentHelp("Only the last n conflicts of each database.", valueName: "n")) var last: Int?
        @Flag(help: "Print JSON.") var json = false

        func validate() throws { if let last { try ConflictsCommand.check(last, "--last", 1_000_000) } }

        private struct Counts {
            var same = 0
            var differ = 0
            var failed = 0
            var skipped = 0
            var all: Int { same + differ + failed + skipped }
        }

        func run() async throws {
            try await Failure.reporting {
                try await ConflictsCommand.with(location, db) { source, scope, settings in
                    var parameters = try ParametersText.value(params)
                    if params == nil, let configured = ConfiguredParameters.of(
                        try Rehearsal.parts(of: plugin).name, hook: .resolve, in: settings, database: try db.map { try DocumentAccess.parse($0).database })
                    {
                        parameters = configured.params
                        Output.errorLine("nightjar: \(configured.sentence)")
                    }
                    let rehearsal = try await Rehearsal(file: plugin, params: parameters, settings: settings)
                    var counts = Counts()
                    var outcomes: [JSONValue] = []
                    do {
                        try await source.replay(scope, last: last) { page in
                            for conflict in page {
                                let outcome = try await rehearsal.run(conflict)
                                switch outcome.kind {
                                case .same: counts.same += 1
                                case .differs: counts.differ += 1
                                case .failed: counts.failed += 1
                                case .skipped: counts.skipped += 1
                                }
                                if json { outcomes.append(outcome.json) } else if let text = outcome.text { Output.write(1, text) }
                            }
                        }
                    } catch {
                        await rehearsal.end()
                        throw error
                    }
                    await rehearsal.end()
                    show(rehearsal, counts, outcomes)
                    if counts.failed > 0 { throw ExitCode(Failure.failed) }
                }
            }
        }

        private func show(_ rehearsal: Rehearsal, _ counts: Counts, _ outcomes: [JSONValue]) {
            guard json else {
                Output.line(
                    "\(TextTable.printable(rehearsal.plugin)) \(rehearsal.version): \(Plural.count(counts.all, "conflict")) replayed, "
                        + "\(counts.same) the same, \(counts.differ) different, \(counts.failed) failed, \(counts.skipped) skipped")
                return
            }
            Output.json(
                JSONOutput.object([
                    "plugin": .string(rehearsal.plugin), "version": .string(rehearsal.version),
                    "replayed": JSONOutput.number(counts.all), "same": JSONOutput.number(counts.same),
                    "different": JSONOutput.number(counts.differ), "failed": JSONOutput.number(counts.failed),
                    "skipped": JSONOutput.number(counts.skipped), "conflicts": .array(outcomes),
                ]))
        }
    }

    struct Retry: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "retry", abstract: "Makes the running agent try its pending conflicts again, now.")

        @OptionGroup var location: LocationOptions
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            try await Failure.reporting {
                let answer = try await location.agent().request("POST", "/api/conflicts/retry")
                guard !json else { return Output.json(answer) }
                switch answer["conflicts"]?.asInt64 {
                case nil: Output.line("pending conflicts are tried again")
                case 0?: Output.line("no conflict waits for a resolver: nothing is tried again")
                case let count?: Output.line("\(Plural.count(count, "pending conflict is", "pending conflicts are")) tried again")
                }
            }
        }
    }

    private static func check(_ count: Int, _ option: String, _ most: Int) throws {
        if !(1...most).contains(count) { throw ValidationError("\(option) must be 1 to \(most), not \(count)") }
    }

    /// Runs with the conflicts in the given scope, and releases folder locks afterwards.
    static func with(
        _ location: LocationOptions, _ db: String?, _ work: (ConflictSource, ConflictSource.Scope, AgentSettings) async throws -> Void
    ) async throws {
        let settings = try location.settingsWithoutSecrets()
        let scope = try ConflictSource.Scope(db)
        let source = try await ConflictSource.find(scope, settings: settings, group: MultiThreadedEventLoopGroup.singleton)
        defer { source.close() }
        try await work(source, scope, settings)
    }
}
