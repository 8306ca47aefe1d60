import Documents
import DocumentStore
import Interfaces

extension ReadTransaction {
    /// The document's row in the feed.
    func row(_ collection: Collection, _ id: DocumentID, withBody: Bool = false, remote: RemoteID? = nil) throws(StoreError) -> ChangeRow? {
        try changes(collection, since: 0, limit: 1, includeBodies: withBody, ids: [id], remote: remote).first
    }

    /// Whether a listed document is still missing, or given up, for the recorded reason. The peer may have received it in another way since, for
    /// example from another replicator, and a refused document may have changed: then it is offered in any case.
    func isOwed(_ listed: Exclusion, _ collection: Collection) throws(StoreError) -> Bool {
        if listed.direction == .untaken {
            guard let revision = listed.revision, let row = try row(collection, listed.id, remote: listed.remote) else { return true }
            return row.revision != revision && row.remoteRevision != revision
        }
        guard listed.direction == .push else { return true }
        guard let row = try row(collection, listed.id, remote: listed.remote), row.remoteRevision != row.revision else { return false }
        return listed.kind != .refused || row.revision == listed.revision
    }

    /// The revision id under which a version is put on a list: lists are compared with what is stored, whatever the peer calls it. A version whose
    /// revision no longer exists here is returned unchanged.
    func listName(of version: Version, _ collection: Collection, _ id: DocumentID) -> Version {
        version.kind == .version ? (try? revision(named: version, collection, id)) ?? version : version
    }

    /// When a document that a peer refused because of its clock is offered again, in seconds since 1970; nil if the time of its versions has come, or
    /// it was refused for another reason.
    func timeAwaited(by listed: Exclusion, _ collection: Collection, now: UInt64) -> Int64? {
        guard listed.kind == .refused, ReplicationError.isClockSkew(domain: listed.plugin, code: listed.version, listed.error),
            let time = (try? currentVector(collection, listed.id))?.latestTime, time > now
        else { return nil }
        return Int64(clamping: (time - 1) / 1_000_000_000 + 1)
    }
}
