/// Slows down password guessing: a user whose password is being guessed, and an address that guesses, have to wait longer and longer.
///
/// Failures are counted for each user from any address, for each address with any user, and for each user at one address. A success only forgives
/// failures in the last count, so that knowing one password does not buy guesses at another. For a user who has logged in from an address before,
/// only that count matters: nobody can lock the user out from elsewhere, or by attacking other users from behind the same router. A user without
/// failures at an address does not wait because of what others did there, however often they guessed at any one user: a whole site may be behind one
/// router. Only if many different names fail there does the user wait, for a second, because he could be the next of these names; and a user who has
/// mistyped there waits seconds, not minutes.
///
/// A value without its own clock: the caller passes the time, in seconds of any monotonic clock.
public struct LoginGuard: Sendable {
    public struct Limits: Sendable {
        /// `login_attempts`: failures without a penalty, for people who mistype and devices whose password was just changed.
        public var attempts = 20
        /// `login_first_wait`: seconds after the first failure beyond those; doubled with each further one.
        public var firstWait: Double = 1
        /// `login_longest_wait`: seconds. Long enough to make guessing hopeless, short enough for a site that shares an address.
        public var longestWait: Double = 300
        /// `login_neighbour_wait`: once `login_attempts` different users have failed at an address, seconds after each such failure until another
        /// user without failures there may try. So an address can try at most one password of a new user in this time.
        public var neighbourWait: Double = 1
        /// `login_address_wait`: seconds after the last failure at an address, by any user, until a user who has mistyped there may try again,
        /// however long the address itself has to wait.
        public var addressWait: Double = 5
        /// `login_memory`: seconds without a failure after which failures are forgotten.
        public var memory: Double = 900
        /// `login_entries`: how many users, addresses, users at addresses, and users known at addresses are remembered, each, at about 100 bytes.
        /// When all are in use, the oldest are forgotten.
        public var entries = 10_000

        public init() {}
    }

    /// Who is trying to log in, and from where.
    public struct Login: Sendable, Hashable {
        public var user: String
        /// An address; for IPv6, a /64 network.
        public var origin: String

        public init(user: String, origin: String) {
            self.user = user
            self.origin = origin
        }
    }

    /// Failures, by key.
    private struct Failures<Key: Hashable & Sendable>: Sendable {
        struct Entry {
            var failures: Int
            var last: Double
            /// Until then, logins are refused without being checked.
            var until: Double
        }

        var entries: [Key: Entry] = [:]

        /// There are no failures that count.
        func isClean(_ key: Key, at now: Double, _ limits: Limits) -> Bool { entries[key].map { now - $0.last > limits.memory } ?? true }

        /// The remaining time of this many seconds since the last failure.
        func rest(_ key: Key, of seconds: Double, at now: Double) -> Double {
            entries[key].map { max(0, $0.last + seconds - now) } ?? 0
        }

        func wait(_ key: Key, at now: Double) -> Double {
            entries[key].map { max(0, $0.until - now) } ?? 0
        }

        mutating func failed(_ key: Key, at now: Double, _ limits: Limits) -> Double {
            var entry = entries[key] ?? Entry(failures: 0, last: now, until: now)
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
            if entries[key] == nil, entries.count >= limits.entries {
                entries = entries.filter { now - $0.value.last <= limits.memory }
                LoginGuard.makeRoom(&entries, limits.entries) { $0.last }
            }
            entries[key] = entry
            return wait
        }
    }

    private let limits: Limits
    private var users = Failures<String>()
    private var origins = Failures<String>()
    private var pairs = Failures<Login>()
    /// How many different users failed at an address: the first failure of each is counted.
    private var names = Failures<String>()
    /// When a user last logged in from an address.
    private var known: [Login: Double] = [:]

    public init(limits: Limits = Limits()) {
        self.limits = limits
    }

    /// Seconds until this login may be checked; nil if it may be now.
    public func wait(_ login: Login, at now: Double) -> Double? {
        var wait = pairs.wait(login, at: now)
        if known[login] == nil {
            wait = max(wait, users.wait(login.user, at: now), neighbours(login, isGuessedAt: wait > 0, at: now))
        }
        return wait > 0 ? wait : nil
    }

    /// Whether a login has to wait only because of other users: nobody has guessed at this user from there, nor too often from elsewhere. It need
    /// not be refused, but can be held for the second that it waits.
    public func waitsForOthersOnly(_ login: Login, at now: Double) -> Bool {
        pairs.isClean(login, at: now, limits) && users.wait(login.user, at: now) <= 0
    }

    /// Seconds to wait because of what other users did at the address.
    ///
    /// - Parameter isGuessedAt: whether this user has failed there more often than is free of penalty.
    private func neighbours(_ login: Login, isGuessedAt: Bool, at now: Double) -> Double {
        if pairs.isClean(login, at: now, limits) {
            return min(names.wait(login.origin, at: now), names.rest(login.origin, of: limits.neighbourWait, at: now))
        }
        let wait = origins.wait(login.origin, at: now)
        return isGuessedAt ? wait : min(wait, origins.rest(login.origin, of: limits.addressWait, at: now))
    }

    /// Whether the user has logged in from there before.
    public func knows(_ login: Login) -> Bool { known[login] != nil }

    /// Notes a refused login. Returns the wait that follows, nil for none.
    public mutating func failed(_ login: Login, at now: Double) -> Double? {
        if pairs.isClean(login, at: now, limits) { _ = names.failed(login.origin, at: now, limits) }
        let own = pairs.failed(login, at: now, limits)
        let user = users.failed(login.user, at: now, limits)
        let origin = origins.failed(login.origin, at: now, limits)
        let wait = known[login] == nil ? max(own, user, origin) : own
        return wait > 0 ? wait : nil
    }

    /// Notes a successful login: this user's earlier failures at this address were mistakes.
    public mutating func succeeded(_ login: Login, at now: Double) {
        pairs.entries[login] = nil
        if known[login] == nil { Self.makeRoom(&known, limits.entries) { $0 } }
        known[login] = now
    }

    /// Drops a tenth at once, so that an attack from very many addresses does not cost a search each time.
    private static func makeRoom<Key: Hashable, Value>(_ entries: inout [Key: Value], _ limit: Int, age: (Value) -> Double) {
        guard entries.count >= limit else { return }
        for (key, _) in entries.sorted(by: { age($0.value) < age($1.value) }).prefix(max(1, limit / 10)) { entries[key] = nil }
    }
}
