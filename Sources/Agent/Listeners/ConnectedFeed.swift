import CouchDBServer
import Documents

extension PeerListener {
    /// A client that follows the changes of a database over HTTP, as status shows it.
    struct ConnectedFeed: Sendable {
        var address: String
        var user: String?
        var since: Int64
        var database: String
        var feed: Admission.Feed

        /// With the same member names as a peer's report.
        var report: JSONValue {
            JSONOutput.object([
                "address": .string(address), "user": JSONOutput.text(user), "since": .string(Timestamp.format(since)), "database": .string(database),
                "collection": .string(feed.collection.description), "protocol": .string("CouchDB"), "feed": .string(feed.kind),
            ])
        }
    }

    /// The active feeds of the CouchDB API, in the order in which they began.
    var feeds: [ConnectedFeed] {
        callers.all.compactMap { caller in
            guard let feed = caller.admission?.feed else { return nil }
            return ConnectedFeed(address: caller.address, user: caller.principal.name, since: caller.since, database: caller.database, feed: feed)
        }
    }
}
