import LuaRuntime
import Replication

/// One conflict for a resolver.
final class ResolveJob: PluginJob {
    private let call: PluginCall
    private let conflict: PolicyConflict
    private let continuation: CheckedContinuation<ConflictDecision, Never>

    init(_ call: PluginCall, _ conflict: PolicyConflict, _ continuation: CheckedContinuation<ConflictDecision, Never>) {
        self.call = call
        self.conflict = conflict
        self.continuation = continuation
    }

    var line: Int { call.record.number }

    func refuse(_ error: PluginError) { continuation.resume(returning: .failed(call.refused(error))) }

    func run(on worker: PluginWorker, until deadline: UInt64) -> Bool {
        guard call.breaker.admit() != .none else {
            call.record.statistics.notAsked(1, call.hook)
            continuation.resume(returning: .failed(call.notAsked()))
            return true
        }
        let state = worker.state(for: call.version, of: call.record)
        var counts = TurnCounts()
        let before = monotonicNanoseconds()
        let decision: ConflictDecision
        do throws(LuaFailure) {
            let entered = try state.enter(call.prepared, call.context)
            let answer = try entered.lua.callResolve(
                LuaConflict(
                    id: conflict.id.text, local: Self.document(conflict.local), remote: Self.document(conflict.remote),
                    base: Self.document(conflict.base), localRevision: conflict.localRevision.text,
                    remoteRevision: conflict.remoteRevision.text, baseRevision: conflict.baseRevision?.text),
                use: entered.use, limits: call.limits)
            decision = switch answer {
            case .local: .local
            case .remote: .remote
            case .delete: .delete
            case .merged(let body): .merged(body)
            }
            call.succeeded()
            state.dropIfSpent()
        } catch {
            decision = .failed(call.failed(error, sample: call.sample(conflict)))
            state.dropIfSpent(after: error)
        }
        counts.took(monotonicNanoseconds() &- before)
        call.record.statistics.add(counts, call.hook)
        continuation.resume(returning: decision)
        return true
    }

    private static func document(_ document: PolicyDocument?) -> LuaDocument? {
        document.map { LuaDocument(id: $0.id.text, revision: $0.revision.text, isDeleted: $0.isDeleted, body: $0.body) }
    }
}
