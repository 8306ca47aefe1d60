import Digests
import Environment
import Interfaces
import Synchronization

/// Remembers successful logins for a short time, so that a fleet that reconnects at once does not cost an scrypt computation per device.
///
/// Only successful logins are remembered, never refusals; and only under a keyed hash that nobody outside this process can compute, so that
/// memory holds neither passwords nor anything that could be checked against a list of passwords. Everything is forgotten when the
/// authenticator's answers may have changed.
final class LoginCache: PasswordAuthenticator {
    enum Limits {
        /// `remembered_logins`: the oldest are dropped.
        static let entries = 10_000
        /// `remembered_login_seconds`.
        static let seconds: UInt64 = 300
    }

    private struct Entry {
        var principal: Principal
        var until: UInt64
    }

    private struct State {
        var entries: [[UInt8]: Entry] = [:]
        /// Keys, oldest first.
        var order: [[UInt8]] = []
        /// How often the cache was cleared.
        var generation = 0
    }

    private let authenticator: any PasswordAuthenticator
    private let time: any TimeSource
    private let secret: [UInt8]
    private let state = Mutex(State())

    init(_ authenticator: any PasswordAuthenticator, environment: Environment) {
        self.authenticator = authenticator
        time = environment.time
        secret = environment.random.bytes(32)
    }

    func versionChanges() -> AsyncStream<String> { authenticator.versionChanges() }

    func forget() {
        state.withLock { $0 = State(generation: $0.generation + 1) }
    }

    func authenticate(username: String, password: String, listener: String, remote: String) async -> AuthenticationVerdict {
        let key = key(username, password, remote)
        let now = time.monotonicNanoseconds()
        let (known, generation) = state.withLock { state in
            (state.entries[key].flatMap { $0.until > now ? $0.principal : nil }, state.generation)
        }
        if let known { return .accepted(known) }
        let verdict = await authenticator.authenticate(username: username, password: password, listener: listener, remote: remote)
        if case .accepted(let principal) = verdict { remember(principal, key, generation) }
        return verdict
    }

    /// A login that was judged before the cache was cleared is not remembered.
    private func remember(_ principal: Principal, _ key: [UInt8], _ generation: Int) {
        let until = time.monotonicNanoseconds() + Limits.seconds * 1_000_000_000
        state.withLock { state in
            guard state.generation == generation else { return }
            if state.entries.updateValue(Entry(principal: principal, until: until), forKey: key) == nil { state.order.append(key) }
            guard state.order.count > Limits.entries else { return }
            // Drops a tenth at once, so that a full cache does not shift its list for each login.
            for old in state.order.prefix(Limits.entries / 10) { state.entries[old] = nil }
            state.order.removeFirst(Limits.entries / 10)
        }
    }

    /// Includes the address: an authenticator may consider it, but hardly the port.
    private func key(_ username: String, _ password: String, _ remote: String) -> [UInt8] {
        let host = remote[..<(remote.lastIndex(of: ":") ?? remote.endIndex)]
        let message = "\(username.utf8.count) \(password.utf8.count) \(username)\(password)\(host)"
        return hmacSHA256(key: secret, message: Array(message.utf8))
    }
}
