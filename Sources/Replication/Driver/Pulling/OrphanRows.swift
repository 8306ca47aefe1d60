import Documents
import DocumentStore
import Interfaces

/// How a document that stayed after the peer took it away is listed, with words for operators.
extension RemovalOutcome {
    static let keptByFilter = "the pull filter keeps it"
    static let keptForEdit = "an edit made here has not reached the remote, and would be lost; nightjar doc purge removes it"

    /// The list entry of a document that stayed; nil for one that did not stay.
    func orphan(_ remote: RemoteID, _ revision: RevisionID?, filter: (any DocumentFilter)?) -> Exclusion? {
        var row = Exclusion(
            remote: remote, direction: .access, kind: .orphaned, id: removal.id, remoteSequence: removal.sequence?.json ?? "",
            revision: revision)
        switch end {
        case .purged, .absent: return nil
        case .kept: row.error = "the replicator does not purge it (enable_auto_purge, document_ids)"
        case .edited: row.error = Self.keptForEdit
        case .rejected(let plugin):
            (row.plugin, row.version) = (plugin, filter?.version ?? "")
            row.error = Self.keptByFilter
        case .failed(let failure): (row.plugin, row.version, row.error) = (failure.plugin, failure.version, failure.message)
        }
        return row
    }
}
