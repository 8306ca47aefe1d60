import Agent
import AgentConfiguration
import Documents
import DocumentStore
import Encodings
import Environment
import Glibc
import Interfaces
import Logging
import LuaRuntime
import MessageEndpoints
import NIOCore
import PluginHost
import Replication
import TLS
import Transport
import UnixSignals

/// A replication without an agent: `nightjar replicate SOURCE TARGET`.
struct DirectReplication: Sendable {
    /// A database folder or the URL of a remote database.
    enum Place: Sendable, Equatable {
        case folder(path: String, name: String)
        case url(String)

        /// - Throws: ``AgentError`` that says what is wrong with the text.
        init(_ text: String) throws(AgentError) {
            let scheme = text.utf8.firstIndex(of: UInt8(ascii: ":")).map { text[..<$0].lowercased() }
            switch scheme {
            case "ws", "wss", "http", "https":
                // Checked before a folder is created for a target that cannot be reached.
                do { _ = try EndpointURL(text) } catch let error as ReplicationError {
                    throw AgentError(
                        .invalid, error.message.with("the authenticator", replacedBy: "--user and --password (or NIGHTJAR_PASSWORD)"))
                } catch { throw AgentError(.invalid, "\(text): \(error)") }
                self = .url(text)
            case "exec", "unix", "serial": self = .url(text)
            case "discover":
                throw AgentError(.invalid, "\(text): discover: works only in an agent's configuration; nightjar discover prints URLs that can be used here")
            case "local":
                throw AgentError(.invalid, "\(text): local: works only in an agent's configuration; here name the folder (DATA/NAME\(DatabaseFolders.suffix))")
            default:
                self = try Self.folder(text)
            }
        }

        private static func folder(_ text: String) throws(AgentError) -> Place {
            guard let name = DatabaseFolders.name(of: text) else {
                throw AgentError(
                    .invalid,
                    "\(text) is neither a URL (wss://HOST:PORT/DATABASE, https://HOST:PORT/DATABASE), an endpoint (exec:, unix:, serial:) nor a database folder, whose name ends in \(DatabaseFolders.suffix)")
            }
            var path = text
            while path.count > 1, path.last == "/" { path.removeLast() }
            return .folder(path: path, name: name)
        }
    }

    /// The plugins of a replication.
    struct Policies: Sendable {
        var folder: String?
        var pushFilter: String?
        var pullFilter: String?
        var resolver: String?
        /// For a single plugin, its parameters; for several, an object of them by plugin name.
        var params: JSONValue?

        init() {}

        var names: [String] { [pushFilter, pullFilter, resolver].compactMap(\.self) }

        func params(of plugin: String) throws(AgentError) -> LuaValue {
            guard let params else { return .missing }
            guard params.asObject != nil else { throw AgentError(.invalid, "--params is not a JSON object: \(params.text)") }
            guard Set(names).count > 1 else { return LuaValue(params) }
            return params[plugin].map { LuaValue($0) } ?? .missing
        }
    }

    var source: Place
    var target: Place
    /// Both ways; otherwise only from source to target.
    var isBoth = false
    var isContinuous = false
    var resets = false
    var policies = Policies()
    /// Empty for the default collection.
    var collections: [CollectionName] = []
    var documentIDs: [DocumentID]?
    var channels: [String]?
    /// What a CouchDB source is asked to leave out.
    var sourceFilter: SourceFilter?
    /// A stable id for a remote whose address changes; nil to use the address.
    var remoteID: String?
    var credentials: BasicCredentials?
    /// How a remote's TLS certificate is verified.
    var server = ServerAuthentication()
    /// See ``RetryMachine/Settings``.
    var maximumAttempts: Int?
    private let environment = Environment.system

    init(source: Place, target: Place) {
        self.source = source
        self.target = target
    }

    /// The result.
    struct Outcome: Sendable {
        var status: ReplicatorStatus
        /// The replicator in the form of `GET /api/status`.
        var json: JSONValue
        var held: Int
        var conflictsPending: Int
        /// The first errors for single documents.
        var documentErrors: [String]
        /// Whether a signal ended it.
        var wasInterrupted: Bool

        /// Why the replication did not do everything it was asked to, in words; nil if it did.
        var problem: String? {
            if let error = status.error { return "the replication failed: \(error)" }
            if status.counts.failed > 0 {
                return "\(Plural.count(status.counts.failed, "document")) failed: \(errors(of: Int(clamping: status.counts.failed)))"
            }
            if held > 0 { return "\(Plural.count(held, "document")) held because a filter failed, it is too large, or a blob cannot be taken or given: \(errors(of: held))" }
            return nil
        }

