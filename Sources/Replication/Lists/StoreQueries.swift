import Documents
import DocumentStore
import Interfaces

extension ReadTransaction {
    /// The document's place in the feed.
    func row(_ collection: Collection, _ id: DocumentID, withBody: Bool = false, remote: RemoteID? = nil) throws(StoreError) -> ChangeRow? {
        try changes(collection, since: 0, limit: 1, includeBodies: withBody, ids: [id], remote: remote).first
    }

    /// Whether a document that is on a list is still to be had, or given up, for the reason that is noted there. The peer may have got it by
    /// another way since, from another replicator for one, and what was refused may have changed: then it is offered anyway.
    func isOwed(_ listed: Exclusion, _ collection: Collection) throws(StoreError) -> Bool {
        guard listed.direction == .push else { return true }
        guard let row = try row(collection, listed.id, remote: listed.remote), row.remoteRevision != row.revision else { return false }
        return listed.kind != .refused || row.revision == listed.revision
    }

    /// A revision that is put on a list, by its id: lists are compared with what is stored, whatever the peer calls it. A version whose
    /// revision is not here any more stays as it is.
    func listName(of version: Version, _ collection: Collection, _ id: DocumentID) -> Version {
        version.kind == .version ? (try? revision(named: version, collection, id)) ?? version : version
    }

    /// When a peer that refused a document because of its clock is offered it again, in seconds since 1970; nil where its versions' time
    /// has come, or it was refused for something else.
    func timeAwaited(by listed: Exclusion, _ collection: Collection, now: UInt64) -> Int64? {
        guard listed.kind == .refused, ReplicationError.isOfClock(domain: listed.plugin, code: listed.version, listed.error),
            let time = (try? currentVector(collection, listed.id))?.latestTime, time > now
        else { return nil }
        return Int64(clamping: (time - 1) / 1_000_000_000 + 1)
    }
}
