/// Slows down guessing of passwords: an origin whose logins fail again and again has to wait longer and longer.
///
/// A value without a clock of its own: the caller passes the time, in seconds of any monotonic clock. A place is kept for each
/// origin that failed lately, at most `limits.origins` of them.
public struct LoginGuard: Sendable {
    public struct Limits: Sendable {
        /// `login_attempts`: failures that cost nothing, for people who mistype and devices whose password was just changed.
        public var attempts = 20
        /// `login_first_wait`: seconds after the first failure beyond those; doubled with each further one.
        public var firstWait: Double = 1
        /// `login_longest_wait`: seconds. Long enough to make guessing hopeless, short enough for a site that shares an address.
        public var longestWait: Double = 300
        /// `login_memory`: seconds without a failure after which an origin is forgotten.
        public var memory: Double = 900
        /// `login_origins`: origins remembered at once, about 100 bytes each. When all are in use the one that failed longest
        /// ago is forgotten.
        public var origins = 10_000

        public init() {}
    }

    private struct Entry {
        var failures: Int
        var last: Double
        /// Logins are refused without being looked at until then.
        var until: Double
    }

    private let limits: Limits
    private var entries: [String: Entry] = [:]

    public init(limits: Limits = Limits()) {
        self.limits = limits
    }

    /// Seconds that this origin has to wait before its next login is looked at; nil if it may log in now.
    public func wait(_ origin: String, at now: Double) -> Double? {
        guard let entry = entries[origin], entry.until > now else { return nil }
        return entry.until - now
    }

    /// A login was refused. Gives the wait that follows, nil if none.
    public mutating func failed(_ origin: String, at now: Double) -> Double? {
        var entry = entries[origin] ?? Entry(failures: 0, last: now, until: now)
        if now - entry.last > limits.memory { entry.failures = 0 }
        entry.failures += 1
        entry.last = now
        let beyond = entry.failures - limits.attempts
        var wait = 0.0
        if beyond > 0 {
            wait = limits.firstWait
            for _ in 1..<max(1, min(beyond, 64)) where wait < limits.longestWait { wait *= 2 }
            wait = min(wait, limits.longestWait)
        }
        entry.until = now + wait
        if entries[origin] == nil, entries.count >= limits.origins { makeRoom(at: now) }
        entries[origin] = entry
        return wait > 0 ? wait : nil
    }

    /// A login succeeded: what failed before was a mistake.
    public mutating func succeeded(_ origin: String) {
        entries[origin] = nil
    }

    /// Forgets a tenth at once, so that an attack from very many addresses does not cost a search each time.
    private mutating func makeRoom(at now: Double) {
        entries = entries.filter { now - $0.value.last <= limits.memory }
        guard entries.count >= limits.origins else { return }
        let oldest = entries.sorted { $0.value.last < $1.value.last }.prefix(max(1, limits.origins / 10))
        for (origin, _) in oldest { entries[origin] = nil }
    }
}