        private func errors(of count: Int) -> String {
            let more = count - documentErrors.count
            return documentErrors.joined(separator: "; ") + (more > 0 ? "; and \(more) more" : "")
        }
    }

    /// How many errors for single documents an outcome names.
    static let errorsKept = 5

    // MARK: - Run

    /// Runs until everything is replicated, an error ends it, or it receives SIGINT or SIGTERM, which is how a continuous replication ends.
    ///
    /// - Parameters:
    ///   - isVerbose: whether to log on standard error.
    ///   - progress: called a few times a second.
    func run(
        group: any EventLoopGroup, isVerbose: Bool, progress: @escaping @Sendable (ReplicatorStatus) -> Void
    ) async throws -> Outcome {
        let logger = isVerbose ? LogSink(time: environment.time).logger(.replicator) : Logger(label: "nightjar") { _ in SwiftLogNoOpLogHandler() }
        var opened: [Database] = []
        defer { for database in opened { database.close() } }
        let plan = try plan()
        let local = try Self.open(plan.local, creates: plan.type.pulls)
        opened.append(local)
        try prepareCollections(local, creates: plan.type.pulls)
        let connector: any TransportConnector
        switch plan.remote {
        case .url(let url) where !["ws", "http"].contains(where: { url.lowercased().hasPrefix($0) }):
            connector = try endpoint(url, group: group, logger: logger)
        case .url(let url):
            var client = WebSocketClient.Configuration(url: try EndpointURL(url))
            client.userAgent = "nightjar/\(AgentVersion.number)"
            client.credentials = credentials.map { .basic($0) }
            if client.url.isSecure {
                client.secureLayer = .tls(client: CurrentContext(try TLSContext(client: TLSClientOptions(serverAuthentication: server))))
            }
            if url.lowercased().hasPrefix("ws") {
                connector = WebSocketClient(client, group: group, environment: environment)
            } else {
                connector = DatabaseClient(client, group: group, environment: environment)
            }
        case .folder:
            let remote = try Self.open(plan.remote, creates: plan.type.pushes)
            opened.append(remote)
            try prepareCollections(remote, creates: plan.type.pushes)
            connector = FolderConnector(database: remote, group: group, logger: logger)
        }
        let host = try await plugins(local, logger)
        var configuration = ReplicatorConfiguration(
            name: "replicate", database: local, target: plan.remote.key, type: plan.type, isContinuous: isContinuous,
            collections: try collectionReplications(host), retry: RetryMachine.Settings(maximumAttempts: maximumAttempts))
        configuration.remoteID = remoteID
        configuration.login = credentials.map { "user \($0.username)" } ?? ReplicatorAuthenticator.noLogin
        configuration.shownTarget = ReplicatorTarget.shown(configuration.target)
        let replicator = Replicator(configuration: configuration, connector: connector, environment: environment, logger: logger)
        let outcome = await follow(replicator, progress)
        await host?.shutdown()
        return outcome
    }

    /// The byte stream to a command, socket or device.
    private func endpoint(_ text: String, group: any EventLoopGroup, logger: Logger) throws -> any TransportConnector {
        let target: ReplicatorTarget
        do { target = try ReplicatorTarget(parsing: text) } catch { throw AgentError(.invalid, "\(text): \(error)") }
        guard let address = EndpointAddress(target) else { throw AgentError(.invalid, "\(text) is not an endpoint") }
        return EndpointConnector(
            address, offer: EndpointOffer(database: target.database ?? "", username: credentials?.username, password: credentials?.password), group: group,
            environment: environment, logger: logger)
    }

    private func plan() throws -> (local: Place, remote: Place, type: ReplicatorType) {
        switch (source, target) {
        case (.folder, _): return (source, target, isBoth ? .pushAndPull : .push)
        case (.url, .folder): return (target, source, isBoth ? .pushAndPull : .pull)
        case (.url, .url):
            throw AgentError(
                .invalid,
                "SOURCE and TARGET are both URLs: one of them must be a database folder (DATA/NAME.nightjar), "
                    + "which keeps track of what was replicated")
        }
    }

