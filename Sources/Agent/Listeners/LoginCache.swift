import Digests
import Environment
import Interfaces
import Synchronization

/// Remembers for a short time which logins were right, so that a fleet that comes back at once does not cost a scrypt for each device again.
///
/// Only what was right is remembered, never a refusal; by a key that nobody outside of this process can compute, so that neither passwords
/// nor what could be held against a list of passwords lie in memory. All of it is forgotten when the authenticator may judge otherwise.
final class LoginCache: PasswordAuthenticator {
    enum Limits {
        /// `remembered_logins`: the oldest are forgotten.
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
        /// Keys in the order in which they came.
        var order: [[UInt8]] = []
        /// How often all was forgotten.
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

    /// What was judged before all was forgotten is not remembered.
    private func remember(_ principal: Principal, _ key: [UInt8], _ generation: Int) {
        let until = time.monotonicNanoseconds() + Limits.seconds * 1_000_000_000
        state.withLock { state in
            guard state.generation == generation else { return }
            if state.entries.updateValue(Entry(principal: principal, until: until), forKey: key) == nil { state.order.append(key) }
            guard state.order.count > Limits.entries else { return }
            // A tenth at once, so that a full cache does not move its list for each login.
            for old in state.order.prefix(Limits.entries / 10) { state.entries[old] = nil }
            state.order.removeFirst(Limits.entries / 10)
        }
    }

    /// An authenticator may go by the address too, but hardly by the port.
    private func key(_ username: String, _ password: String, _ remote: String) -> [UInt8] {
        let host = remote[..<(remote.lastIndex(of: ":") ?? remote.endIndex)]
        let message = "\(username.utf8.count) \(password.utf8.count) \(username)\(password)\(host)"
        return hmacSHA256(key: secret, message: Array(message.utf8))
    }
}
