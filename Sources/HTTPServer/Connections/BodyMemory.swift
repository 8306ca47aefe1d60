import Environment
import NIOCore
import Synchronization

/// The part of the agent's memory that a request's body, and what was parsed from it, occupies. It is counted before the bytes arrive, and
/// released when nobody refers to the body any more: after a connection has ended, the task that answers may hold it a little longer.
final class BodyMemory: Sendable {
    private struct State {
        var share: MemoryBudget.Share?
        /// For the body, and for what is made from it.
        var bytes = 0
        /// For the decompressor.
        var tools = 0
        /// What the read in progress may bring.
        var expected = 0
        /// What has come and was not taken by the task that answers. When it takes a piece, that counts until the next change, which it soon makes.
        var arrived = 0
        /// The length of a body that has to be in memory as a whole, if the client said it.
        var declared: Int?
        /// Whether the client can still release it, by completing or ending its request.
        var isOwed = true
        /// The request waits for memory, and nothing has been done for it.
        var isQuiet = false
        /// The number of bytes reported to the listener.
        var counted = 0
    }

    /// A request that holds no more than this does not wait: the budget never lacks so little.
    private static let small = 16 << 10

    /// What a connection whose request has a body takes up besides: buffers, the task that answers, and the state of the decoder.
    static let baseBytes = 32 << 10

    private let state = Mutex(State())
    private let table: ConnectionTable
    private let origin: String?
    private let yieldResources: @Sendable () -> Void

    /// - Parameters:
    ///   - origin: the client's address, with whose other requests this one counts; nil if it counts with no other.
    ///   - yieldResources: called from any thread when this request must release its memory, now or later.
    init(_ table: ConnectionTable, of origin: String? = nil, yieldResources: @escaping @Sendable () -> Void) {
        (self.table, self.origin, self.yieldResources) = (table, origin, yieldResources)
    }

    deinit { relinquish() }

    private var budget: MemoryBudget { table.memory }

    /// From now on this many bytes are held. Returns as soon as there is memory for them.
    ///
    /// - Parameter declared: the length of the whole body, if the client said it.
    /// - Throws: ``HTTPError``: 413 if there will never be room for the body, 503 if this request has to give way or no memory becomes available
    ///   within `memory_wait`; `CancellationError` if the client has disconnected.
    func hold(_ bytes: Int, of declared: Int? = nil) async throws {
        if let declared { state.withLock { $0.declared = declared } }
        guard bytes <= budget.workLimit else { throw tooLarge(declared) }
        guard try count({ $0.bytes = bytes }) > Self.small else { return }
        // Requests that give way still hold their memory for a moment.
        let start = table.time.monotonicNanoseconds()
        while budget.isUsedUp {
            guard table.time.monotonicNanoseconds() - start < UInt64(table.limits.memoryWait.nanoseconds) else { throw refusal }
            try await table.time.sleep(nanoseconds: 20_000_000)
            // This request may itself have been chosen to give way meanwhile.
            _ = try count { $0.bytes = bytes }
        }
    }

    /// From now on the decompressor holds this many bytes in addition.
    ///
    /// - Throws: as ``hold(_:)``.
    func reserveToolMemory(_ bytes: Int) async throws {
        let held = state.withLock { state in
            state.tools = bytes
            return state.bytes
        }
        try await hold(held)
    }

    // MARK: What comes

    /// A request with a body has begun.
    func noteBegun() { _ = try? count { _ in } }

    /// Whether the socket may be read now. If so, what comes counts from now on; if not, others have to release memory first. Small bodies do not wait.
    ///
    /// - Parameters:
    ///   - expected: the most that comes.
    ///   - received: how much has come before.
    func mayRead(_ expected: Int, after received: Int) -> Bool {
        guard received + expected <= Self.small || !budget.isUsedUp else { return false }
        note { $0.expected = expected }
        return true
    }

    /// A piece has come, or the end of the body.
    func noteArrived(_ bytes: Int) {
        note {
            $0.arrived += bytes
            $0.expected = 0
        }
    }

