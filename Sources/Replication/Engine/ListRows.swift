import Documents

/// One row of a peer's `changes`: `[sequence, docID, revID, deleted, bodySize]`.
struct OfferedRow: Sendable {
    var sequence: RemoteSequence
    var id: DocumentID
    var revision: RevisionID
    /// Bits: 1 deleted, 2 access revoked, 4 removed from the channel (Sync Gateway's; LiteCore writes 0 and 1).
    var flags: Int
    var bodySize: Int

    var isDeletion: Bool { flags & 1 != 0 }

    /// The peer took the document away, as opposed to deleting it.
    var isAccessRemoved: Bool { flags >= 2 && flags != 5 }
}

/// One row of a peer's `proposeChanges`: `[docID, revID, serverRevID, bodySize]`.
struct ProposedRow: Sendable {
    var id: DocumentID
    var revision: RevisionID
    /// Its version vector, as far as the peer names it.
    var vector: VectorHistory?
    /// The revision that the peer believes to be current here.
    var parent: RevisionID?
    var bodySize: Int
}

/// A row that could not be read: answered by itself, the rest of the list goes on.
enum RowResult<Row: Sendable>: Sendable {
    case row(Row)
    /// With the document, where its id could be read.
    case bad(String, sequence: RemoteSequence?, id: DocumentID? = nil)
}

extension RowResult<OfferedRow> {
    /// Where the row stands in the peer's feed, if that much could be read.
    var sequence: RemoteSequence? {
        switch self {
        case .row(let row): row.sequence
        case .bad(_, let sequence, _): sequence
        }
    }
}
