import Documents
import DocumentStore
import Environment
import Interfaces

/// A resolver that only observes: it is given every conflict after the live resolver has decided it and the decision is durable, and its own decision
/// is added to the history. Nothing waits for it.
///
/// If conflicts arrive faster than it decides, those beyond `shadow_queue` and `shadow_queue_bytes` are skipped; the history says so.
public final class ShadowResolver: Sendable {
    /// A conflict that the live resolver decided.
    struct Question: Sendable {
        var conflict: PolicyConflict
        var context: PolicyContext
        var decision: ConflictDecision
        /// The version of the live resolver.
        var version: String
        /// The number of the decision in the history.
        var number: Int64

        var bytes: Int {
            [conflict.local, conflict.remote, conflict.base].reduce(512) { $0 + ($1?.body.count ?? 0) }
        }
    }

    fileprivate enum Entry: Sendable {
        case question(Question)
        /// The number in the history of a conflict that was skipped.
        case passedOver(Int64)
    }

    public let resolver: any ConflictResolver
    private let counter: (any ShadowCounter)?
    private let queue: ShadowQueue<Entry>

    /// - Parameter counter: receives the result of each comparison.
    public init(_ resolver: any ConflictResolver, database: Database, counter: (any ShadowCounter)? = nil) {
        self.resolver = resolver
        self.counter = counter
        let comparison = ShadowComparison(resolver: resolver, database: database, counter: counter)
        queue = ShadowQueue(database.environment) { queue, entries in
            await comparison.answer(entries, isWanted: { !queue.isStopped })
        }
    }

    func ask(_ question: Question) {
        guard queue.offer([question.bytes], { _ in .question(question) }) == 0 else { return }
        counter?.skipped(1)
        queue.note(.passedOver(question.number))
    }

    /// To be called before the plugins stop: what is waiting gets no verdict, as if there were no shadow.
    public func stop() { queue.stop() }

    /// Returns when nothing waits any more.
    public func drained() async { await queue.drained() }
}

/// Calls the shadow, and records its decision.
private struct ShadowComparison: Sendable {
    let resolver: any ConflictResolver
    let database: Database
    let counter: (any ShadowCounter)?

    func answer(_ entries: [ShadowResolver.Entry], isWanted: @Sendable () -> Bool) async {
        var verdicts: [(Int64, ShadowVerdict)] = []
        for entry in entries {
            switch entry {
            case .passedOver(let number): verdicts.append((number, passedOver))
            case .question(let question):
                let verdict = await verdict(question)
                guard isWanted() else { return }
                verdicts.append((question.number, verdict))
                counter?.count([finding(verdict, question)], serving: question.version, candidate: verdict.version)
            }
        }
        guard isWanted() else { return }
        // Without a database nobody looks at the history either.
        _ = try? await database.write { [verdicts] transaction in
            for (number, verdict) in verdicts { try transaction.recordShadow(number, verdict) }
        }
    }

    private var passedOver: ShadowVerdict {
        ShadowVerdict(
            outcome: .failed, plugin: resolver.pluginName, version: resolver.version, decision: nil,
            error: "not run: its queue was full (shadow_queue \(ShadowLimits.waiting), shadow_queue_bytes \(ShadowLimits.waitingBytes))",
            microseconds: 0)
    }

    private func finding(_ verdict: ShadowVerdict, _ question: ShadowResolver.Question) -> ShadowFinding {
        let outcome: ShadowFinding.Outcome = switch verdict.outcome {
        case .same: .same
        case .differs: .different
        case .failed: .failed
        }
        guard outcome != .same else { return ShadowFinding(.same, id: question.conflict.id, collection: question.context.collection) }
        let live = question.decision.resolution?.kind.rawValue ?? "no decision"
        let own = verdict.decision.map { $0.rawValue == "merged" && live == "merged" ? "merged otherwise" : $0.rawValue } ?? verdict.error
        return ShadowFinding(
            outcome, id: question.conflict.id, collection: question.context.collection,
            serving: "\(live) (nightjar conflicts show \(question.number))", candidate: own)
    }

    private func verdict(_ question: ShadowResolver.Question) async -> ShadowVerdict {
        let time = database.environment.time
        let version = resolver.version
        let start = time.monotonicNanoseconds()
        let decision = await resolver.resolve(question.conflict, question.context)
        let microseconds = Int64((time.monotonicNanoseconds() - start) / 1_000)
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
