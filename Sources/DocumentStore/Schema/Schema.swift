import SQLite

/// The tables of a database file, and the migrations that lead to their current form.
enum Schema {
    /// "NJDB": distinguishes our files from others (`PRAGMA application_id`).
    static let applicationID: Int64 = 0x4E4A_4442

    /// Migration n leads from schema version n to n + 1. Never change one that was released: add another.
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
        // Decided conflicts. Bodies are the last columns, so that lists do not read their overflow pages; see `KeptBody` for their form. `flags`: see
        // `HistoryFlags`. Numbers are never reused, and have gaps only at the front.
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
        // When access to a channel begins or ends, its documents appear and disappear; others need not be examined.
        ["CREATE INDEX channels_members ON channels(collection, channel, id)"],
        // Replaced bodies, for deltas; the oldest are dropped first. `total` contains the size of all.
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
        // The names of a decided conflict's sides, and of its result, for peers with version vectors.
        ["local_version", "remote_version", "result_version"].map { "ALTER TABLE conflict_history ADD COLUMN \($0) TEXT" },
        // When access to a channel ends, its members disappear in the order in which they entered, a page at a time, without sorting. The index
        // contains the ids too.
        ["CREATE INDEX channels_entered ON channels(collection, channel, entered)", "DROP INDEX channels_members"],
    ]

    /// Indexes by fields of documents, see `FieldIndex`.
    ///
    /// - `field_indexes`: `state`, see `FieldIndexState`; `built`: while it is being built, it contains documents up to this sequence.
    /// - `field_entries`: `key` sorts like the fields' values, see `CollationKey`. Entries name documents rather than sequences, so that an edit that
    ///   does not change the fields does not change the entries.
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

    /// Assignments by sync functions, see `DocumentRoute`.
    ///
    /// - `routes`: the revision of a document that was assigned, and when it expires.
    /// - `channels`: the sequence at which the document first entered the channel; `left` is NULL while it is in it.
    /// - `grants`: what each document grants to whom; an empty origin stands for what an authenticator reported about a peer.
    /// - `access`: when a grantee first had a target, since when it has it, until when; NULL while it has it. Grantees are `u/USER`, `r/ROLE` and
    ///   `s/PEER`, targets `c/CHANNEL` and `r/ROLE`.
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
    /// - `checkpoint_owners`: how much an owner stores, and its number of writes.
    /// - `peer_checkpoints`: `used` is the number of the owner's write that stored it; the smallest belongs to the one not written for the longest
    ///   time.
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

    /// The tables of one collection in the current schema version.
    ///
    /// - `documents`: one row per document, its current revision. `flags`: 1 deleted, 2 in conflict,
    ///   4 refers to blobs, 8 has rows in `bodies`. `tree` is NULL while `rev` is the only revision.
    ///   `remotes`: see `KnownRemotes`; it is a column so that pulling a document writes one row, not two.
    ///   An edit moves the row to a new sequence, so the table is also the change feed.
    /// - `ids`: finds documents, see `IDIndex`.
    /// - `bodies`: bodies of other leaves, and of revisions that a remote has and that were edited here since.
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
