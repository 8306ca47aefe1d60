import Environment
import Replication
import TLS

extension PeerListener {
    var time: any TimeSource { environment.time }

    func serves(_ database: String) -> Bool { settings.databases.contains { $0.value.utf8.elementsEqual(database.utf8) } }

    /// A connected peer, as status shows it.
    public struct Peer: Sendable {
        public var address: String
        public var user: String?
        public var since: Int64
        public var database: String
        public var subprotocol: String
        public var counts: ReplicationCounts
        public var isActive: Bool
        /// When it was idle last (seconds since 1970); nil where it never was.
        var lastIdle: Int64?
        /// Documents at which the peer's feed stands still until the push filter is mended.
        public var standstills: [Standstill] = []
        /// What both sides call the connection in their logs.
        public var correlationID: String?
        /// Protocol version and cipher; nil in clear text.
        public var tls: String?
        /// What the peer showed.
        public var certificate: Certificate?

        /// Seconds since both sides were last known to hold the same; nil where they never were.
        func lag(now: Int64) -> Int64? { isActive ? lastIdle.map { max(0, now - $0) } : 0 }
    }
}
