import Documents
import DocumentStore

extension WriteTransaction {
    /// Records what the peer holds. A document already known to too many remotes is skipped: it will be proposed once more.
    func markRemote(_ remote: RemoteID, _ collection: Collection, _ batch: AcknowledgedVersions.Batch) throws(StoreError) {
        let marks = batch.marks.map { ($0.id, $0.version) }
        do { try setRemoteRevisions(remote, collection, marks) } catch {
            guard error.concernsOneDocument else { throw error }
            for mark in marks {
                do { try setRemoteRevisions(remote, collection, [mark]) } catch {
                    guard error.concernsOneDocument else { throw error }
                }
            }
        }
        if batch.endsExclusions { try unexclude(collection, remote: remote, direction: .push, ids: marks.map(\.0)) }
    }
}
