import Environment
import Replication
import TLS

extension PeerListener {
    var time: any TimeSource { environment.time }

    func serves(_ database: String) -> Bool { settings.databases.contains { $0.value.utf8.elementsEqual(database.utf8) } }

    /// A connected peer, as status shows it.
    package struct Peer: Sendable {
        package var address: String
        package var user: String?
        package var since: Int64
        package var database: String
        package var subprotocol: String
        package var counts: ReplicationCounts
        package var isActive: Bool
        /// When it was last idle (seconds since 1970); nil if it never was.
        var lastIdle: Int64?
        /// Documents that block the peer's feed until the push filter is fixed.
        package var stalls: [Stall] = []
        /// The connection's name in the logs of both sides.
        package var correlationID: String?
        /// The TLS version and cipher; nil for clear text.
        package var tls: String?
        /// The certificate that the peer presented.
        package var certificate: Certificate?

        /// Seconds since both sides were last known to hold the same; nil if they never were.
        func lag(now: Int64) -> Int64? { isActive ? lastIdle.map { max(0, now - $0) } : 0 }
    }
}
