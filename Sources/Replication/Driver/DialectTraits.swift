/// What the driver asks about a protocol as such: facts that are the same for every connection that speaks it. Each dialect answers all of them, so
/// that the driver need not know which one it has.
///
/// The sources are Couchbase's replication protocol over BLIP, as Couchbase Lite and Sync Gateway speak it, and CouchDB's replication protocol, version
/// 3, as CouchDB's own replicator uses it.
struct DialectTraits: Sendable {
    // MARK: Revisions and conflicts

    /// The peer has one current revision of each document: what it offers is that one, and any other that it had it has abandoned.
    ///
    /// BLIP: a row of `changes` names the document's current revision. CouchDB keeps every branch: `_changes` lists all leaves of a document.
    var peerHasOne: Bool
    /// Of two branches without an owner, the greater one survives a decision: see `WriteTransaction.resolveConflict`. Only at a peer that keeps every
    /// branch do the others end below it.
    var keepsGreater: Bool { !peerHasOne }
    /// A revision that arrives under a sequence for which nothing is awaited is refused.
    ///
    /// BLIP: the peer sends revisions as messages of its own, and could send one that nobody asked for. With CouchDB each revision is part of the
    /// answer to a request of ours, and all leaves of a document have the same sequence.
    var refusesUnsolicited: Bool

    // MARK: Checkpoints

    /// A peer without a checkpoint of ours says so. If there is none on this side either, nothing indicates that the peer lost one.
    ///
    /// BLIP: the answer to `getCheckpoint` is an error 404. CouchDB may not let a login look, so that a `_local` document that does not exist and
    /// one that is not shown are treated alike.
    var saysThatCheckpointIsMissing: Bool
    /// If a save of the checkpoint is in conflict, and the peer has another copy than the last one known here, replication begins again from what
    /// both sides have. If the peer has none any more, it does so with any protocol. The copy is also looked at while the connection is idle.
    ///
    /// With CouchDB a connection is a series of HTTP requests, which goes on while the database is restored from a backup, or deleted and created anew:
    /// only the checkpoint reveals it. With BLIP the connection would have ended.
    var isRestartedByConflicts: Bool

    // MARK: Messages

    /// What is spoken was agreed on as a WebSocket subprotocol, which is told to policies. HTTP requests to CouchDB have none.
    var hasSubprotocol: Bool
    /// A body that is sent in full also lists its blobs, as `_attachments`: that requires reading all of it, so a large one is made ready before it
    /// becomes a message.
    ///
    /// BLIP: each `rev` is made in a turn of the session. For CouchDB bodies are made in the tasks that send them.
    var listsBlobsInBodies: Bool
    /// A message contains the whole body from the moment it is made, so that the push may release its own.
    ///
    /// BLIP: a `rev` is made once. For CouchDB the body is read again if a request has to be repeated.
    var messagesHoldBodies: Bool

    // MARK: What the peer owes

    /// What is held for the peer are answers to our own requests, limited by what was requested: our own work, and not owed by the peer. To end the
    /// connection because of it would only cause the same requests again.
    ///
    /// That is so with CouchDB, which sends nothing else. With BLIP the peer decides what it sends.
    var holdsOnlyOwnWork: Bool
    /// The dialect keeps an account of what the peer owes, see ``Dialect/owedSince``. Otherwise the driver does, from its messages and open rows.
    ///
    /// With CouchDB each request is an account of its own, and silence is the answer of an idle feed. With BLIP everything is on one connection.
    var accountsForDebts: Bool
}
