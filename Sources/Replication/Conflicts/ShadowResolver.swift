import Documents
import DocumentStore
import Environment
import Interfaces
import Synchronization

/// A resolver that only watches: it gets every conflict after the live one has decided it and the decision is durable, and
/// what it would have done is added to the history. Nobody waits for it.
///
/// Conflicts that come faster than it decides are passed over beyond `shadow_queue` and `shadow_queue_bytes`; the history says so.
public final class ShadowResolver: Sendable {
    /// `shadow_queue`: conflicts that wait for the shadow.
    static let maximumWaiting = 1_000
    /// `shadow_queue_bytes`: bytes of their bodies.
    static let maximumWaitingBytes = 16 << 20

    /// A conflict that the live resolver decided.
    struct Question: Sendable {
        var conflict: PolicyConflict
        var context: PolicyContext
        var decision: ConflictDecision
        /// In the history.
        var number: Int64

        var bytes: Int {
            [conflict.local, conflict.remote, conflict.base].reduce(512) { $0 + ($1?.body.count ?? 0) }
        }
    }

    private struct State {
        var waiting: [Question] = []
        var bytes = 0
        var isRunning = false
        var isStopped = false
        /// Numbers in the history; bounded like the history that a flood leaves behind.
        var passedOver: [Int64] = []
        var idle: [CheckedContinuation<Void, Never>] = []
    }

    public let resolver: any ConflictResolver
    private let database: Database
    private var environment: Environment { database.environment }
    private let state = Mutex(State())

    public init(_ resolver: any ConflictResolver, database: Database) {
        self.resolver = resolver
        self.database = database
    }

    func ask(_ question: Question) {
        let starts = state.withLock { state -> Bool in
            if state.isStopped { return false }
            if state.waiting.count < Self.maximumWaiting, state.bytes + question.bytes <= Self.maximumWaitingBytes {
                state.waiting.append(question)
                state.bytes += question.bytes
            } else if state.passedOver.count < 10 * Self.maximumWaiting {
                state.passedOver.append(question.number)
            }
            defer { state.isRunning = true }
            return !state.isRunning
        }
        if starts { environment.task(priority: .low) { await self.run() } }
    }

    /// Before the plugins end: what waits stays without a verdict, as if there were no shadow.
    public func stop() {
        state.withLock { state in
            state.isStopped = true
            state.waiting = []
            state.bytes = 0
            state.passedOver = []
        }
    }

    /// Returns when nothing waits any more.
    public func drained() async {
        await withCheckedContinuation { continuation in
            let isIdle = state.withLock { state -> Bool in
                if state.isRunning { state.idle.append(continuation) }
                return !state.isRunning
            }
            if isIdle { continuation.resume() }
        }
    }

    private func run() async {
        while true {
            let (batch, passedOver, waiters) = state.withLock { state -> ([Question], [Int64], [CheckedContinuation<Void, Never>]) in
                let batch = Array(state.waiting.prefix(50))
                state.waiting.removeFirst(batch.count)
                state.bytes -= batch.reduce(0) { $0 + $1.bytes }
                defer { state.passedOver = [] }
                guard batch.isEmpty, state.passedOver.isEmpty else { return (batch, state.passedOver, []) }
                state.isRunning = false
                defer { state.idle = [] }
                return ([], [], state.idle)
            }
            if batch.isEmpty, passedOver.isEmpty {
                for waiter in waiters { waiter.resume() }
                return
            }
            var verdicts = passedOver.map { ($0, self.passedOver) }
            for question in batch { verdicts.append((question.number, await verdict(question))) }
            if state.withLock({ $0.isStopped }) { continue }
            // Without a database nobody looks at the history either.
            _ = try? await database.write { [verdicts] transaction in
                for (number, verdict) in verdicts { try transaction.recordShadow(number, verdict) }
            }
        }
    }

    private var passedOver: ShadowVerdict {
        ShadowVerdict(
            outcome: .failed, plugin: resolver.pluginName, version: resolver.version, decision: nil,
            error: "not run: \(Self.maximumWaiting) conflicts (shadow_queue) or \(Self.maximumWaitingBytes) bytes (shadow_queue_bytes) were waiting",
            microseconds: 0)
    }

    private func verdict(_ question: Question) async -> ShadowVerdict {
        let version = resolver.version
        let start = environment.time.monotonicNanoseconds()
        let decision = await resolver.resolve(question.conflict, question.context)
        let microseconds = Int64((environment.time.monotonicNanoseconds() - start) / 1_000)
        if case .failed(let failure) = decision {
            return ShadowVerdict(
                outcome: .failed, plugin: failure.plugin, version: failure.version, decision: nil,
                error: "\(failure.kind): \(failure.message)", microseconds: microseconds)
        }
        let own = ConflictResult(decision, of: question.conflict)
        let live = ConflictResult(question.decision, of: question.conflict)
        var isSame = false
        if let own, let live { isSame = own.isSame(as: live) }
        var merged: [UInt8]?
        if case .merged(let body) = decision { merged = body }
        return ShadowVerdict(
            outcome: isSame ? .same : .differs, plugin: resolver.pluginName, version: version, decision: decision.resolution?.kind,
            merged: merged, microseconds: microseconds)
    }
}
