import Interfaces
import LuaRuntime
import Synchronization

/// Stops calling one use of a plugin that fails again and again, and lets one call through now and then to see whether it
/// works again. A reload puts a new one in its place.
final class Breaker: Sendable {
    enum Admission: Sendable {
        case all
        /// One call, to see.
        case one
        case none
    }

    /// What a probe is made with when nobody asks.
    enum Sample: Sendable {
        case document(PolicyDocument, CallContext)
        case conflict(PolicyConflict, CallContext)
    }

    struct Opened: Sendable {
        var failures: Int
        var failure: LuaFailure
        /// When it opened, on the host's clock.
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
    /// False while the last call went well: then nothing has to be looked at, and the hot path pays one relaxed load.
    private let isTroubled = Atomic<Bool>(false)
    private let limit: Int
    private let interval: UInt64
    private let clock: @Sendable () -> UInt64

    /// - Parameter opens: false for one that only counts: an authenticator answers about one peer at a time, and what fails for one must
    ///   not shut out the others.
    init(_ limits: PluginHostLimits, opens: Bool = true, clock: @escaping @Sendable () -> UInt64) {
        limit = opens ? max(1, limits.breakerFailures) : .max
        interval = UInt64(max(1, limits.breakerProbeSeconds)) * 1_000_000_000
        self.clock = clock
    }

    /// How long a failure is remembered of one that only counts.
    private static let memory: UInt64 = 900 * 1_000_000_000

    /// What failed last, in the last quarter of an hour, of one that only counts: another peer's success does not mend it.
    var recent: LuaFailure? {
        guard limit == .max else { return nil }
        return state.withLock { state in
            guard let last = state.last else { return nil }
            let now = clock()
            return now < last.at || now - last.at < Self.memory ? last.failure : nil
        }
    }

    var opened: Opened? { isTroubled.load(ordering: .relaxed) ? state.withLock { $0.opened } : nil }

    /// Asked before a call, or before a row of calls that ends at the first failure that opens it.
    func admit() -> Admission {
        guard isTroubled.load(ordering: .relaxed) else { return .all }
        return state.withLock { state in
            guard state.opened != nil else { return .all }
            let now = clock()
            guard now >= state.nextProbe else { return .none }
            state.nextProbe = now + interval
            return .one
        }
    }

    /// True if this call closed it again.
    @inline(__always)
    func succeeded() -> Bool {
        guard isTroubled.load(ordering: .relaxed) else { return false }
        return close()
    }

    @inline(never)
    private func close() -> Bool {
        state.withLock { state in
            let wasOpen = state.opened != nil
            state = State(last: state.last)
            isTroubled.store(false, ordering: .relaxed)
            return wasOpen
        }
    }

    /// - Parameter sample: what the call was made with, if it is small enough to be kept.
    /// - Returns: the facts if this call opened it.
    func failed(_ failure: LuaFailure, sample: @autoclosure () -> Sample?) -> Opened? {
        state.withLock { state in
            isTroubled.store(true, ordering: .relaxed)
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

    /// Whether the host should try a call now; each time is given once.
    func takeDue() -> (isDue: Bool, sample: Sample?) {
        guard isTroubled.load(ordering: .relaxed) else { return (false, nil) }
        return state.withLock { state in
            let now = clock()
            guard state.opened != nil, now >= state.nextAsk, now >= state.nextProbe else { return (false, nil) }
            state.nextAsk = now + interval
            return (true, state.sample)
        }
    }
}
