import Documents
import SQLite

/// The prepared statements of one collection on one connection. Frequently used ones have a property of their own; each is created when first used.
final class CollectionTables {
    let collection: Collection
    private unowned let session: Session
    private let n: Int
    let index: IDIndex

    init(_ collection: Collection, _ session: Session) {
        self.collection = collection
        self.session = session
        n = collection.id
        index = IDIndex(n, session)
    }

    private var statements: [Query: Statement] = [:]
    private var insertStatement: Statement?
    private var findStatement: Statement?

    /// The caller has already asked the index whether the document is new.
    func insert() throws(StoreError) -> Statement {
        if let insertStatement { return insertStatement }
        let made = try session.prepare("""
            INSERT INTO documents_\(n)(sequence, id, rev, flags, tree, remotes, body, slot) \
            VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
            """)
        insertStatement = made
        return made
    }

    /// Columns: id, rev, flags, tree, remotes.
    func find() throws(StoreError) -> Statement {
        if let findStatement { return findStatement }
        let made = try session.prepare("SELECT id, rev, flags, tree, remotes FROM documents_\(n) WHERE sequence = ?1")
        findStatement = made
        return made
    }

    enum Query {
        case document, replace, update, move, setRemotes, remove, bodyAtSequence
        case changes, changesWithBodies
        case keepBody, keepCurrentBody, body, bodiesOf, dropBody, dropBodies
        case addBlob, dropBlobs, blobReferenced, blobNamedBy
        case conflict, setConflict, dropConflict, conflictFailure, conflicts, pendingConflict
        case exclusion, exclude, unexclude, dropExclusionsOf
    }

    func statement(_ query: Query) throws(StoreError) -> Statement {
        if let found = statements[query] { return found }
        let made = try session.prepare(sql(query))
        statements[query] = made
        return made
    }

    private func sql(_ query: Query) -> String {
        switch query {
        case .document: "SELECT id, rev, flags, body FROM documents_\(n) WHERE sequence = ?1"
        case .replace:
            """
            UPDATE documents_\(n) SET sequence = ?2, rev = ?3, flags = ?4, tree = ?5, remotes = ?6, body = ?7 \
            WHERE sequence = ?1
            """
        case .update: "UPDATE documents_\(n) SET flags = ?2, tree = ?3, remotes = ?4 WHERE sequence = ?1"
        case .move: "UPDATE documents_\(n) SET sequence = ?5, flags = ?2, tree = ?3, remotes = ?4 WHERE sequence = ?1"
        case .setRemotes: "UPDATE documents_\(n) SET remotes = ?2 WHERE sequence = ?1"
        case .remove: "DELETE FROM documents_\(n) WHERE sequence = ?1"
        case .bodyAtSequence: "SELECT body FROM documents_\(n) WHERE sequence = ?1"
        case .changes:
            """
            SELECT sequence, id, rev, flags, tree, remotes, length(body) FROM documents_\(n) \
            WHERE sequence > ?1 ORDER BY sequence LIMIT ?2
            """
        case .changesWithBodies:
            """
            SELECT sequence, id, rev, flags, tree, remotes, body FROM documents_\(n) \
            WHERE sequence > ?1 ORDER BY sequence LIMIT ?2
            """
        case .keepBody: "INSERT OR REPLACE INTO bodies_\(n)(id, rev, body) VALUES(?1, ?2, ?3)"
        case .keepCurrentBody:
            "INSERT OR REPLACE INTO bodies_\(n)(id, rev, body) SELECT id, rev, body FROM documents_\(n) WHERE sequence = ?1"
        case .body: "SELECT body FROM bodies_\(n) WHERE id = ?1 AND rev = ?2"
        case .bodiesOf: "SELECT rev FROM bodies_\(n) WHERE id = ?1"
        case .dropBody: "DELETE FROM bodies_\(n) WHERE id = ?1 AND rev = ?2"
        case .dropBodies: "DELETE FROM bodies_\(n) WHERE id = ?1"
        case .addBlob: "INSERT OR IGNORE INTO blobs_\(n)(id, digest) VALUES(?1, ?2)"
        case .dropBlobs: "DELETE FROM blobs_\(n) WHERE id = ?1"
        case .blobReferenced: "SELECT 1 FROM blobs_\(n) WHERE digest = ?1 LIMIT 1"
        case .blobNamedBy: "SELECT id FROM blobs_\(n) WHERE digest = ?1 ORDER BY id LIMIT ?2"
        case .conflict: "SELECT local_rev, remote, remote_rev, since FROM conflicts_\(n) WHERE id = ?1"
        case .setConflict:
            """
            INSERT INTO conflicts_\(n)(id, local_rev, remote, remote_rev, error, plugin, version, tries, since) \
            VALUES(?1, ?2, ?3, ?4, '', '', '', 0, ?5) \
            ON CONFLICT(id) DO UPDATE SET local_rev = ?2, remote = ?3, remote_rev = ?4
            """
        case .dropConflict: "DELETE FROM conflicts_\(n) WHERE id = ?1"
        case .conflictFailure: "UPDATE conflicts_\(n) SET error = ?2, plugin = ?3, version = ?4, tries = tries + 1 WHERE id = ?1"
        case .conflicts:
            """
            SELECT id, local_rev, remote_rev, remote, error, plugin, version, tries, since FROM conflicts_\(n) \
            WHERE id > ?1 ORDER BY id LIMIT ?2
            """
        case .pendingConflict:
            "SELECT id, local_rev, remote_rev, remote, error, plugin, version, tries, since FROM conflicts_\(n) WHERE id = ?1"
        case .exclusion:
            """
            SELECT remote, direction, id, kind, sequence, remote_sequence, rev, error, plugin, version, tries, since \
            FROM exclusions_\(n) WHERE remote = ?1 AND direction = ?2 AND id = ?3
            """
        case .exclude:
            """
            INSERT INTO exclusions_\(n)(remote, direction, id, kind, sequence, remote_sequence, rev, \
            error, plugin, version, tries, since) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) \
            ON CONFLICT DO UPDATE SET kind = excluded.kind, sequence = excluded.sequence, remote_sequence = excluded.remote_sequence, \
            rev = excluded.rev, error = excluded.error, plugin = excluded.plugin, version = excluded.version, \
            tries = CASE WHEN kind = excluded.kind THEN tries ELSE 0 END + excluded.tries, \
            since = CASE WHEN kind = excluded.kind AND (kind <> \(Exclusion.Kind.refused.rawValue) OR rev IS excluded.rev) THEN since ELSE excluded.since END
            """
        case .unexclude: "DELETE FROM exclusions_\(n) WHERE remote = ?1 AND direction = ?2 AND id = ?3"
        case .dropExclusionsOf: "DELETE FROM exclusions_\(n) WHERE id = ?1"
        }
    }
}
