import LuaRuntime
import Replication

/// What every call needs: the version it is made on, the use it is made for, and where it comes from.
struct PluginCall: Sendable {
    let record: PluginRecord
    let version: LoadedVersion
    let prepared: PreparedUse
    let context: CallContext
    let limits: LuaCallLimits

    /// Counts a failure and puts it into the policy's words.
    func failed(_ failure: LuaFailure) -> PolicyFailure {
        record.failed(failure, version: prepared.version)
        return PolicyFailure(plugin: record.name, version: prepared.version, kind: failure.kind.rawValue, message: failure.message)
    }

    /// The host could not even ask.
    func refused(_ error: PluginError) -> PolicyFailure {
        PolicyFailure(plugin: record.name, version: prepared.version, kind: LuaFailureKind.error.rawValue, message: "\(error)")
    }
}

/// One batch for a filter, judged by one version from the first document to the last.
///
/// Unchecked: `verdicts` is touched by the worker that runs the job only; a job goes from one worker to the next through the pool's lock.
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

    var line: Int { call.record.number }

    func refuse(_ error: PluginError) { finish(with: call.refused(error)) }

    func run(on worker: PluginWorker, until deadline: UInt64) -> Bool {
        let state = worker.state(for: call.version, of: call.record)
        var counts = TurnCounts()
        defer {
            call.record.statistics.add(counts)
            state.dropIfSpent()
        }
        var before = monotonicNanoseconds()
        var answers: [Bool] = []
        while verdicts.count < documents.count {
            let entered: (lua: LuaPluginState, use: LuaUse)
            do {
                entered = try state.enter(call.prepared, call.context)
            } catch {
                // Without a state there is no asking again: the rest of the batch would only fail the same way, slowly.
                counts.calls += 1
                state.dropIfSpent(after: error)
                finish(with: call.failed(error))
                return true
            }
            // Until the state has to be made anew or the turn is over.
            while verdicts.count < documents.count {
                var spent = false
                answers.removeAll(keepingCapacity: true)
                do throws(LuaFailure) {
                    try ask(entered.lua, entered.use, &answers)
                    take(answers, &counts)
                } catch {
                    take(answers, &counts)
                    verdicts.append(.failed(call.failed(error)))
                    spent = state.dropIfSpent(after: error)
                }
                let after = monotonicNanoseconds()
                counts.took(after &- before, calls: max(1, answers.count + (spent ? 1 : 0)))
                before = after
                if after >= deadline && verdicts.count < documents.count { return false }
                if spent { break }
            }
        }
        continuation.resume(returning: verdicts)
        return true
    }

    private func take(_ answers: [Bool], _ counts: inout TurnCounts) {
        for passed in answers {
            if !passed { counts.rejected += 1 }
            verdicts.append(passed ? .pass : .reject)
        }
    }

    private func ask(_ lua: LuaPluginState, _ use: LuaUse, _ answers: inout [Bool]) throws(LuaFailure) {
        var failure: LuaFailure?
        documents.withUnsafeBufferPointer { documents in
            do throws(LuaFailure) {
                try lua.callFilter(
                    hook, about: UnsafeBufferPointer(rebasing: documents[verdicts.count...]), use: use, limits: call.limits,
                    answers: &answers)
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
    }

    private func finish(with failure: PolicyFailure) {
        while verdicts.count < documents.count { verdicts.append(.failed(failure)) }
        continuation.resume(returning: verdicts)
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
