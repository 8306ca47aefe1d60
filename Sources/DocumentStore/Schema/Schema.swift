import SQLite

/// The tables of a database file and the steps that lead to their present form.
enum Schema {
    /// "NJDB": tells our files from others (`PRAGMA application_id`).
    static let applicationID: Int64 = 0x4E4A_4442

    /// Step n leads from schema version n to n + 1. Never change one that was released: add another.
    static let migrations: [[String]] = [
        [
            "CREATE TABLE properties(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
            // Counters are written once per transaction, by the writer.
            """
            CREATE TABLE collections(
                id INTEGER PRIMARY KEY, scope TEXT NOT NULL, name TEXT NOT NULL,
                last_sequence INTEGER NOT NULL DEFAULT 0, indexed_up_to INTEGER NOT NULL DEFAULT 0,
                documents INTEGER NOT NULL DEFAULT 0, deleted INTEGER NOT NULL DEFAULT 0,
                UNIQUE(scope, name))
            """,
            "CREATE TABLE remotes(id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE)",
            """
            CREATE TABLE checkpoints(
                kind INTEGER NOT NULL, collection INTEGER NOT NULL, id TEXT NOT NULL,
                rev INTEGER NOT NULL, body BLOB NOT NULL,
                PRIMARY KEY(kind, collection, id)) WITHOUT ROWID
            """,
            """
            CREATE TABLE local_documents(
                collection INTEGER NOT NULL, id TEXT NOT NULL,
                rev INTEGER NOT NULL, body BLOB NOT NULL,
                PRIMARY KEY(collection, id)) WITHOUT ROWID
            """,
        ],
        // Decided conflicts. Bodies come last, so that lists do not read the pages they overflow to; see `KeptBody` for their
        // form. `flags`: see `HistoryFlags`. Numbers are never given twice, and without gaps but at the front.
        [
            """
            CREATE TABLE conflict_history(
                number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, collection INTEGER NOT NULL, id TEXT NOT NULL,
                place INTEGER NOT NULL, place_name TEXT NOT NULL, peer TEXT NOT NULL, user TEXT,
                local_rev TEXT NOT NULL, remote_rev TEXT NOT NULL, base_rev TEXT, result_rev TEXT NOT NULL,
                flags INTEGER NOT NULL, decision INTEGER NOT NULL,
                plugin TEXT NOT NULL, version TEXT NOT NULL, duration INTEGER NOT NULL,
                shadow INTEGER, shadow_plugin TEXT, shadow_version TEXT, shadow_decision INTEGER, shadow_error TEXT,
                shadow_duration INTEGER,
                local_body BLOB, remote_body BLOB, base_body BLOB, result_body BLOB, shadow_body BLOB)
            """,
            "CREATE INDEX conflict_history_document ON conflict_history(collection, id)",
            "CREATE INDEX conflict_history_shadow ON conflict_history(shadow) WHERE shadow IS NOT NULL",
        ],
        channels,
        peerCheckpoints,
        // Access to a channel begins or ends: its documents come and go, and no others are looked at.
        ["CREATE INDEX channels_members ON channels(collection, channel, id)"],
        // Bodies that were replaced, for deltas; the oldest go first. `total` has the bytes of all.
        [
            """
            CREATE TABLE delta_bases(
                number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, collection INTEGER NOT NULL, id TEXT NOT NULL,
                rev TEXT NOT NULL, size INTEGER NOT NULL, body BLOB NOT NULL)
            """,
            "CREATE INDEX delta_bases_document ON delta_bases(collection, id)",
            "CREATE TABLE delta_bases_total(bytes INTEGER NOT NULL)",
            "INSERT INTO delta_bases_total(bytes) VALUES(0)",
        ],
        fieldIndexes,
        // What peers of version vectors call the sides of a decided conflict, and its result.
        ["local_version", "remote_version", "result_version"].map { "ALTER TABLE conflict_history ADD COLUMN \($0) TEXT" },
        // Access to a channel ends: its members go in the order in which they came, some at a time, and none is sorted for that. It has the ids too.
        ["CREATE INDEX channels_entered ON channels(collection, channel, entered)", "DROP INDEX channels_members"],
    ]

    /// Indexes by fields of documents, see `FieldIndex`.
    ///
    /// - `field_indexes`: `state`, see `FieldIndexState`; `built`: documents up to this sequence are in it while it is being built.
    /// - `field_entries`: `key` is in the order of the fields' values, see `CollationKey`. Entries name documents and not their sequences, so that
    ///   an edit that leaves the fields alone leaves them alone.
    private static let fieldIndexes = [
        """
        CREATE TABLE field_indexes(
            number INTEGER PRIMARY KEY AUTOINCREMENT, collection INTEGER NOT NULL, design TEXT NOT NULL, name TEXT NOT NULL,
            definition TEXT NOT NULL, state INTEGER NOT NULL, built INTEGER NOT NULL)
        """,
        "CREATE INDEX field_indexes_of ON field_indexes(collection)",
        """
        CREATE TABLE field_entries(
            number INTEGER NOT NULL, key BLOB NOT NULL, id TEXT NOT NULL,
            PRIMARY KEY(number, key, id)) WITHOUT ROWID
        """,
    ]

