import Environment
import Interfaces
import Logging
import LuaRuntime
import Synchronization

/// One plugin by name; remains the same object for all its versions. The version in force changes under one lock, so that all uses change
/// at the same moment.
final class PluginRecord: Sendable {
    let name: String
    /// Its queue in the worker pool.
    let number = LoadedVersion.nextSerial()
    let services: any PluginServices
    let statistics = CallStatistics()
    let throttle: LogThrottle
    let metrics = PluginMetrics()
    private let logger: Logger
    private let events: EventHub<PluginEvent>
    private let limits: PluginHostLimits
    let environment: Environment
    private let breakerOpened: @Sendable () -> Void
    private let fields = Mutex(Fields())

    struct Refused: Sendable, Equatable {
        /// Empty if the files could not even be read.
        var version: String
        /// For the files including the tests.
        var identity: String
        var problem: PluginProblem
        /// The same files would be refused again.
        var isFinal: Bool
    }

    /// A place that uses the plugin.
    struct Registration: Sendable {
        var usedBy: String
        var hook: LuaHook
        /// As configured.
        var params: LuaValue
        /// The texts of files, by parameter.
        var texts: [String: ParameterFiles.Text]
        /// Why files cannot be read at the moment, by parameter.
        var fileProblems: [String: String]
        var versions: EventHub<String>
        var breaker: Breaker
        /// For each call; nil for the plugin's own limits.
        var limits: LuaCallLimits?
        /// For a candidate, whose answers have no effect: where its comparisons are counted. Its failures hold nothing and affect nobody.
        var shadow: ShadowTally?
    }

    struct Fields: Sendable {
        var inForce: LoadedVersion?
        var prepared: [Int: PreparedUse] = [:]
        var uses: [Int: Registration] = [:]
        var generation: UInt64 = 0
        var refused: Refused?
        /// Refused only because of the parameters of some uses; comes into force once a changed configuration has replaced those uses.
        var successor: LoadedVersion?
        /// For the files whose tests have passed with the version in force.
        var provenIdentity = ""
        var standing = PluginTestState.trusted
        /// What is wrong with the signature of the version in force; if set, the version is not called.
        var unsigned: PluginProblem?
        /// Callers that wait for the end of the tests; false if they may not.
        var waiting: [CheckedContinuation<Bool, Never>] = []
        var rollback: PluginRollback?
        var kept: [KeptVersion] = []
        var isMissing = false
        /// Removed from the host's list; nothing new may use it.
        var isRemoved = false
        var seenFailures: Set<String> = []

        /// The version that is asked, or will be once its tests are over.
        var serving: String? {
            if unsigned != nil { return nil }
            return if case .failed = standing { nil } else { inForce?.source.version }
        }

        /// Why the files in the folder are refused, and why nothing serves in their place.
        var refusal: PluginStatus.Refusal? {
            guard let unsigned else {
                return refused.map {
                    PluginStatus.Refusal(version: $0.version, error: $0.problem.description, signature: $0.problem.isOfSignature ? $0.problem.file : nil)
                }
            }
            let version = inForce?.source.version ?? ""
            guard let refused else { return PluginStatus.Refusal(version: version, error: unsigned.description, signature: unsigned.file) }
            return PluginStatus.Refusal(version: refused.version, error: "\(refused.problem); \(unsigned)", signature: unsigned.file)
        }
    }

    init(_ name: String, _ core: HostCore) {
        self.name = name
        services = core.services
        events = core.events
        limits = core.limits
        environment = core.environment
        var logger = core.logger
        logger[metadataKey: "plugin"] = "\(name)"
        self.logger = logger
        throttle = LogThrottle(linesPerSecond: core.limits.logLines(for: name))
        breakerOpened = { [weak core] in core?.wakeSupervisor.withLock { $0 }?() }
    }

    var mostWaiting: Int { limits.queuedCalls }

    func read<Result>(_ body: (borrowing Fields) -> Result) -> Result where Result: Sendable { fields.withLock { body($0) } }
    func change<Result>(_ body: (inout Fields) -> Result) -> Result where Result: Sendable { fields.withLock { body(&$0) } }

    func reportBreakerOpened() { breakerOpened() }
    func newBreaker(_ hook: LuaHook) -> Breaker {
        let opens = ![.authenticatePassword, .authenticateCertificate, .token, .getSession, .selectPeer].contains(hook)
        return Breaker(limits, opens: opens, clock: { [time = environment.time] in time.monotonicNanoseconds() })
    }

