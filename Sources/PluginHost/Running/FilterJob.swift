import Interfaces
import LuaRuntime

/// One batch for a filter, judged by the same version from the first document to the last.
///
/// Unchecked: `verdicts` is only accessed by the worker that runs the job; a job is passed between workers under the pool's lock.
final class FilterJob: PluginJob, @unchecked Sendable {
    private let call: PluginCall
    private let hook: LuaHook
    private let documents: [PolicyDocument]
    private var verdicts: [FilterVerdict] = []
    private let continuation: CheckedContinuation<[FilterVerdict], Never>

    init(
        _ call: PluginCall, _ hook: LuaHook, _ documents: [PolicyDocument],
        _ continuation: CheckedContinuation<[FilterVerdict], Never>
    ) {
        self.call = call
        self.hook = hook
        self.documents = documents
        self.continuation = continuation
        verdicts.reserveCapacity(documents.count)
    }

    var line: Int { call.line }

    func refuse(_ error: PluginError) {
        fill(with: call.refused(error))
        continuation.resume(returning: verdicts)
    }

    func run(on worker: PluginWorker, until deadline: UInt64) -> Bool {
        let state = worker.state(for: call.version, of: call.record)
        var counts = TurnCounts()
        let isDone = work(state, until: deadline, &counts)
        // Before the answer, so that a caller that has the answer finds the calls in the status.
        call.record.statistics.add(counts, hook)
        if isDone { continuation.resume(returning: verdicts) }
        state.discardIfExhausted()
        return isDone
    }

    private func work(_ state: VersionState, until deadline: UInt64, _ counts: inout TurnCounts) -> Bool {
        var admission = call.breaker.admit(call.context.peer)
        if admission == .none { return holdTheRest() }
        var before = call.record.environment.time.monotonicNanoseconds()
        var answers: [Bool] = []
        while verdicts.count < documents.count {
            let entered: (lua: LuaPluginState, use: LuaUse)
            do {
                entered = try state.enter(call.prepared, call.context)
            } catch {
                // Without a state, the rest of the batch would only fail in the same way, slowly.
                counts.calls += 1
                state.discardIfExhausted(after: error)
                fill(with: call.failed(error, sample: call.sample(documents[verdicts.count])))
                return true
            }
            // Until a new state is needed or the turn is over.
            while verdicts.count < documents.count {
                var spent = false
                var failed = 0
                answers.removeAll(keepingCapacity: true)
                do throws(LuaFailure) {
                    try ask(entered.lua, entered.use, upTo: admission == .one ? 1 : documents.count, &answers)
                    take(answers, &counts)
                    if admission == .one { admission = .all }
                } catch {
                    take(answers, &counts)
                    failed = 1
                    let document = documents[verdicts.count]
                    verdicts.append(.failed(call.failed(error, sample: call.sample(document))))
                    spent = state.discardIfExhausted(after: error)
                    admission = call.breaker.admit(call.context.peer)
                }
                let after = call.record.environment.time.monotonicNanoseconds()
                counts.took(after &- before, calls: answers.count + failed)
                before = after
                if admission == .none { return holdTheRest() }
                if after >= deadline && verdicts.count < documents.count { return false }
                if spent { break }
            }
        }
        return true
    }

    private func holdTheRest() -> Bool {
        let left = documents.count - verdicts.count
        if left > 0 { call.record.statistics.notAsked(left, hook) }
        fill(with: call.notAsked())
        return true
    }

    private func take(_ answers: [Bool], _ counts: inout TurnCounts) {
        if !answers.isEmpty { call.succeeded() }
        for passed in answers {
            if !passed { counts.rejected += 1 }
            verdicts.append(passed ? .pass : .reject)
        }
    }

    private func ask(_ lua: LuaPluginState, _ use: LuaUse, upTo most: Int, _ answers: inout [Bool]) throws(LuaFailure) {
        var failure: LuaFailure?
        documents.withUnsafeBufferPointer { documents in
            do throws(LuaFailure) {
                try lua.callFilter(
                    hook, about: UnsafeBufferPointer(rebasing: documents[verdicts.count...].prefix(most)), use: use, limits: call.limits,
                    answers: &answers)
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
    }

    private func fill(with failure: PolicyFailure) {
        while verdicts.count < documents.count { verdicts.append(.failed(failure)) }
    }
}

extension PolicyDocument: LuaFilterable {
    public var luaBody: [UInt8] { body }
    public var luaFlags: LuaFlags {
        var flags: LuaFlags = isDeleted ? .deleted : []
        if accessRemoved { flags.insert(.accessRemoved) }
        return flags
    }
    public var luaNames: (id: String, revision: String) { (id.text, revision.text) }
}