    /// The task that answers has taken a piece.
    func noteTaken(_ bytes: Int) { state.withLock { $0.arrived = max(0, $0.arrived - bytes) } }

    /// If the request has to give way, it is told so as any other. Once its memory has been given up, nothing more counts.
    private func note(_ change: (inout State) -> Void) {
        guard state.withLock({ $0.share != nil }) else { return }
        _ = try? count(change)
    }

    // MARK: The end

    /// The body has been received completely: its memory now depends on us, not on the client.
    func noteComplete() {
        guard state.withLock({ $0.share != nil }) else { return }
        _ = try? count { ($0.isOwed, $0.tools) = (false, 0) }
    }

    /// The request waits for memory before anything is done with its body: nothing is lost if it has to give way.
    func noteWaiting() {
        guard state.withLock({ $0.share != nil }) else { return }
        _ = try? count { $0.isQuiet = true }
    }

    /// Nobody refers to it any more.
    func relinquish() {
        // Released outside of the lock, because others may be notified.
        let (share, counted) = state.withLock { state in
            defer { (state.share, state.bytes, state.tools, state.expected, state.arrived, state.counted) = (nil, 0, 0, 0, 0, 0) }
            return (state.share, state.counted)
        }
        table.bodyBytesChange(by: -counted)
        share?.giveUp()
    }

    /// Of limits.memory, the part that a body may take up whatever the agent uses besides without counting it.
    private var certain: Int { budget.limit / 8 * 3 }

    /// Why the request gets no memory: 503 if that may change by itself, 413 if its body is larger than there will ever be room for.
    var refusal: HTTPError {
        let (own, declared) = state.withLock { ($0.counted + $0.expected + Self.baseBytes, $0.declared) }
        let whole = max(declared ?? 0, own)
        // Nobody else holds more than what a resting agent holds: waiting would change nothing.
        let isAlone = budget.used - own <= budget.limit / 16
        if declared ?? 0 > budget.workLimit || whole > certain && isAlone { return tooLarge(declared) }
        return HTTPError(
            503, "limits.memory (\(budget.limit)) of the agent has no room for this at the moment: other requests and peers take it, or it is not released yet",
            headers: ["Retry-After": "5", "Connection": "close"])
    }

    private func tooLarge(_ declared: Int?) -> HTTPError {
        let length = declared.map { " of \($0) bytes" } ?? ""
        let enough = declared.map { "; with limits: { memory: \(MemoryBudget.settingText(forDocument: $0)) } or more there it would be taken" } ?? ""
        let bound = declared ?? .max > budget.workLimit ? "half of limits.memory (\(budget.limit)) of the agent that receives it"
            : "limits.memory (\(budget.limit)) of the agent that receives it has room for, even while nobody else needs any"
        var error = HTTPError(
            413, "the request's body\(length) is more than \(bound): send less at once\(enough)", headers: ["Connection": "close"])
        error.neededMemory = declared.map { MemoryBudget.setting(forDocument: $0) }
        return error
    }

    /// - Returns: the total of what the task that answers holds.
    private func count(_ change: (inout State) -> Void) throws(HTTPError) -> Int {
        // The event loop and the task report to the budget in the order of their changes. Whoever is told meanwhile does nothing at once.
        let (standing, held) = state.withLock { state in
            change(&state)
            let held = state.bytes + state.tools
            let share = state.share ?? budget.register(origin: origin) { [yieldResources] in if $0 == .evicted { yieldResources() } }
            state.share = share
            table.bodyBytesChange(by: held + state.arrived - state.counted)
            state.counted = held + state.arrived
            let all = state.counted + state.expected
            // The client cannot release the base without ending the connection: it alone is no reason for that.
            return (share.hold(all + Self.baseBytes, owedByPeer: state.isOwed ? all : 0, isQuiet: state.isQuiet), held)
        }
        if standing == .evicted { throw refusal }
        return held
    }
}
