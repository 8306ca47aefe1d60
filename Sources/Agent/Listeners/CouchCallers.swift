import CouchDBServer
import Interfaces
import Synchronization
import TLS

/// The clients whose requests to a listener's CouchDB API are being answered: a feed may last for days.
final class CouchCallers: Sendable {
    struct Caller: Sendable {
        var principal: Principal
        var proof: PeerAuthentication.Proof
        /// What the client presented in the TLS handshake, its own certificate first.
        var chain: [Certificate]
        /// The session that it used to log in.
        var login: PeerSessions.Key?
        var address: String
        var database: String
        /// Seconds since 1970.
        var since: Int64
        /// The numbers of the last changes of authentication and of the certificate authorities when the caller was admitted.
        var generation: Int
        var authorities: Int
        /// Nil once the request has been answered.
        weak var admission: Admission?
    }

    private struct State {
        var callers: [Int: Caller] = [:]
        var next = 0
        var isClosed = false
    }

    private let state = Mutex(State())

    /// The caller stays registered as long as somebody holds the returned object.
    func add(_ caller: Caller) -> Admission {
        let key = state.withLock { state in
            state.next += 1
            return state.next
        }
        let admission = Admission(generation: caller.generation) { [weak self] in self?.forget(key) }
        let isClosed = state.withLock { state in
            state.callers[key] = caller
            state.callers[key]?.admission = admission
            return state.isClosed
        }
        if isClosed { admission.listenerStops() }
        return admission
    }

    /// In the order in which they came.
    var all: [Caller] { state.withLock { $0.callers.sorted { $0.key < $1.key }.map(\.value) } }

    /// The listener is stopping: data already on its way to a client may still arrive, but nothing follows.
    func close() {
        state.withLock { $0.isClosed = true }
        for caller in all { caller.admission?.listenerStops() }
    }

    private func forget(_ key: Int) {
        state.withLock { _ = $0.callers.removeValue(forKey: key) }
    }
}
