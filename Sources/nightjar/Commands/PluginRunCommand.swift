import Agent
import AgentConfiguration
import ArgumentParser
import Documents
import Encodings
import LuaRuntime
import NIOPosix
import PluginHost

struct PluginRunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Calls one hook of a plugin in the real sandbox and shows the result.",
        discussion: """
            Exit status 1 if a call failed. A "no" of a filter is not a failure. With --last N DB a filter is called for the last N \
            documents that changed in a database, of a running agent or of the data folder: a look at what it would do, which changes nothing. \
            A database also says where nightjar.get looks, with any hook.
            """)

    @OptionGroup var location: ConfigurationOptions
    @Argument(help: "The plugin's name.") var name: String
    @Argument(help: "push_filter, pull_filter, transform, resolve, authenticate_password, authenticate_certificate, sync, token, get_session, on_status, on_documents or select_peer.") var hook: LuaHook
    @Argument(help: "DB, DB.COLLECTION or DB.SCOPE.COLLECTION: for --last, and for nightjar.get.") var database: String?
    @Option(help: ArgumentHelp("For a filter: the last documents of a database.", valueName: "n")) var last: Int?
    @Option(
        help: ArgumentHelp(
            "The document of a filter, of transform or of sync, the chain (an array of certificates) of authenticate_certificate, the status of on_status, the documents "
                + "(an array) of on_documents, the peers (an array) of select_peer; - for standard input.",
            valueName: "file"), completion: .file())
    var doc: String?
    @Option(help: ArgumentHelp("For sync: the revision that the document replaces.", valueName: "file"), completion: .file()) var oldDoc: String?
    @Option(help: ArgumentHelp("For resolve: an object of local_doc, remote_doc and base_doc; - for standard input.", valueName: "file"), completion: .file())
    var conflict: String?
    @Option(help: "For authenticate_password; for sync: who writes.") var username: String?
    @Option(help: "For authenticate_password.") var password: String?
    @Option(help: ArgumentHelp("For sync: a role of the writer; may be repeated.", valueName: "name")) var role: [String] = []
    @Option(help: ArgumentHelp("For sync: a channel that the writer may pull; may be repeated.", valueName: "name")) var channel: [String] = []
    @Flag(help: "For sync: the agent itself writes, every require_ function passes.") var admin = false
    @Option(help: ArgumentHelp("The plugin's parameters (default: those of the configuration, where it uses the plugin).", valueName: "json")) var params: String?
    @Option(help: ArgumentHelp("Call it this many times, in one Lua state; without --json, equal results are shown as one line, and times are summed.", valueName: "n"))
    var times = 1
    @Flag(help: "Print JSON, one object for each call.") var json = false

    func validate() throws {
        if times < 1 || times > Self.maximumTimes { throw ValidationError("--times must be 1 to \(Self.maximumTimes), not \(times)") }
        if let last {
            guard [.pushFilter, .pullFilter].contains(hook) else { throw ValidationError("--last goes with filters, not with \(hook.rawValue)") }
            if !(1...DocumentAccess.maximumLast).contains(last) { throw ValidationError("--last must be 1 to \(DocumentAccess.maximumLast), not \(last)") }
            if database == nil { throw ValidationError("--last needs a database: DB, DB.COLLECTION or DB.SCOPE.COLLECTION") }
            if doc != nil { throw ValidationError("--doc and --last exclude each other") }
        }
        switch hook {
        case .pushFilter, .pullFilter: if doc == nil, last == nil { throw ValidationError("\(hook.rawValue) needs --doc FILE, or --last N DB") }
        case .sync, .transform, .authenticateCertificate, .onStatus, .onDocuments, .selectPeer: if doc == nil { throw ValidationError("\(hook.rawValue) needs --doc FILE") }
        case .resolve: if conflict == nil { throw ValidationError("resolve needs --conflict FILE") }
        case .authenticatePassword:
            if username == nil || password == nil { throw ValidationError("authenticate_password needs --username and --password") }
        case .token, .getSession: if doc != nil || conflict != nil { throw ValidationError("\(hook.rawValue) is asked without a document") }
        }
        if hook != .sync, oldDoc != nil || admin || !role.isEmpty || !channel.isEmpty {
            throw ValidationError("--old-doc, --role, --channel and --admin are for sync")
        }
    }

    /// The reports are kept in memory until the last call.
    static let maximumTimes = 1_000_000
    /// `max_input`: more than the largest document.
    static let maximumInput = 64 << 20

    func run() async throws {
        try await Failure.reporting {
            // Little of the configuration affects a plugin: a password that only the agent's environment contains may be missing here.
            let (found, problems) = location.examine()
            guard let settings = found else { throw problems?.seenFromAShell ?? ConfigurationProblems([]) }
            for problem in problems?.seenFromAShell.problems ?? [] { Output.errorLine("warning: \(problem)") }
            let place: DocumentPlace? = if let database {
                try await DocumentPlace.find(database, settings: settings, group: MultiThreadedEventLoopGroup.singleton)
            } else { nil }
            defer { place?.close() }
            var parameters = try ParametersText.value(params)
            if params == nil, let configured = ConfiguredParameters.of(
                name, hook: hook, in: settings, database: try database.map { try DocumentAccess.parse($0).database })
            {
                parameters = configured.params
                Output.errorLine("nightjar: \(configured.sentence)")
            }
            var request = PluginRunner.Request(
                folder: try PluginCommand.folder(settings), plugin: name, hook: hook, input: try await input(place), params: parameters,
                times: times, configurationFolder: settings.folder, limits: PluginHostLimits(settings.pluginLimits), environment: .system)
            request.user = username
            (request.roles, request.channels, request.isAdmin) = (role, channel, admin)
            if let database, let place {
                (request.database, request.collection) = try DocumentAccess.parse(database)
                request.services = try await PlaceServices(place)
            }
            let reports: [PluginRunner.Report]
            do {
                reports = try await PluginRunner.run(request)
            } catch let error as PluginError where json {
                // In JSON, a plugin that cannot be called at all counts as a failed call.
                Output.json([
                    "result": .null, "error": ["kind": "plugin_load", "message": .string(error.description)], "log": [], "time_ms": 0,
                    "memory_bytes": 0,
                ])
                throw ExitCode(Failure.failed)
            }
            if json {
                for report in reports { Output.json(report.json) }
            } else if last != nil {
                showTable(reports)
            } else {
                showSummary(reports)
            }
            if reports.contains(where: { $0.failure != nil }) { throw ExitCode(Failure.failed) }
        }
    }

    private func input(_ place: DocumentPlace?) async throws -> PluginRunner.Input {
        if let last, let place { return .documents(try await place.last(last)) }
        func bytes(_ path: String) throws -> [UInt8] {
            let file = try InputFile(path)
            defer { file.close() }
            return try file.all(limit: Self.maximumInput)
        }
        if hook == .resolve { return .conflict(try bytes(conflict ?? "-")) }
        if hook == .authenticatePassword { return .login(username: username ?? "", password: password ?? "") }
        if hook == .token || hook == .getSession { return .nothing }
        if hook == .onStatus || hook == .onDocuments { return .news(try bytes(doc ?? "-")) }
        if hook == .selectPeer { return .peers(try bytes(doc ?? "-")) }
        if hook == .authenticateCertificate { return .chain(try bytes(doc ?? "-")) }
        return .document(try bytes(doc ?? "-"), old: try oldDoc.map { try bytes($0) })
    }

    private func showTable(_ reports: [PluginRunner.Report]) {
        var table = TextTable(["ID", "RESULT", "MS", ""], alignsRight: [2])
        var (passed, rejected, failed, milliseconds, slowest) = (0, 0, 0, 0.0, 0.0)
        for report in reports {
            milliseconds += report.milliseconds
            slowest = max(slowest, report.milliseconds)
            var word = "failed"
            if report.failure != nil {
                failed += 1
            } else if report.result?.asBool == true {
                (passed, word) = (passed + 1, "passes")
            } else {
                (rejected, word) = (rejected + 1, "rejected")
            }
            table.add([
                report.id ?? "", word, StatusText.decimal(report.milliseconds, 3),
                report.failure.map { "\($0.kind.rawValue): \($0.message)" } ?? report.log.map(\.message).joined(separator: "; "),
            ])
        }
        if !table.isEmpty { Output.write(1, table.text) }
        Output.line(
            "\(Plural.count(reports.count, "document")): \(passed) pass, \(rejected) rejected, \(failed) failed; "
                + "\(StatusText.decimal(milliseconds, 1)) ms, the slowest \(StatusText.decimal(slowest, 3)) ms")
    }

    /// Prints each distinct result when it first occurs; for many calls, also how often it occurred and how long they took.
    private func showSummary(_ reports: [PluginRunner.Report]) {
        guard reports.count > 1 else { return reports.forEach(show) }
        var counts: [String: Int] = [:]
        for report in reports { counts[outcome(report), default: 0] += 1 }
        var shown: Set<String> = []
        for report in reports where shown.insert(outcome(report)).inserted {
            show(report)
            Output.line("  \(Plural.count(counts[outcome(report)] ?? 0, "time"))")
        }
        let times = reports.map(\.milliseconds).sorted()
        let sum = times.reduce(0, +)
        func at(_ share: Double) -> String { StatusText.decimal(times[min(times.count - 1, Int(Double(times.count) * share))], 3) }
        Output.line(
            "\(Plural.count(reports.count, "call")), \(reports.count { $0.failure != nil }) failed: \(StatusText.decimal(sum, 1)) ms; "
                + "median \(at(0.5)) ms, p99 \(at(0.99)) ms, the slowest \(at(1)) ms; "
                + "\(reports.map(\.memoryBytes).max() ?? 0) bytes of memory at most")
    }

    private func outcome(_ report: PluginRunner.Report) -> String {
        if let failure = report.failure { return "\(failure.kind.rawValue): \(failure.message)" }
        return "\(report.decision ?? ""): \(report.result?.text ?? "null")"
    }

    private func show(_ report: PluginRunner.Report) {
        for line in report.log {
            let fields = line.fields == .missing ? "" : " \(line.fields.json.text)"
            Output.line(TextTable.printable("\(line.level): \(line.message)\(fields)"))
        }
        let facts = "\(StatusText.decimal(report.milliseconds, 3)) ms, \(report.memoryBytes) bytes of memory"
        if let failure = report.failure {
            Output.line(TextTable.printable("\(failure.kind.rawValue): \(failure.message)") + " (\(facts))")
        } else {
            let decision = report.decision.map { "\($0): " } ?? ""
            Output.line(TextTable.printable("\(decision)\(report.result?.text ?? "null")") + " (\(facts))")
        }
    }
}

extension LuaHook: ExpressibleByArgument {}
