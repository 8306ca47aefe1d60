import Synchronization

/// How many logins have failed since the start, by listener; including those at the admin port.
final class RefusedLogins: Sendable {
    /// A name that no listener can have.
    static let adminPort = "admin port"

    private let counts = Mutex<[String: UInt64]>([:])

    func note(_ listener: String) { counts.withLock { $0[listener, default: 0] += 1 } }

    func count(_ listener: String) -> UInt64 { counts.withLock { $0[listener] ?? 0 } }
}