    private static func open(_ place: Place, creates: Bool) throws -> Database {
        guard case .folder(let path, let name) = place else { throw AgentError(.invalid, "not a folder") }
        if !DatabaseFolders.exists(path) {
            guard creates else { throw AgentError(.notFound, "there is no database in \(path)") }
            try Folders.make(path)
        }
        var options = DatabaseOptions()
        // The agent, whose configuration limits the history's length, trims it at its next start.
        options.conflictHistory = .max
        options.deltaBases?.maxBytes = .max
        return try Database.open(folder: path, name: name, options: options)
    }

    private func prepareCollections(_ database: Database, creates: Bool) throws {
        for name in collections where database.collection(name) == nil {
            guard creates else {
                throw AgentError(
                    .notFound,
                    "\(database.folder) has no collection \(name); it has \(database.collections.map(\.name.description).joined(separator: ", "))")
            }
            _ = try database.createCollection(name)
        }
    }

    private func plugins(_ database: Database, _ logger: Logger) async throws -> PluginHost? {
        guard let first = policies.names.first else { return nil }
        guard let folder = policies.folder else {
            throw AgentError(.notFound, "plugin \"\(first)\" is needed, but there is no folder ./plugins: name the plugins folder with --plugins")
        }
        let host = try PluginHost(
            folder: folder, services: DatabaseServices { $0.utf8.elementsEqual(database.name.utf8) ? database : nil },
            logger: logger, environment: environment)
        await host.start()
        return host
    }

    private func collectionReplications(_ host: PluginHost?) throws -> [CollectionReplication] {
        try (collections.isEmpty ? [.default] : collections).map { name in
            var collection = CollectionReplication(collection: name)
            if let host {
                if let plugin = policies.pushFilter {
                    collection.pushFilter = try host.pushFilter(plugin: plugin, params: policies.params(of: plugin), usedBy: "--push-filter")
                }
                if let plugin = policies.pullFilter {
                    collection.pullFilter = try host.pullFilter(plugin: plugin, params: policies.params(of: plugin), usedBy: "--pull-filter")
                }
                if let plugin = policies.resolver {
                    collection.resolver = try host.resolver(plugin: plugin, params: policies.params(of: plugin), usedBy: "--resolver")
                }
            }
            collection.documentIDs = documentIDs
            collection.channels = channels
            collection.sourceFilter = sourceFilter
            return collection
        }
    }

    private func follow(_ replicator: Replicator, _ progress: @escaping @Sendable (ReplicatorStatus) -> Void) async -> Outcome {
        let events = replicator.documentEvents()
        let errors = Task {
            var errors: [String] = []
            for await batch in events {
                for event in batch where errors.count < Self.errorsKept {
                    if let error = event.error { errors.append("\(event.id): \(error)") }
                }
            }
            return errors
        }
        let ticker = Task { [environment] in
            while !Task.isCancelled {
                progress(replicator.status)
                try? await environment.time.sleep(nanoseconds: 200_000_000)
            }
        }
        let interrupts = Task {
            for await _ in await UnixSignalsSequence(trapping: .sigint, .sigterm) {
                await replicator.stop()
                return true
            }
            return false
        }
        await replicator.start(reset: resets)
        let status = await replicator.waitUntilStopped()
        ticker.cancel()
        interrupts.cancel()
        errors.cancel()
        await ticker.value
        progress(status)
        let statistics = (try? await replicator.configuration.database.statistics()) ?? []
        return Outcome(
            status: status, json: await Agent.report(replicator), held: (try? await replicator.heldCount()) ?? 0,
            conflictsPending: statistics.reduce(0) { $0 + $1.conflictsPending }, documentErrors: await errors.value,
            wasInterrupted: await interrupts.value)
    }
}

extension DirectReplication.Place {
    /// What identifies the remote in checkpoints.
    var key: String {
        switch self {
        case .url(let url): return url
        case .folder(let path, _):
            guard let absolute = realpath(path, nil) else { return "file:\(path)" }
            defer { free(absolute) }
            return "file:\(String(cString: absolute))"
        }
    }
}

/// Connects to a database in this process: both sides of the protocol run here, joined in memory.
private struct FolderConnector: TransportConnector {
    let database: Database
    let group: any EventLoopGroup
    let logger: Logger

    func connect() async throws -> any MessageTransport {
        let (active, passive) = InMemoryTransport.pair(group.next(), group.next())
        let session = ReplicationSession(
            transport: passive, role: .passive(PassiveConfiguration(listener: "folder", database: database)), environment: database.environment,
            logger: logger)
        await session.start()
        return active
    }
}
