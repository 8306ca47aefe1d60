extension Explanation {
    /// Limits that errors and log lines name.
    static let ofLimits = [
        Explanation(
            "limits.memory", "What is held in memory for all peers together has reached limits: { memory } (64 MiB).",
            "Connections are slowed down first; then the connection that has held the most for the longest is closed with 4001 (come back later), a request with "
                + "503; if one address owes more than its share, one of its connections. Raise it if the machine has room."),
        Explanation(
            "max_blob_bytes", "A blob is larger than limits: { max_blob_bytes } (256 MiB).",
            "Raise it and nightjar reload: what is held because of it is retried."),
        Explanation(
            "open_blobs", "As many blobs are being transferred as the agent reserves file descriptors for: a share of RLIMIT_NOFILE. A transfer without progress is given up.",
            "It passes by itself, and what is refused in the meantime is retried. Raise LimitNOFILE= of the service (ulimit -n) if many peers send blobs at once."),
        Explanation(
            "config_wait", "The configuration is a named pipe (mkfifo), and nothing arrived from it for 10 seconds.",
            "Write to it before or while nightjar starts, or use a regular file. Pipes that a shell makes for <(…) are read until they end, without this limit."),
        Explanation(
            "disk.reserve", "The disk of the data folder is full, and the reserve that the agent keeps there (disk: { reserve }, 4 MiB) has been released for "
                + "deletions, compaction and the log. Nothing else is accepted until it can be made again.",
            "Make room: it is made again by itself once three times as much is free."),
        Explanation(
            "couch_tree_bytes", "A response of a CouchDB server would take more than 256 MiB when decoded. Before it gives up, the agent asks for fewer documents at a time.",
            "Check what answers at the target; a document with millions of values has to be split."),
        Explanation("max_body_bytes", "A document is larger than 20 MiB.", "Store what is large as a blob: nightjar blob put."),
        Explanation(
            "max_sequence_bytes", "A peer's feed has a sequence longer than 8 KiB. No known server does this; the replication ends, because its position could not "
                + "be recorded.",
            "Check what answers at the replicator's target."),
        Explanation("body_bytes", "The body of a request to the admin API is too large.", "Send less at once, or use nightjar import, which has no limit."),
        Explanation(
            "import_judgings", "While the plugin in validate was called for an imported line, the line's document changed, in each of 5 attempts.",
            "Import the line again when nobody else writes that document."),
        Explanation("couchdb_request_bytes", "A request of CouchDB's API is too large.", "Send fewer documents in one _bulk_docs."),
        Explanation("couchdb_batch_bytes", "A _bulk_docs, or a document, has more than 4 GiB with the attachments in it, after unpacking if it is gzipped.", "Send "
            + "fewer documents at once (PouchDB's batch_size), and send what is large as an attachment of its own."),
        Explanation("couchdb_list_bytes", "A list of ids, keys or revisions in a request of CouchDB's API is larger than 4 MiB.", "Ask for fewer at once."),
        Explanation("couchdb_databases", "A _dbs_info names more than 100 databases.", "Ask for fewer at once, or for all of them by GET."),
        Explanation("couchdb_documents", "A _bulk_docs has more than 10,000 documents.", "Send them in several requests."),
        Explanation("couchdb_member_values", "A document's _attachments or _revisions have more than 20,000 values.", "Send fewer attachments, or less history."),
        Explanation("couchdb_find_bytes", "A query of CouchDB's API, or a list of databases, is larger than 256 KiB.", "Ask with a shorter selector, or for fewer keys at once."),
        Explanation(
            "couchdb_index_bytes", "The definition of an index, with its partial selector, is larger than 8 KiB.",
            "Make an index with a shorter selector, and put the rest into the queries."),
        Explanation(
            "selector_field_bytes", "The fields of a document that a selector, an index or fields of a query name are larger than 16 MiB in memory. _find leaves it out, "
                + "with a warning; _changes with a selector reports it.",
            "Name other or smaller fields; get the document by its id. What is that large should be a blob or an attachment."),
        Explanation(
            "selector_steps", "A selector takes more than 4,000,000 steps for one document: a long list times many conditions. It is left out as well.",
            "Use fewer conditions on the elements of lists ($elemMatch, $allMatch), or a Lua filter."),
        Explanation(
            "selector_request_steps", "A selector takes more than 200,000,000 steps for all the documents that one query, or one page of a feed, looks at.",
            "Make an index that narrows them down (_index), or use simpler conditions and regular expressions."),
        Explanation("couchdb_login_bytes", "The body of a login request is larger than any name and password can be.", "Check what the client sends to _session."),
        Explanation("max_session_request", "The body of a login request is larger than any name and password can be.", "Check what the client sends to _session."),
        Explanation("max_candidate_bytes", "The resolver to rehearse is larger than 1 MiB.", "Rehearse the resolver's own file only."),
        Explanation("max_sockets", "A listener or the admin port has reached its maximum number of sockets.", "End idle clients, raise max_connections or ulimit -n."),
        Explanation(
            "max_connections", "A listener has reached its maximum number of peers (1,000).", "Raise max_connections of that listener, if memory and ulimit -n allow."),
        Explanation(
            "max_connections_per_address",
            "One address has reached its maximum number of connections (256): an idle one is closed to make room; if there is none, a further one is answered 503.",
            "If many peers share that address, behind a proxy or a router, raise max_connections_per_address of the listener and nightjar reload; otherwise find out "
                + "what that machine does."),
        Explanation("document_id_bytes", "A document's id is longer than 240 bytes, which no peer accepts.", "Give it a shorter one, and keep the long name in a field."),
        Explanation("max_handshakes", "More than 512 connections had not yet sent a request; the one that had waited longest was closed to make room.", "Find out "
            + "who opens connections without sending anything."),
        Explanation(
            "login_attempts", "A user or address has tried 20 wrong passwords and has to wait, up to 300 seconds.",
            "Correct the password in the replicator's configuration; the wait ends by itself."),
        Explanation(
            "jwt_bytes", "A JSON Web Token is larger than 8 KiB, which no login needs.",
            "Have the issuer put fewer claims into it: it may list groups of the user that are not used here, for example."),
        Explanation("jwt_keys", "A file with keys of JSON Web Tokens has more than 64 of them.", "Keep only those that tokens are signed with; the kid in the "
            + "tokens' headers names them."),
        Explanation(
            "jwt_keys_tried", "A JSON Web Token whose header names no key of the file was tried with the first 8 keys for its algorithm, in the order of the file, and not "
                + "with the others.",
            "Have the issuer write the kid of its key into the tokens' headers, or keep only the keys that tokens are signed with."),
        Explanation(
            "sessions_per_user", "A user already has 100 sessions on a listener: a further login ends the user's least recently used session.",
            "If many programs share one user, give each a user of its own, or have them end sessions that they no longer need: DELETE /DATABASE/_session. nightjar "
                + "listener NAME sessions lists them."),
        Explanation(
            "sessions", "A listener already has 10,000 sessions: a further login ends the least recently used one.",
            "Have programs keep their session instead of logging in for each request: nightjar listener NAME sessions says whose they are."),
        Explanation(
            "session_seconds", "A session that was not used for 86,400 seconds, a day, has ended.", "The program logs in again: POST /DATABASE/_session. Each use "
                + "extends a session."),
        Explanation("max_event_streams", "64 readers are already following /api/events.", "Close dashboards that nobody is looking at."),
        Explanation(
            "observed_documents", "The on_documents hook of an observer is slower than its replicator, and 5,000 documents wait for it already: it is not told of further ones.",
            "Do less in the hook, such as counting what it is told of and looking at errors only; replication itself goes on."),
        Explanation(
            "discovered_peers",
            "More than 64 listeners are announced as one of a group: a replicator tries 64 of them for one connection, first those that it reached before, and the rest the next time.",
            "Look with nightjar discover who announces so many: anybody on the local network can. Name the pins of those that are yours in pinned_server_certificate."),
        Explanation(
            "too_large_documents", "More than 1,000 documents of a remote's collection were larger than this agent accepts, mostly than limits: { memory } allows: those beyond are not remembered by name.",
            "Raise limits: { memory } as the log says and start the agent again: those with a name are asked for by it, and the remote's changes since the first of the others "
                + "are read again."),
        Explanation("connect_time", "No connection within the time for it.", "Check whether a firewall drops packets on the way: nightjar doctor."),
        Explanation("max_collections", "The database has as many collections as it may.", "Use fewer; documents can be told apart by a field."),
        Explanation("proof_bytes", "A peer had to prove more of a blob than 128 MiB on one connection.", "It reconnects and goes on."),
        Explanation(
            "max_document_bytes", "A document, or what a transform made of one, is larger than 20 MiB, or than max_document_bytes of its database.",
            "Store what is large as a blob: nightjar blob put. If the database's limit is below 20 MiB, raise it and nightjar reload: what is held because of it "
                + "is retried."),
        Explanation(
            "warn_document_bytes", "A document was stored that is larger than warn_document_bytes of its database (1 MiB).",
            "nightjar explain documents_large says what to do."),
        Explanation("max_blobs_per_document", "A document names more than 10,000 blobs or attachments.", "Split the document at the peer."),
        Explanation(
            "max_received_history", "A revision arrived with more than 1,000 ancestors, or a document has a longer history than can be requested.",
            "Find out what edits the document so often, and at the peer's own limit for revisions (revs_limit)."),
        Explanation(
            "fleet_document_bytes", "A signed document of the fleet has more than 512 KiB.", "Split the plugin, or put it into the plugins folder of each gateway."),
        Explanation(
            "fleet_documents", "The collection nightjar.fleet has more than 10,000 documents: the rest are ignored.",
            "Delete signed versions that no gateway uses any more: nightjar fleet status says which ones are in use."),
        Explanation(
            "expired_documents", "nightjar doc why knows the last 10,000 documents of a database that expired (_exp, ttl, tombstone_age); this one may have expired "
                + "before those.",
            "The log and nightjar audit go back further: they say when documents expired, and how many. If documents are missing, check ttl of the database and the "
                + "_exp that they were saved with."),
        Explanation("max_indexes", "A collection has reached its maximum of 64 indexes.", "Remove one that no query uses: _explain says which one a query takes."),
        Explanation(
            "not_taken_documents", "More than 10,000 documents of a remote's collection cannot be stored here: the rest are in the log, but not on the list.",
            "nightjar replicator NAME refused has the reasons (direction pull). Most likely they have one in common: fix it there, then nightjar replicator NAME start --reset."),
        Explanation(
            "refused_documents", "The peer refuses more than 10,000 documents of a collection: the rest are in the log, but not on the list.",
            "nightjar replicator NAME refused has the reasons, mostly the same one: fix that. All are offered again by themselves, with each new connection and at least once "
                + "an hour; at once with nightjar replicator NAME retry-refused."),
        Explanation(
            "max_clock_drift", "A version is more than two minutes ahead of this machine's clock, so one of two clocks is or was wrong. Couchbase Lite 4 refuses it "
                + "until that time has come.",
            "nightjar explain clocks_differ for a peer's version, versions_ahead for those of a database here."),
        Explanation("earliest_time", "The clock shows a time before 2026, which cannot be right.", "Set the clock, and have it kept right: nightjar explain clock_unset."),
        Explanation(
            "resolve_attempts", "A document changed during each of 10 decisions about it.", "It is retried by itself. Find out what writes it so often."),
        Explanation(
            "removal_wait", "A peer took a document away while an edit of it was on its way there, and did not answer that edit for 120 seconds.",
            "The replicator reconnects, and both are told once more. Look into the peer's log for what becomes of the document where it happens again."),
        Explanation("shadow_queue", "1,000 documents or conflicts waited for shadows; those beyond were decided without asking them, and are counted as skipped.", "Nothing is wrong with the decisions. A faster shadow sees all of them."),
        Explanation("shadow_queue_bytes", "16 MiB of documents or conflicts waited for shadows; those beyond were decided without asking them, and are counted as skipped.", "Nothing is wrong with the decisions. A faster shadow sees all of them."),
        Explanation("max_rehearsal_states", "A resolver keeps more than 10,000 keys of nightjar.state in a rehearsal.", "Rehearse on fewer conflicts: conflicts replay --last N."),
        Explanation("max_input", "The input of a command is larger than 64 MiB, and so larger than any document.", "Name the right file; nightjar import has no limit."),
        Explanation(
            "handshake_time", "A TLS handshake was not complete within 10 seconds.",
            "Look at the line, and whether the other side speaks TLS at that port: nightjar doctor."),
        Explanation("header_bytes", "The header of a request or of a proxy's answer is larger than 16 KiB.", "Look at the client's cookies, or what answers as the proxy."),
        Explanation("handshake_bytes", "More than 1 MiB came before the end of a TLS handshake.", "Look at what connects there: it does not wait for the handshake."),
        Explanation("inbound_bytes", "A peer sent more than 4 MiB after it was asked to wait; its connection ended.", "It reconnects. Look at the peer's version where it happens again."),
        Explanation("outbound_bytes", "More than 16 MiB waited for a peer that does not read; its connection ended.", "It reconnects. Look at the line to that peer."),
        Explanation("message_bytes", "A message on a connection is larger than 1 MiB.", "Look at what answers at the other side: peers of this protocol send smaller ones."),
        Explanation("max_message_bytes", "A message of the replication protocol is larger than its kind may be.", "Look at the peer's version."),
        Explanation("max_change_list_bytes", "A peer's list of changes is larger than 4 MiB.", "Look at the peer's version: known ones send far less."),
        Explanation("max_rows_in_change_list", "A peer's list of changes has more than 1,000 rows.", "Look at the peer's version: known ones send 200."),
        Explanation("revs_in_flight", "A peer asked for changes again while 2,000 revisions were not answered.", "It is asked to come again. Look at the peer's version."),
        Explanation("max_document_ids", "A replication is for more than 100,000 document ids.", "Use a filter or channels in place of document_ids."),
        Explanation("max_channels", "A replication is for more than 10,000 channels.", "Ask for fewer, or for all that the login may have: name none."),
        Explanation(
            "max_collections_bytes", "A peer answered the request for collections with more than 512 KiB.",
            "Check what answers at target, and the peer's version."),
        Explanation("max_checkpoint_bytes", "A peer's checkpoint is larger than 128 KiB.", "Check the peer's version."),
        Explanation("max_checkpoint_id_bytes", "A peer's checkpoint id is longer than 512 bytes.", "Check the peer's version."),
        Explanation("couch_answer_bytes", "A CouchDB answered with more than 48 MiB at once, for one document.", "Reduce its attachments or its conflicts there."),
        Explanation(
            "couch_leaves", "A document has more than 1,000 leaves on a CouchDB: undecided branches of conflicts, and tombstones of ended ones. It is not pulled; others are.",
            "Decide its conflicts there, and purge the remaining leaves (_purge): it is pulled when it changes. First fix the program that makes a new conflict with "
                + "each write."),
        Explanation("couchdb_descending_bytes", "A descending feed with include_docs comes to more than 8 MiB.", "Ask for fewer with limit."),
        Explanation("couchdb_index_name_bytes", "An index has a name of more than 1,024 bytes.", "Use a shorter one."),
        Explanation("couchdb_part_header_bytes", "A part of a multipart body has a header of more than 8 KiB.", "Check what the client sends."),
        Explanation("couchdb_uuids", "More than 1,000 ids were asked for at once.", "Ask several times."),
        Explanation("regex_states", "A $regex comes to more than 500 states, with its repetitions written out.", "Use smaller counts in braces, or a Lua filter."),
        Explanation("selector_depth", "A selector or a field's name has more than 32 levels.", "Use fewer levels."),
        Explanation("selector_fields", "A sort, an index or fields has more than 64 of them.", "Name fewer."),
        Explanation("stderr_lines", "A command of an exec: target wrote more than 100 lines on standard error; later ones are counted.", "Make it quieter: ssh -q."),
        Explanation(
            "unsynchronised_bytes", "256 KiB arrived on an endpoint without a frame in them: the speeds differ, or there is no Nightjar at the other end.",
            "Check the device and its speed on both sides."),
        Explanation(
            "held_documents", "A listener's push_filter failed on more than 1,000 documents of one peer, and its feed has stopped.",
            "Fix the plugin: what is held is then retried."),
        Explanation("unanswered_attention", "The peer of a replicator has owed an answer for 30 s, and nothing of it has arrived (peer_unanswered).", "Look at the "
            + "peer, or at a proxy in front of it. The limit is fixed."),
    ]
}