    /// What sync functions assign, see `DocumentRoute`.
    ///
    /// - `routes`: which revision of a document was assigned, and when it expires.
    /// - `channels`: the sequence at which the document first came into the channel; `left` is NULL while it is in it.
    /// - `grants`: who gets what by which document; an empty origin stands for what an authenticator said of a peer.
    /// - `access`: when a grantee first had a target, since when it has it, until when; NULL while it has it. Grantees are `u/USER`, `r/ROLE`
    ///   and `s/PEER`, targets `c/CHANNEL` and `r/ROLE`.
    private static let channels = [
        """
        CREATE TABLE routes(
            collection INTEGER NOT NULL, id TEXT NOT NULL, rev TEXT NOT NULL, expires INTEGER,
            plugin TEXT NOT NULL, version TEXT NOT NULL, error TEXT NOT NULL,
            PRIMARY KEY(collection, id)) WITHOUT ROWID
        """,
        "CREATE INDEX routes_expires ON routes(expires) WHERE expires IS NOT NULL",
        "CREATE INDEX routes_failed ON routes(collection, id) WHERE error <> ''",
        """
        CREATE TABLE channels(
            collection INTEGER NOT NULL, id TEXT NOT NULL, channel TEXT NOT NULL,
            entered INTEGER NOT NULL, left INTEGER,
            PRIMARY KEY(collection, id, channel)) WITHOUT ROWID
        """,
        "CREATE INDEX channels_left ON channels(collection, left) WHERE left IS NOT NULL",
        """
        CREATE TABLE grants(
            collection INTEGER NOT NULL, origin TEXT NOT NULL, grantee TEXT NOT NULL, target TEXT NOT NULL,
            PRIMARY KEY(collection, origin, grantee, target)) WITHOUT ROWID
        """,
        "CREATE INDEX grants_of ON grants(collection, grantee, target)",
        """
        CREATE TABLE access(
            collection INTEGER NOT NULL, grantee TEXT NOT NULL, target TEXT NOT NULL,
            first INTEGER NOT NULL, granted INTEGER NOT NULL, revoked INTEGER,
            PRIMARY KEY(collection, grantee, target)) WITHOUT ROWID
        """,
    ]

    /// Checkpoints of peers, by owner; see `CheckpointOwner`.
    ///
    /// - `checkpoint_owners`: what an owner stores, and its number of writes.
    /// - `peer_checkpoints`: `used` is the owner's write that left it so; the smallest is the one that was not written for longest.
    private static let peerCheckpoints = [
        """
        CREATE TABLE peer_checkpoints(
            owner TEXT NOT NULL, id TEXT NOT NULL, used INTEGER NOT NULL, rev INTEGER NOT NULL, body BLOB NOT NULL,
            PRIMARY KEY(owner, id)) WITHOUT ROWID
        """,
        "CREATE INDEX peer_checkpoints_used ON peer_checkpoints(owner, used)",
        """
        CREATE TABLE checkpoint_owners(
            owner TEXT PRIMARY KEY, writes INTEGER NOT NULL, count INTEGER NOT NULL, bytes INTEGER NOT NULL) WITHOUT ROWID
        """,
        "INSERT INTO peer_checkpoints(owner, id, used, rev, body) SELECT '', id, 0, rev, body FROM checkpoints WHERE kind = 1",
        "DELETE FROM checkpoints WHERE kind = 1",
        "INSERT INTO checkpoint_owners(owner, writes, count, bytes) SELECT '', 0, count(*), ifnull(sum(length(body)), 0) FROM peer_checkpoints",
    ]

    static var version: Int { migrations.count }

    /// Tables of one collection, as they are at the present version.
    ///
    /// - `documents`: one row per document, its current revision. `flags`: 1 deleted, 2 in conflict,
    ///   4 refers to blobs, 8 has rows in `bodies`. `tree` is NULL while `rev` is the only revision.
    ///   `remotes`: see `KnownRemotes`; it is a column so that pulling a document writes one row, not two.
    ///   An edit moves the row to a new sequence, so the table is also the change feed.
    /// - `ids`: where a document is, see `IDIndex`.
    /// - `bodies`: bodies of other leaves, and of revisions that a remote has and we have edited since.
    static func collectionTables(_ n: Int) -> [String] {
        [
            """
            CREATE TABLE documents_\(n)(
                sequence INTEGER PRIMARY KEY, slot INTEGER NOT NULL, id TEXT NOT NULL, rev TEXT NOT NULL,
                flags INTEGER NOT NULL, tree BLOB, remotes BLOB NOT NULL, body BLOB NOT NULL)
            """,
            "CREATE TABLE ids_\(n)(slot INTEGER PRIMARY KEY, sequence INTEGER NOT NULL)",
            "CREATE TABLE bodies_\(n)(id TEXT NOT NULL, rev TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY(id, rev))",
            "CREATE TABLE blobs_\(n)(id TEXT NOT NULL, digest BLOB NOT NULL, PRIMARY KEY(id, digest)) WITHOUT ROWID",
            "CREATE INDEX blobs_\(n)_digest ON blobs_\(n)(digest)",
            """
            CREATE TABLE conflicts_\(n)(
                id TEXT PRIMARY KEY, local_rev TEXT NOT NULL, remote INTEGER, remote_rev TEXT NOT NULL,
                error TEXT NOT NULL, plugin TEXT NOT NULL, version TEXT NOT NULL,
                tries INTEGER NOT NULL, since INTEGER NOT NULL) WITHOUT ROWID
            """,
            """
            CREATE TABLE exclusions_\(n)(
                remote INTEGER NOT NULL, direction INTEGER NOT NULL, id TEXT NOT NULL, kind INTEGER NOT NULL,
                sequence INTEGER NOT NULL, remote_sequence TEXT NOT NULL, rev TEXT,
                error TEXT NOT NULL, plugin TEXT NOT NULL, version TEXT NOT NULL,
                tries INTEGER NOT NULL, since INTEGER NOT NULL,
                PRIMARY KEY(remote, direction, id)) WITHOUT ROWID
            """,
        ]
    }
}

/// Bits of the `flags` column.
enum DocumentFlags {
    static let deleted: Int64 = 1
    static let conflicted: Int64 = 2
    static let blobs: Int64 = 4
    static let bodies: Int64 = 8
}
