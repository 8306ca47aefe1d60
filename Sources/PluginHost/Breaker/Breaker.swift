import Interfaces
import LuaRuntime
import Synchronization

/// Stops calling a use of a plugin that keeps failing, and lets one call through now and then to see whether it works again. A reload
/// replaces it.
///
/// Failures are counted for each peer on whose behalf the calls are made: what one of them sends must not hold the documents of the others. Only when
/// many calls in a row have failed, and not for one peer alone, the use is not called at all; then each peer has a call of its own from time to time, so
/// that the first one for which it works opens the way for all.
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

        var bytes: Int {
            switch self {
            case .document(let document, _): document.body.count
            case .conflict(let conflict, _): [conflict.local, conflict.remote, conflict.base].reduce(0) { $0 + ($1?.body.count ?? 0) }
            }
        }
    }

    struct Opened: Sendable {
        var failures: Int
        var failure: LuaFailure
        /// When it opened, by the host's clock.
        var since: UInt64
        /// The only peer whose calls are not made; nil if none are made for anybody.
        var peer: String?

        /// The failure, for people.
        var cause: String { "\(failure.kind.rawValue): \(failure.message)" }
        /// The same, with whom it concerns, where nothing else says that.
        var message: String { "\(cause)\(peer.map { " (only for \($0))" } ?? "")" }
    }

    /// Calls that have failed one after the other.
    fileprivate struct Streak {
        var failures = 0
        var opened: Opened?
        var nextProbe: UInt64 = 0
        var nextAsk: UInt64 = 0
        var sample: Sample?
        /// When the last call failed or was tried.
        var last: UInt64 = 0
        /// Failures since a call last succeeded for anybody.
        var recent = 0
        /// In which such period they were.
        var period: UInt64 = 0

        mutating func fail(_ failure: LuaFailure, _ now: UInt64, period current: UInt64 = 0) {
            failures += 1
            recent = period == current ? recent + 1 : 1
            (last, period) = (now, current)
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
            return probe(now, interval)
        }

        mutating func probe(_ now: UInt64, _ interval: UInt64) -> Admission {
            guard now >= nextProbe else { return .none }
            (nextProbe, last) = (now + interval, now)
            return .one
        }

        mutating func takeDue(_ now: UInt64, _ interval: UInt64) -> Bool {
            guard opened != nil, now >= nextAsk, now >= nextProbe else { return false }
            nextAsk = now + interval
            return true
        }
    }

    fileprivate struct State {
        /// Calls for anybody.
        var all = Streak()
        /// Counts the periods between two successful calls.
        var period: UInt64 = 1
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

    /// The number of peers whose failures are counted: the one that has been quiet for the longest is forgotten for another one.
    fileprivate static let mostPeers = 1_000
    /// Of how many peers the input for a probe is kept, and its size in bytes.
    private static let (mostSamples, sampleBytes) = (16, 64 << 10)

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
        hasRecentFailures.load(ordering: .relaxed) ? state.withLock { $0.all.opened ?? $0.peers[peer]?.opened } : nil
    }

    /// Asked before a call, or before a series of calls that ends at the failure that opens the breaker.
    func admit(_ peer: @autoclosure () -> String) -> Admission {
        guard hasRecentFailures.load(ordering: .relaxed) else { return .all }
        let peer = peer()
        return state.withLock { state in
            let now = clock()
            guard let opened = state.all.opened else { return state.peers[peer]?.admit(now, interval) ?? .all }
            // Not at once: those that have just failed would only fail again.
            guard now >= opened.since + interval else { return .none }
            state.makeRoom(for: peer)
            return state.peers[peer, default: Streak()].probe(now, interval)
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
            let peers = state.peers.removeValue(forKey: peer)
            // It works again: those for whom it failed along with the others may try as well.
            if wasOpen { state.peers = [:] }
            state.all = Streak()
            state.period += 1
            hasRecentFailures.store(!state.peers.isEmpty, ordering: .relaxed)
            return wasOpen || peers?.opened != nil
        }
    }

    /// - Parameter sample: the call's input, if it is small enough to be kept.
    /// - Returns: the facts if this call has opened the breaker.
    func failed(_ failure: LuaFailure, for peer: String, sample: @autoclosure () -> Sample?) -> Opened? {
        state.withLock { state in
            hasRecentFailures.store(true, ordering: .relaxed)
            let now = clock()
            if limit == .max { state.last = (failure, now) }
            state.all.fail(failure, now)
            state.makeRoom(for: peer)
            var own = state.peers[peer] ?? Streak()
            own.fail(failure, now, period: state.period)
            state.peers[peer] = own
            guard state.all.opened == nil else { return nil }
            // Those of the peer for which most calls fail could be its own doing.
            let most = state.peers.values.reduce(0) { max($0, $1.period == state.period ? $1.recent : 0) }
            if state.all.failures >= limit, state.all.failures - most >= max(1, limit / 2) { return state.all.open(failure, now, interval, nil) }
            guard own.opened == nil, own.failures >= limit else { return nil }
            let isSampled = state.peers.values.count { $0.sample != nil } < Self.mostSamples
            let sample = isSampled ? sample().flatMap { peer.isEmpty || $0.bytes <= Self.sampleBytes ? $0 : nil } : nil
            let opened = own.open(failure, now, interval, sample, for: peer.isEmpty ? nil : peer)
            state.peers[peer] = own
            return opened
        }
    }

    /// Whether the host should probe now; each due time is reported only once.
    func takeDue() -> (isDue: Bool, sample: Sample?) {
        guard hasRecentFailures.load(ordering: .relaxed) else { return (false, nil) }
        return state.withLock { state in
            let now = clock()
            if state.all.opened != nil { return (state.all.takeDue(now, interval), state.all.sample) }
            // A peer that is gone must not leave the plugin marked as failing for ever.
            let old = state.peers.first { peer, streak in !peer.isEmpty && streak.opened.map { now >= $0.since && now - $0.since >= Self.memory } == true }
            if let old {
                state.peers[old.key] = nil
                return (true, nil)
            }
            for peer in state.peers.keys where state.peers[peer]?.takeDue(now, interval) == true { return (true, state.peers[peer]?.sample) }
            return (false, nil)
        }
    }
}

extension Breaker.State {
    /// Forgets the peer that has been quiet for the longest if there is no room for another one.
    fileprivate mutating func makeRoom(for peer: String) {
        guard peers[peer] == nil, peers.count >= Breaker.mostPeers else { return }
        if let quietest = peers.min(by: { $0.value.last < $1.value.last })?.key { peers[quietest] = nil }
    }
}
