import Interfaces
import LuaRuntime
import Synchronization

/// Stops calling a use of a plugin that keeps failing, and lets one call through now and then to see whether it works again. A reload
/// replaces it.
///
/// Failures are counted for each peer on whose behalf the calls are made: what one of them sends must not hold the documents of the others. Only when
/// calls for several peers have failed in a row, the use is not called at all.
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
        /// The only peer whose calls are not made; nil if none are made for anybody.
        var peer: String?

        /// The failure, for people.
        var message: String { "\(failure.kind.rawValue): \(failure.message)\(peer.map { " (only for \($0))" } ?? "")" }
    }

    /// Calls that have failed one after the other.
    fileprivate struct Streak {
        var failures = 0
        var opened: Opened?
        var nextProbe: UInt64 = 0
        var nextAsk: UInt64 = 0
        var sample: Sample?

        mutating func fail(_ failure: LuaFailure) {
            failures += 1
            opened?.failures = failures
            opened?.failure = failure
        }

        mutating func open(_ failure: LuaFailure, _ now: UInt64, _ interval: UInt64, _ sample: Sample?, for peer: String? = nil) -> Opened {
            let opened = Opened(failures: failures, failure: failure, since: now, peer: peer)
            (self.opened, nextProbe, nextAsk, self.sample) = (opened, now + interval, now + interval, sample)
            return opened
        }

        mutating func admit(_ now: UInt64, _ interval: UInt64) -> Admission {
            guard opened != nil else { return .all }
            guard now >= nextProbe else { return .none }
            nextProbe = now + interval
            return .one
        }

        mutating func takeDue(_ now: UInt64, _ interval: UInt64) -> Bool {
            guard opened != nil, now >= nextAsk, now >= nextProbe else { return false }
            nextAsk = now + interval
            return true
        }
    }

    fileprivate struct State {
        /// Calls for anybody, and the peers for which they were made, up to two.
        var all = Streak()
        var failing: Set<String> = []
        /// Calls for each peer.
        var peers: [String: Streak] = [:]
        var last: (failure: LuaFailure, at: UInt64)?

        var opened: Opened? { all.opened ?? peers.values.compactMap(\.opened).min { $0.since < $1.since } }
    }

    private let state = Mutex(State())
    /// False while no peer's last call failed: then the hot path costs only one relaxed load.
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

    /// How long a breaker that only counts remembers a failure, and how long one stays open for a single peer before that peer is tried anew.
    private static let memory: UInt64 = 900 * 1_000_000_000

    /// The number of peers whose failures are counted separately: those beyond it are counted together.
    fileprivate static let mostPeers = 1_000
    /// Of how many peers the input for a probe is kept.
    private static let mostSamples = 16

    /// For a breaker that only counts: the latest failure in the last quarter of an hour. Another peer's success does not clear it.
    var recent: LuaFailure? {
        guard limit == .max else { return nil }
        return state.withLock { state in
            guard let last = state.last else { return nil }
            let now = clock()
            return now < last.at || now - last.at < Self.memory ? last.failure : nil
        }
    }

    /// The facts if it is open, be it for one peer; of several, for the one that has been failing for the longest.
    var opened: Opened? { hasRecentFailures.load(ordering: .relaxed) ? state.withLock { $0.opened } : nil }

    /// The facts if it is open for this peer.
    func opened(for peer: String) -> Opened? {
        hasRecentFailures.load(ordering: .relaxed) ? state.withLock { $0.all.opened ?? $0.peers[$0.key(peer)]?.opened } : nil
    }

    /// Asked before a call, or before a series of calls that ends at the failure that opens the breaker.
    func admit(_ peer: @autoclosure () -> String) -> Admission {
        guard hasRecentFailures.load(ordering: .relaxed) else { return .all }
        let peer = peer()
        return state.withLock { state in
            let now = clock()
            guard state.all.opened == nil else { return state.all.admit(now, interval) }
            return state.peers[state.key(peer)]?.admit(now, interval) ?? .all
        }
    }

    /// True if this call has closed the breaker again, be it for this peer.
    @inline(__always)
    func succeeded(_ peer: @autoclosure () -> String) -> Bool {
        guard hasRecentFailures.load(ordering: .relaxed) else { return false }
        return close(peer())
    }

    @inline(never)
    private func close(_ peer: String) -> Bool {
        state.withLock { state in
            let wasOpen = state.all.opened != nil
            let peers = state.peers.removeValue(forKey: state.key(peer))
            // It works again: those for whom it failed along with the others may try as well.
            if wasOpen { state.peers = [:] }
            (state.all, state.failing) = (Streak(), [])
            hasRecentFailures.store(!state.peers.isEmpty, ordering: .relaxed)
            return wasOpen || peers?.opened != nil
        }
    }

    /// - Parameter sample: the call's input, if it is small enough to be kept.
    /// - Returns: the facts if this call has opened the breaker.
    func failed(_ failure: LuaFailure, for peer: String, sample: @autoclosure () -> Sample?) -> Opened? {
        state.withLock { state in
            hasRecentFailures.store(true, ordering: .relaxed)
            let (now, key) = (clock(), state.key(peer))
            if limit == .max { state.last = (failure, now) }
            state.all.fail(failure)
            if state.failing.count < 2 { state.failing.insert(peer) }
            var own = state.peers[key] ?? Streak()
            own.fail(failure)
            defer { state.peers[key] = own }
            guard state.all.opened == nil else { return nil }
            if state.failing.count > 1, state.all.failures >= limit { return state.all.open(failure, now, interval, sample()) }
            guard own.opened == nil, own.failures >= limit else { return nil }
            let isSampled = state.peers.values.count { $0.sample != nil } < Self.mostSamples
            return own.open(failure, now, interval, isSampled ? sample() : nil, for: key.isEmpty ? nil : key)
        }
    }

    /// Whether the host should probe now; each due time is reported only once.
    func takeDue() -> (isDue: Bool, sample: Sample?) {
        guard hasRecentFailures.load(ordering: .relaxed) else { return (false, nil) }
        return state.withLock { state in
            let now = clock()
            if state.all.opened != nil { return (state.all.takeDue(now, interval), state.all.sample) }
            // A peer that is gone must not leave the plugin marked as failing for ever.
            if let old = state.peers.first(where: { $0.value.opened.map { now >= $0.since && now - $0.since >= Self.memory } ?? false && !$0.key.isEmpty }) {
                state.peers[old.key] = nil
                return (true, nil)
            }
            for peer in state.peers.keys where state.peers[peer]?.takeDue(now, interval) == true { return (true, state.peers[peer]?.sample) }
            return (false, nil)
        }
    }
}

extension Breaker.State {
    /// Under which a peer's failures are counted.
    fileprivate func key(_ peer: String) -> String { peers[peer] != nil || peers.count < Breaker.mostPeers ? peer : "" }
}
