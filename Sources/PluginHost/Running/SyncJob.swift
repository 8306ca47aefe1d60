import Interfaces
import LuaRuntime

/// One batch of writes for sync, judged by the same version from the first to the last.
///
/// Unchecked: `verdicts` is only accessed by the worker that runs the job; a job is passed between workers under the pool's lock.
final class SyncJob: PluginJob, @unchecked Sendable {
    private let call: PluginCall
    private let requests: [SyncRequest]
    private var verdicts: [SyncVerdict] = []
    private let continuation: CheckedContinuation<[SyncVerdict], Never>

    init(_ call: PluginCall, _ requests: [SyncRequest], _ continuation: CheckedContinuation<[SyncVerdict], Never>) {
        self.call = call
        self.requests = requests
        self.continuation = continuation
    }

    var line: Int { call.line }

    func refuse(_ error: PluginError) {
        while verdicts.count < requests.count { verdicts.append(.failed(call.refused(error))) }
        continuation.resume(returning: verdicts)
    }

    func run(on worker: PluginWorker, until deadline: UInt64) -> Bool {
        let state = worker.state(for: call.version, of: call.record)
        var counts = TurnCounts()
        let isDone = work(state, until: deadline, &counts)
        // Before the answer, so that a caller that has the answer finds the calls in the status.
        call.record.statistics.add(counts, call.hook)
        if isDone { continuation.resume(returning: verdicts) }
        return isDone
    }

    private func work(_ state: VersionState, until deadline: UInt64, _ counts: inout TurnCounts) -> Bool {
        var before = call.record.environment.time.monotonicNanoseconds()
        while verdicts.count < requests.count {
            guard call.breaker.admit(call.context.peer) != .none else {
                let left = requests.count - verdicts.count
                call.record.statistics.notAsked(left, call.hook)
                verdicts += Array(repeating: .failed(call.notAsked()), count: left)
                break
            }
            let request = requests[verdicts.count]
            do throws(LuaFailure) {
                let entered = try state.enter(call.prepared, call.context)
                let outcome = try entered.lua.callSync(
                    document: LuaDocument(request.document), old: request.old.map { LuaDocument($0) }, caller: LuaCaller(request.caller),
                    use: entered.use, limits: call.limits)
                switch outcome {
                case .accepted(let assignment): verdicts.append(.accepted(SyncAssignment(assignment)))
                case .rejected(let reason):
                    counts.rejected += 1
                    verdicts.append(.rejected(reason: reason))
                }
                call.succeeded()
                state.discardIfExhausted()
            } catch {
                verdicts.append(.failed(call.failed(error)))
                state.discardIfExhausted(after: error)
            }
            let after = call.record.environment.time.monotonicNanoseconds()
            counts.took(after &- before)
            before = after
            if after >= deadline && verdicts.count < requests.count { return false }
        }
        return true
    }
}

extension LuaCaller {
    init(_ caller: SyncCaller) {
        self.init(name: caller.name, roles: caller.roles, channels: caller.channels, isAdmin: caller.isAdmin)
    }
}

extension SyncAssignment {
    init(_ assignment: LuaAssignment) {
        self.init(
            channels: assignment.channels, access: assignment.access, roles: assignment.roles, expiry: assignment.expiry)
    }
}

/// A plugin's sync on one listener.
struct PluginSyncFunction: SyncFunction {
    let use: PluginUse
    var pluginName: String { use.record.name }
    var version: String { use.judgement }
    func assign(_ requests: [SyncRequest], _ context: PolicyContext) async -> [SyncVerdict] {
        if requests.isEmpty { return [] }
        let call: PluginCall
        do { call = try await use.call(CallContext(context)) } catch { return Array(repeating: .failed(error), count: requests.count) }
        return await withCheckedContinuation { use.pool.submit(SyncJob(call, requests, $0)) }
    }
    func versionChanges() -> AsyncStream<String> { use.versionChanges() }
}
