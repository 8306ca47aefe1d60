import Interfaces
import LuaRuntime
import Synchronization

/// Stops calling a use of a plugin that keeps failing, and lets one call through now and then to see whether it works again. A reload
/// replaces it.
final class Breaker: Sendable {
    enum Admission: Sendable {
        case all
        /// A single call, as a probe.
        case one
        case none
    }

    /// The input for a probe when nobody calls.
    enum Sample: Sendable {
        case document(PolicyDocument, CallContext)
        case conflict(PolicyConflict, CallContext)
    }

    struct Opened: Sendable {
        var failures: Int
        var failure: LuaFailure
        /// When it opened, by the host's clock.
        var since: UInt64
    }

    private struct State {
        var failures = 0
        var opened: Opened?
        var nextProbe: UInt64 = 0
        var nextAsk: UInt64 = 0
        var sample: Sample?
        var last: (failure: LuaFailure, at: UInt64)?
    }

    private let state = Mutex(State())
    /// False while the last call succeeded: then the hot path costs only one relaxed load.
    private let hasRecentFailures = Atomic<Bool>(false)
    private let limit: Int
    private let interval: UInt64
    private let clock: @Sendable () -> UInt64

    /// - Parameter opens: false to only count failures: an authenticator judges one peer at a time, and what fails for one peer must not
    ///   lock out the others.
    init(_ limits: PluginHostLimits, opens: Bool = true, clock: @escaping @Sendable () -> UInt64) {
        limit = opens ? max(1, limits.breakerFailures) : .max
        interval = UInt64(max(1, limits.breakerProbeSeconds)) * 1_000_000_000
        self.clock = clock
    }

    /// How long a breaker that only counts remembers a failure.
    private static let memory: UInt64 = 900 * 1_000_000_000

    /// For a breaker that only counts: the latest failure in the last quarter of an hour. Another peer's success does not clear it.
    var recent: LuaFailure? {
        guard limit == .max else { return nil }
        return state.withLock { state in
            guard let last = state.last else { return nil }
            let now = clock()
            return now < last.at || now - last.at < Self.memory ? last.failure : nil
        }
    }

    var opened: Opened? { hasRecentFailures.load(ordering: .relaxed) ? state.withLock { $0.opened } : nil }

    /// Asked before a call, or before a series of calls that ends at the failure that opens the breaker.
    func admit() -> Admission {
        guard hasRecentFailures.load(ordering: .relaxed) else { return .all }
        return state.withLock { state in
            guard state.opened != nil else { return .all }
            let now = clock()
            guard now >= state.nextProbe else { return .none }
            state.nextProbe = now + interval
            return .one
        }
    }

    /// True if this call has closed the breaker again.
    @inline(__always)
    func succeeded() -> Bool {
        guard hasRecentFailures.load(ordering: .relaxed) else { return false }
        return close()
    }

    @inline(never)
    private func close() -> Bool {
        state.withLock { state in
            let wasOpen = state.opened != nil
            state = State(last: state.last)
            hasRecentFailures.store(false, ordering: .relaxed)
            return wasOpen
        }
    }

    /// - Parameter sample: the call's input, if it is small enough to be kept.
    /// - Returns: the facts if this call has opened the breaker.
    func failed(_ failure: LuaFailure, sample: @autoclosure () -> Sample?) -> Opened? {
        state.withLock { state in
            hasRecentFailures.store(true, ordering: .relaxed)
            state.failures += 1
            if limit == .max { state.last = (failure, clock()) }
            if state.opened != nil {
                state.opened?.failures = state.failures
                state.opened?.failure = failure
                return nil
            }
            guard state.failures >= limit else { return nil }
            let now = clock()
            let opened = Opened(failures: state.failures, failure: failure, since: now)
            state.opened = opened
            state.nextProbe = now + interval
            state.nextAsk = now + interval
            state.sample = sample()
            return opened
        }
    }

    /// Whether the host should probe now; each due time is reported only once.
    func takeDue() -> (isDue: Bool, sample: Sample?) {
        guard hasRecentFailures.load(ordering: .relaxed) else { return (false, nil) }
        return state.withLock { state in
            let now = clock()
            guard state.opened != nil, now >= state.nextAsk, now >= state.nextProbe else { return (false, nil) }
            state.nextAsk = now + interval
            return (true, state.sample)
        }
    }
}
