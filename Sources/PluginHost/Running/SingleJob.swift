import Interfaces
import LuaRuntime

/// One call with one answer: a conflict for a resolver, or a peer for an authenticator. Batches have their own kinds of jobs.
final class SingleJob<Answer: Sendable>: PluginJob {
    /// Makes the call on a worker. The counts are those of the call; it adds rejections to them.
    typealias Question = @Sendable (PluginCall, _ lua: LuaPluginState, LuaUse, inout TurnCounts) throws(LuaFailure) -> Answer

    private let call: PluginCall
    private let sample: @Sendable () -> Breaker.Sample?
    private let failed: @Sendable (PolicyFailure) -> Answer
    private let ask: Question
    private let continuation: CheckedContinuation<Answer, Never>

    /// - Parameters:
    ///   - sample: the input for probing a failing plugin; only created if the call fails.
    ///   - failed: the answer in case of a failure.
    init(
        _ call: PluginCall, _ continuation: CheckedContinuation<Answer, Never>, sample: @escaping @Sendable () -> Breaker.Sample? = { nil },
        failed: @escaping @Sendable (PolicyFailure) -> Answer, ask: @escaping Question
    ) {
        self.call = call
        self.continuation = continuation
        self.sample = sample
        self.failed = failed
        self.ask = ask
    }

    var line: Int { call.line }

    func refuse(_ error: PluginError) { continuation.resume(returning: failed(call.refused(error))) }

    func run(on worker: PluginWorker, until deadline: UInt64) -> Bool {
        guard call.breaker.admit(call.context.peer) != .none else {
            call.record.statistics.notAsked(1, call.hook)
            continuation.resume(returning: failed(call.notAsked()))
            return true
        }
        let state = worker.state(for: call.version, of: call.record)
        var counts = TurnCounts()
        let before = call.record.environment.time.monotonicNanoseconds()
        let answer: Answer
        do throws(LuaFailure) {
            let entered = try state.enter(call.prepared, call.context)
            answer = try ask(call, entered.lua, entered.use, &counts)
            call.succeeded()
            state.discardIfExhausted()
        } catch {
            answer = failed(call.failed(error, sample: sample()))
            state.discardIfExhausted(after: error)
        }
        counts.took(call.record.environment.time.monotonicNanoseconds() &- before)
        // Before the answer, so that a caller that has the answer finds the call in the status.
        call.record.statistics.add(counts, call.hook)
        continuation.resume(returning: answer)
        return true
    }
}
