import COpenSSL
import Synchronization

/// The last session with each server that a client connected to, for a handshake without certificates. Each is used
/// only once, as RFC 8446 recommends (appendix C.4).
final class SessionCache: Sendable {
    /// One `SSL_SESSION`.
    private final class Session: Sendable {
        // Unsafe only in name: OpenSSL reference-counts and locks it.
        nonisolated(unsafe) let handle: OpaquePointer

        init(taking handle: OpaquePointer) { self.handle = handle }

        deinit { SSL_SESSION_free(handle) }
    }

    private struct Entries {
        var sessions: [TLSEndpoint: (session: Session, age: UInt64)] = [:]
        var age: UInt64 = 0
    }

    private let entries = Mutex(Entries())
    private let capacity: Int

    init(capacity: Int) {
        self.capacity = capacity
    }

    var count: Int { entries.withLock { $0.sessions.count } }

    /// Takes ownership of the session's reference.
    func keep(_ handle: OpaquePointer, for endpoint: TLSEndpoint) {
        let session = Session(taking: handle)
        guard capacity > 0 else { return }
        entries.withLock { entries in
            entries.age += 1
            if entries.sessions[endpoint] == nil, entries.sessions.count >= capacity,
                let oldest = entries.sessions.min(by: { $0.value.age < $1.value.age })
            {
                entries.sessions[oldest.key] = nil
            }
            entries.sessions[endpoint] = (session, entries.age)
        }
    }

    /// Lets a connection resume the session of `endpoint`, if there is one.
    func resume(_ ssl: OpaquePointer, at endpoint: TLSEndpoint) {
        guard let session = entries.withLock({ $0.sessions.removeValue(forKey: endpoint)?.session }) else { return }
        if SSL_SESSION_is_resumable(session.handle) == 1 { SSL_set_session(ssl, session.handle) }
    }

    /// For tests: as if another configuration had stored these sessions.
    func move(to other: SessionCache) {
        let taken = entries.withLock { entries in
            defer { entries.sessions = [:] }
            return entries.sessions
        }
        other.entries.withLock { $0.sessions = taken }
    }
}
