import Synchronization

/// How many logins were wrong since the start, by listener; those of the admin port too.
final class RefusedLogins: Sendable {
    /// The name that no listener can have.
    static let adminPort = "admin port"

    private let counts = Mutex<[String: UInt64]>([:])

    func note(_ listener: String) { counts.withLock { $0[listener, default: 0] += 1 } }

    func count(_ listener: String) -> UInt64 { counts.withLock { $0[listener] ?? 0 } }
}
