import Agent
import AgentConfiguration
import ArgumentParser
import Documents
import Encodings
import Glibc
import NIOPosix
import TLS
import Transport

struct ReplicateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replicate", abstract: "Replicates from SOURCE to TARGET, without an agent and its configuration.",
        discussion: """
            SOURCE and TARGET are a database folder (DATA/NAME.nightjar) or the URL of a remote database \
            (ws://HOST:PORT/DATABASE; http://HOST:PORT/DATABASE is one of CouchDB), or a message endpoint (exec:COMMAND, unix:PATH, serial:DEVICE?speed=BITS); at least one is a folder. A folder that documents are replicated into is made if it does not exist. \
            Documents move from SOURCE to TARGET only, unless --both is given. No agent may have the folder open.
            """)

    @Argument(help: "From here: a database folder or a URL.", completion: .directory) var source: String
    @Argument(help: "To here: a database folder or a URL.", completion: .directory) var target: String
    @Flag(help: "Both ways.") var both = false
    @Flag(help: "Continue until interrupted.") var continuous = false
    @Flag(help: "Forget the checkpoint and check every document again.") var reset = false
    @Option(help: ArgumentHelp("A plugin that decides which documents may leave the folder.", valueName: "plugin")) var pushFilter: String?
    @Option(help: ArgumentHelp("A plugin that decides which documents may enter the folder.", valueName: "plugin")) var pullFilter: String?
    @Option(help: ArgumentHelp("A plugin that decides conflicts.", valueName: "plugin")) var resolver: String?
    @Option(help: ArgumentHelp("The plugin's parameters; for several plugins, an object of them by plugin name.", valueName: "json"))
    var params: String?
    @Option(help: ArgumentHelp("The plugins folder (default: ./plugins, if there is one).", valueName: "folder"), completion: .directory) var plugins: String?
    @Option(help: ArgumentHelp("Only these documents, separated by commas; may be repeated.", valueName: "ids")) var docIds: [String] = []
    @Option(help: ArgumentHelp("Pull only from these channels, separated by commas.", valueName: "channels")) var channels: [String] = []
    @OptionGroup var choice: SourceChoiceOptions
    @Option(help: ArgumentHelp("A name for the remote database that stays the same when its address changes, so that the next run resumes from here.", valueName: "name"))
    var remoteId: String?
    @Option(help: ArgumentHelp("These collections instead of the default one, separated by commas.", valueName: "scope.collection"))
    var collections: [String] = []
    @Option(help: "The user name for the remote database.") var user: String?
    @Option(help: "The password (default: NIGHTJAR_PASSWORD; otherwise it is asked for on the terminal).") var password: String?
    @Option(help: ArgumentHelp("Attempts while the remote cannot be reached; 0 for the default: 3, or no limit with --continuous.", valueName: "n"))
    var maxAttempts = 0
    @Option(help: ArgumentHelp(
        "PEM file, or sha256/BASE64 of a public key: the server's chain must contain it. May be repeated.", valueName: "file"), completion: .file())
    var pinned: [String] = []
    @Flag(help: "Accept a self-signed certificate of the server, and no other.") var selfSigned = false
    @Flag(name: .shortAndLong, help: "Log to standard error.") var verbose = false
    @Flag(help: "Print the outcome as JSON.") var json = false

    func validate() throws {
        if selfSigned || !pinned.isEmpty, ![source, target].contains(where: { $0.hasPrefix("wss://") || $0.hasPrefix("https://") }) {
            throw ValidationError("--pinned and --self-signed need a URL that begins with wss:// or https://")
        }
        if maxAttempts < 0 { throw ValidationError("--max-attempts must be 0 or more, not \(maxAttempts)") }
        if remoteId?.isEmpty == true { throw ValidationError("--remote-id must not be empty") }
        try choice.check(source: source, isBoth: both, target: target, others: (docIds.isEmpty ? [] : ["--doc-ids"]) + (channels.isEmpty ? [] : ["--channels"]))
        if password != nil, user == nil { throw ValidationError("--password needs --user") }
        if params != nil, pushFilter == nil, pullFilter == nil, resolver == nil {
            throw ValidationError("--params needs --push-filter, --pull-filter or --resolver")
        }
    }

    func run() async throws {
        try await Failure.reporting {
            let progress = Progress()
            let outcome = try await replication().run(group: MultiThreadedEventLoopGroup.singleton, isVerbose: verbose) { status in
                let counts = status.counts
                progress.show(
                    "\(Progress.bar(counts.completed, of: counts.total)) \(counts.completed)/\(counts.total) documents, "
                        + "\(progress.rate(counts.completed))/s, \(status.activity.rawValue)"
                        + (status.error.map { ": \(TextTable.printable($0.message))" } ?? ""))
            }
            progress.clear()
            if json {
                Output.json(outcome.json)
            } else {
                let counts = outcome.status.counts
                var line = "pushed \(counts.pushed), pulled \(counts.pulled), rejected \(counts.rejected), failed \(counts.failed), "
                line += "held \(outcome.held)"
                if outcome.conflictsPending > 0 { line += ", conflicts pending \(outcome.conflictsPending)" }
                Output.line(line)
            }
            if let problem = outcome.problem { throw AgentError(.failed, TextTable.printable(Self.withOptions(problem))) }
            if outcome.wasInterrupted, !continuous { throw AgentError(.failed, "interrupted; the next run resumes from here") }
        }
    }

    private func replication() throws -> DirectReplication {
        var replication = DirectReplication(source: try .init(source), target: try .init(target))
        replication.isBoth = both
        replication.server = ServerAuthentication(pins: try pins(), acceptsOnlySelfSigned: selfSigned)
        replication.isContinuous = continuous
        replication.resets = reset
        replication.maximumAttempts = maxAttempts == 0 ? (continuous ? nil : 3) : maxAttempts
        replication.policies.folder = AgentSettings.embeddedDefault(data: nil, plugins: plugins).plugins?.value
        replication.policies.pushFilter = pushFilter
        replication.policies.pullFilter = pullFilter
        replication.policies.resolver = resolver
        if let params {
            replication.policies.params = try ParametersText.json(params)
        }
        replication.collections = try Self.items(collections).map { try CollectionName(parsing: $0) }
        let ids = Self.items(docIds)
        if !ids.isEmpty { replication.documentIDs = try ids.map { try DocumentID($0) } }
        let channels = Self.items(channels)
        if !channels.isEmpty { replication.channels = channels }
        replication.sourceFilter = try choice.filter()
        replication.remoteID = remoteId
        if let user {
            let password = try password ?? getenv("NIGHTJAR_PASSWORD").map { String(cString: $0) } ?? PasswordPrompt.ask("Password of \(user): ")
            replication.credentials = BasicCredentials(username: user, password: password)
        }
        return replication
    }

    /// Replaces the configuration keys in an error by this command's options.
    private static func withOptions(_ text: String) -> String {
        text.with("pinned_server_certificate:", replacedBy: "--pinned")
            .with("set accept_only_self_signed_server_certificate", replacedBy: "use --self-signed")
            .with("accept_only_self_signed_server_certificate", replacedBy: "--self-signed")
    }

    private static func items(_ lists: [String]) -> [String] {
        lists.flatMap { $0.split(separator: ",").map(String.init) }
    }

    private func pins() throws -> [CertificatePin] {
        try pinned.flatMap { text -> [CertificatePin] in
            if text.hasPrefix("sha256/") {
                guard let pin = CertificatePin(publicKeyText: text) else {
                    throw AgentError(
                        .invalid, "--pinned \(text): expected sha256/ and the base64 of 32 bytes, as \"nightjar identity show\" prints it")
                }
                return [pin]
            }
            return try CertificateFile.read(text).map { .certificate($0) }
        }
    }
}