    /// A call for this use: the version in force and the use's parameters for it, both from the same moment.
    func call(_ use: Int, _ context: CallContext) -> PluginCall? {
        fields.withLock { fields in
            guard fields.unsigned == nil, let version = fields.inForce, let prepared = fields.prepared[use], let registration = fields.uses[use] else { return nil }
            let usual = switch registration.hook {
            case .resolve, .sync, .transform, .onStatus, .onDocuments: version.limits.resolver
            case .authenticatePassword, .authenticateCertificate, .token, .getSession, .selectPeer: version.limits.authenticator
            case .pushFilter, .pullFilter: version.limits.filter
            }
            let isCandidate = registration.shadow != nil
            var context = context
            if isCandidate { context.mayWriteState = fields.uses.values.allSatisfy { $0.shadow != nil } }
            return PluginCall(
                record: self, use: use, hook: registration.hook, version: version, prepared: prepared, breaker: registration.breaker,
                context: context, limits: registration.limits ?? usual, sampleBytes: limits.breakerSampleBytes,
                isCandidate: isCandidate)
        }
    }

    /// Counts a failure; the first of its kind in a version is logged and published.
    func failed(_ failure: LuaFailure, hook: LuaHook, version: String) {
        statistics.failed(failure, hook)
        let isNew = fields.withLock { fields in
            guard fields.seenFailures.count < limits.loggedFailuresPerVersion else { return false }
            return fields.seenFailures.insert("\(version) \(failure.kind.rawValue) \(failure.message)").inserted
        }
        if isNew { send(.failed(plugin: name, version: version, kind: failure.kind.rawValue, message: failure.message)) }
    }

    /// A log line from the plugin itself.
    func log(_ level: LuaLogLevel, _ message: String, _ fields: LuaValue) {
        switch throttle.ask(now: environment.time.monotonicNanoseconds()) {
        case .drop:
            statistics.droppedLogLines(1)
        case .pass(let droppedBefore):
            reportDropped(droppedBefore)
            var metadata: Logger.Metadata = [:]
            if case .object(let members) = fields {
                for member in members { metadata[member.key] = .string(member.value.text ?? member.value.json.text) }
            }
            logger.log(level: level.swiftLogLevel, "\(message)", metadata: metadata, source: PluginHost.logSource)
        }
    }

    func reportDropped(_ lines: Int) {
        if lines > 0 { logger.warning("log lines dropped", metadata: ["lines": "\(lines)"]) }
    }

    func send(_ event: PluginEvent) {
        var logger = logger
        logger[metadataKey: "generation"] = "\(read { $0.generation })"
        event.log(to: logger)
        events.send(event)
    }

    func status() -> PluginStatus {
        let counts = statistics.read()
        let fields = fields.withLock { $0 }
        let all = counts.all
        let now = environment.time.monotonicNanoseconds()
        let failing = fields.uses.values.filter { $0.shadow == nil }.compactMap { use in
            use.breaker.opened.map { opened in
                PluginStatus.Failing(
                    usedBy: use.usedBy, failures: opened.failures, seconds: Int((now &- opened.since) / 1_000_000_000),
                    error: opened.cause, peer: opened.peer)
            }
        }.sorted { $0.usedBy < $1.usedBy }
        return PluginStatus(
            name: name, description: fields.inForce?.description, version: fields.serving, generation: fields.generation,
            state: fields.unsigned != nil ? .refused : fields.isMissing ? .missing : fields.standing == .testing ? .testing
                : !failing.isEmpty ? .failing : fields.refused != nil ? .refused : .active,
            hooks: fields.inForce?.hookNames ?? [], usedBy: fields.uses.filter { fields.prepared[$0.key] != nil }.values.map(\.usedBy).sorted(),
            calls: all.calls, errors: all.errors.reduce(0, +), rejected: all.rejected, notAsked: all.notAsked,
            p99Milliseconds: all.latencies.quantile(0.99).map { $0 / 1e6 }, limitHits: counts.hits,
            memoryBytes: counts.memoryBytes, states: counts.states,
            perHook: counts.hooks.map { PluginStatus.Hook($0.key.rawValue, $0.value) }.sorted { $0.name < $1.name },
            refused: fields.refusal,
            rolledBack: fields.rollback, keptVersions: fields.kept, failing: failing,
            loginFailures: fields.uses.values.compactMap { use in
                use.breaker.recent.map { "\(use.usedBy): \($0.kind.rawValue): \($0.message)" }
            }.sorted(),
            parameterProblems: fields.uses.values.flatMap { use in
                use.fileProblems.sorted { $0.key < $1.key }.map { "\(use.usedBy): \($0.value)" }
            }.sorted(),
            shadows: Self.shadows(fields.uses.values),
            isOnlyShadow: !fields.uses.isEmpty && fields.uses.values.allSatisfy { $0.shadow != nil }, lastFailure: counts.lastFailure)
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
