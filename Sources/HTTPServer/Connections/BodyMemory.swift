import Environment
import NIOCore
import Synchronization

/// What the body of one request, and what was made of it, holds of the agent's memory. It is asked for before the bytes are there, and given back
/// when nobody holds the body any more: where a connection ends, the task that answers may hold it a little longer.
final class BodyMemory: Sendable {
    private struct State {
        var share: MemoryBudget.Share?
        /// Of the body, and of what is made of it.
        var bytes = 0
        /// What unpacks it.
        var tools = 0
        /// The client may still make it go away, by ending its request.
        var isOwed = true
        /// What the listener was told of.
        var counted = 0
    }

    /// A request that holds no more does not wait: so little is never what the budget lacks.
    private static let small = 16 << 10

    private let state = Mutex(State())
    private let table: ConnectionTable
    private let giveWay: @Sendable () -> Void

    /// - Parameter giveWay: called, from any thread, when this request has to go, now or later.
    init(_ table: ConnectionTable, giveWay: @escaping @Sendable () -> Void) { (self.table, self.giveWay) = (table, giveWay) }

    deinit { giveBack() }

    private var budget: MemoryBudget { table.memory }

    static func usedUpReason(_ budget: MemoryBudget) -> String { "the agent holds as much for its peers as limits.memory (\(budget.limit)) allows" }

    /// From now on so many bytes are held. Returns as soon as there is room for them.
    ///
    /// - Throws: ``HTTPError``: 413 where they are more than half of the budget, 503 when this request has to give way, or when there is no room
    ///   for `memory_wait`; `CancellationError` when the client is gone.
    func hold(_ bytes: Int) async throws {
        guard bytes <= budget.workLimit else {
            throw HTTPError(
                413, "the request's body is more than half of limits.memory (\(budget.limit)): send less at once", headers: ["Connection": "close"])
        }
        guard try count({ $0.bytes = bytes }) > Self.small else { return }
        // Those who have to go for it still hold theirs for a moment.
        let start = table.time.monotonicNanoseconds()
        while budget.isUsedUp {
            guard table.time.monotonicNanoseconds() - start < UInt64(table.limits.memoryWait.nanoseconds) else { throw refusal }
            try await table.time.sleep(nanoseconds: 20_000_000)
            // This one may have had to go meanwhile.
            _ = try count { $0.bytes = bytes }
        }
    }

    /// What unpacks the body holds so many bytes from now on, beside it.
    ///
    /// - Throws: as ``hold(_:)``.
    func holdTools(_ bytes: Int) async throws {
        let held = state.withLock { state in
            state.tools = bytes
            return state.bytes
        }
        try await hold(held)
    }

    /// Nothing of the body is to come: what it holds is ours to make go away.
    func noteComplete() {
        guard state.withLock({ $0.share != nil }) else { return }
        _ = try? count { ($0.isOwed, $0.tools) = (false, 0) }
    }

    /// Nobody holds anything of it.
    func giveBack() {
        // Released outside of the lock: others may be told.
        let (share, counted) = state.withLock { state in
            defer { (state.share, state.bytes, state.tools, state.counted) = (nil, 0, 0, 0) }
            return (state.share, state.counted)
        }
        table.bodyBytesChange(by: -counted)
        share?.giveUp()
    }

    private var refusal: HTTPError { HTTPError(503, Self.usedUpReason(budget), headers: ["Retry-After": "5", "Connection": "close"]) }

    /// - Returns: how much it is.
    private func count(_ change: (inout State) -> Void) throws(HTTPError) -> Int {
        let (share, held, owed, difference) = state.withLock { state in
            change(&state)
            let held = state.bytes + state.tools
            let share = state.share ?? budget.share { [giveWay] in if $0 == .evicted { giveWay() } }
            state.share = share
            defer { state.counted = held }
            return (share, held, state.isOwed ? held : 0, held - state.counted)
        }
        table.bodyBytesChange(by: difference)
        if share.hold(held, owedByPeer: owed) == .evicted { throw refusal }
        return held
    }
}
