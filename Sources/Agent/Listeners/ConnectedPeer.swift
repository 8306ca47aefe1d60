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
        /// When it was idle last (seconds since 1970); nil where it never was.
        var lastIdle: Int64?
        /// Documents at which the peer's feed stands still until the push filter is mended.
        package var standstills: [Standstill] = []
        /// What both sides call the connection in their logs.
        package var correlationID: String?
        /// Protocol version and cipher; nil in clear text.
        package var tls: String?
        /// What the peer showed.
        package var certificate: Certificate?

        /// Seconds since both sides were last known to hold the same; nil where they never were.
        func lag(now: Int64) -> Int64? { isActive ? lastIdle.map { max(0, now - $0) } : 0 }
    }
}
