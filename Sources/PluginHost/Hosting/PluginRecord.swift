import Logging
import LuaRuntime
import Synchronization

/// One plugin by name; stays the same over its versions. What is in force changes under one lock, so that all uses
/// change at one moment.
final class PluginRecord: Sendable {
    let name: String
    /// Its line in the worker pool.
    let number = LoadedVersion.nextSerial()
    let services: any PluginServices
    let statistics = CallStatistics()
    let throttle: LogThrottle
    let metrics = PluginMetrics()
    private let logger: Logger
    private let events: EventHub<PluginEvent>
    private let loggedFailures: Int
    private let fields = Mutex(Fields())

    struct Refused: Sendable, Equatable {
        /// Empty where the files could not even be read.
        var version: String
        /// Of the files with the tests beside them.
        var identity: String
        var problem: PluginProblem
        /// The same files will be refused again.
        var isFinal: Bool
    }

    /// One place that names the plugin.
    struct Registration: Sendable {
        var usedBy: String
        var hook: LuaHook
        /// As the configuration gives them.
        var params: LuaValue
        /// Texts of files, by parameter.
        var texts: [String: ParameterFiles.Text]
        /// Why files cannot be read now, by parameter.
        var fileProblems: [String: String]
        var versions: EventHub<String>
    }

    struct Fields: Sendable {
        var inForce: LoadedVersion?
        var prepared: [Int: PreparedUse] = [:]
        var uses: [Int: Registration] = [:]
        var generation: UInt64 = 0
        var refused: Refused?
        var isMissing = false
        /// Taken out of the host's list; nobody may begin to use it.
        var isRemoved = false
        var seenFailures: Set<String> = []
    }

    init(name: String, limits: PluginHostLimits, services: any PluginServices, logger: Logger, events: EventHub<PluginEvent>) {
        self.name = name
        self.services = services
        self.events = events
        var logger = logger
        logger[metadataKey: "plugin"] = "\(name)"
        self.logger = logger
        throttle = LogThrottle(linesPerSecond: limits.limits(for: name).logLinesPerSecond ?? limits.logLinesPerSecond)
        loggedFailures = limits.loggedFailuresPerVersion
    }

    func read<Result>(_ body: (borrowing Fields) -> Result) -> Result where Result: Sendable { fields.withLock { body($0) } }
    func change<Result>(_ body: (inout Fields) -> Result) -> Result where Result: Sendable { fields.withLock { body(&$0) } }

    /// The version in force and this use's parameters for it, of one moment.
    func acquire(_ use: Int) -> (version: LoadedVersion, prepared: PreparedUse)? {
        fields.withLock { fields in
            guard let version = fields.inForce, let prepared = fields.prepared[use] else { return nil }
            return (version, prepared)
        }
    }

    /// Counts a failure; the first of its kind in a version is logged and sent.
    func failed(_ failure: LuaFailure, version: String) {
        statistics.failed(failure)
        let isNew = fields.withLock { fields in
            guard fields.seenFailures.count < loggedFailures else { return false }
            return fields.seenFailures.insert("\(version) \(failure.kind.rawValue) \(failure.message)").inserted
        }
        if isNew { send(.failed(plugin: name, version: version, kind: failure.kind.rawValue, message: failure.message)) }
    }

    /// A line of the plugin's own.
    func log(_ level: LuaLogLevel, _ message: String, _ fields: LuaValue) {
        switch throttle.ask() {
        case .drop:
            statistics.droppedLogLines(1)
        case .pass(let droppedBefore):
            reportDropped(droppedBefore)
            var metadata: Logger.Metadata = [:]
            if case .object(let members) = fields {
                for member in members { metadata[member.key] = .string(member.value.text ?? member.value.json.text) }
            }
            logger.log(level: level.swiftLogLevel, "\(message)", metadata: metadata)
        }
    }

    func reportDropped(_ lines: Int) {
        if lines > 0 { logger.warning("log lines dropped", metadata: ["lines": "\(lines)"]) }
    }

    func send(_ event: PluginEvent) {
        event.log(to: logger)
        events.send(event)
    }

    func status() -> PluginStatus {
        let counts = statistics.read()
        let fields = fields.withLock { $0 }
        return PluginStatus(
            name: name, description: fields.inForce?.description, version: fields.inForce?.source.version, generation: fields.generation,
            state: fields.isMissing ? .missing : fields.refused != nil ? .refused : .active,
            hooks: fields.inForce?.hookNames ?? [], usedBy: fields.uses.values.map(\.usedBy).sorted(),
            calls: counts.calls, errors: counts.errors, rejected: counts.rejected,
            p99Milliseconds: counts.latencies.quantile(0.99).map { $0 / 1e6 }, limitHits: counts.hits,
            refused: fields.refused.map { PluginStatus.Refusal(version: $0.version, error: $0.problem.description) },
            parameterProblems: fields.uses.values.flatMap { use in
                use.fileProblems.sorted { $0.key < $1.key }.map { "\(use.usedBy): \($0.value)" }
            }.sorted(),
            lastFailure: counts.lastFailure)
    }
}

extension LuaLogLevel {
    var swiftLogLevel: Logger.Level {
        switch self {
        case .debug: .debug
        case .info: .info
        case .warning: .warning
        case .error: .error
        }
    }
}

extension PluginEvent {
    func log(to logger: Logger) {
        switch self {
        case .loaded(_, let version): logger.info("plugin loaded", metadata: ["version": "\(version)"])
        case .reloaded(_, let from, let to): logger.notice("plugin reloaded", metadata: ["version": "\(to)", "from": "\(from)"])
        case .refused(_, let version, let serving, let problem):
            logger.error("plugin refused: \(problem)", metadata: ["version": "\(version)", "serving": "\(serving ?? "nothing")"])
        case .missing(_, let serving):
            logger.warning("plugin's file is gone; its last version keeps serving", metadata: ["version": "\(serving)"])
        case .returned(_, let version): logger.notice("plugin's file is back", metadata: ["version": "\(version)"])
        case .restored(_, let version): logger.notice("plugin's file is again the version in force", metadata: ["version": "\(version)"])
        case .removed: logger.info("plugin removed")
        case .parameterFileChanged(_, let usedBy, let parameter):
            logger.notice("parameter file changed", metadata: ["used_by": "\(usedBy)", "parameter": "\(parameter)"])
        case .parameterFileRefused(_, let usedBy, let parameter, let message):
            logger.error(
                "parameter file cannot be read; its last text stays in force: \(message)",
                metadata: ["used_by": "\(usedBy)", "parameter": "\(parameter)"])
        case .failed(_, let version, let kind, let message):
            logger.error("plugin failed: \(message)", metadata: ["version": "\(version)", "kind": "\(kind)"])
        case .folder(let problem): logger.warning("plugins folder: \(problem)")
        }
    }
}
