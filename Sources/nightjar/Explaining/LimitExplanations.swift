extension Explanation {
    /// Bounds that errors and log lines name.
    static let ofLimits = [
        Explanation(
            "limits.memory", "What is held in memory for all peers together has reached limits: { memory } (64 MiB).",
            "Connections are slowed down first; then the one that owes most for longest ends with 4001 (come back later), a request with 503. Raise it where the machine has room."),
        Explanation(
            "max_blob_bytes", "A blob is larger than limits: { max_blob_bytes } (256 MiB).",
            "Raise it and nightjar reload: what is held for it is tried again."),
        Explanation("max_body_bytes", "A document is larger than 20 MiB.", "Store what is large as a blob: nightjar blob put."),
        Explanation(
            "max_sequence_bytes", "A peer's feed has a sequence longer than 8 KiB. No known server has such; the run ends, because its position could not be recorded.",
            "Check what answers at the replicator's target."),
        Explanation("body_bytes", "The body of a request to the admin API is too large.", "Send less at once, or use nightjar import, which has no limit."),
        Explanation(
            "import_judgings", "The document of an imported line has changed each of 5 times while the plugin in validate was asked about the line.",
            "Import the line again when nobody else writes that document."),
        Explanation("couchdb_request_bytes", "A request of CouchDB's API is too large.", "Send fewer documents in one _bulk_docs."),
        Explanation("couchdb_list_bytes", "A list of ids, keys or revisions in a request of CouchDB's API is larger than 4 MiB.", "Ask for fewer at once."),
        Explanation("couchdb_documents", "A _bulk_docs has more than 10,000 documents.", "Send them in several requests."),
        Explanation("couchdb_member_values", "A document's _attachments or _revisions have more than 20,000 values.", "Send fewer attachments, or less history."),
        Explanation("couchdb_find_bytes", "A query of CouchDB's API is larger than 256 KiB.", "Ask with a shorter selector, or for fewer keys at once."),
        Explanation(
            "selector_steps", "A selector takes more than 4,000,000 steps for one document: a long list times many conditions.",
            "Use fewer conditions on the elements of lists ($elemMatch, $allMatch), or a Lua filter."),
        Explanation("couchdb_login_bytes", "A login is larger than any name and password.", "Look at what the client sends to _session."),
        Explanation("max_session_request", "A login is larger than any name and password.", "Look at what the client sends to _session."),
        Explanation("max_candidate_bytes", "The resolver to rehearse is larger than 1 MiB.", "Rehearse the resolver's own file only."),
        Explanation("max_sockets", "A listener or the admin port has as many sockets as it may.", "End idle clients, raise max_connections or ulimit -n."),
        Explanation(
            "max_connections", "A listener has as many peers as it may (1,000).", "Raise max_connections of that listener, where memory and ulimit -n allow."),
        Explanation(
            "max_connections_per_address", "One address has more connections than 256: the one that waits longest made room.",
            "Many peers behind one gateway need a larger max_connections; else look what that machine does."),
        Explanation("max_handshakes", "More than 512 connections had not said what they want; the one that waited longest made room.", "Look who opens connections and says nothing."),
        Explanation(
            "login_attempts", "A user or address has shown 20 wrong passwords and waits, up to 300 seconds.",
            "Mend the password in the replicator's configuration; the wait ends by itself."),
        Explanation("max_event_streams", "64 readers follow /api/events already.", "Close dashboards that nobody looks at."),
        Explanation("connect_time", "No connection within the time for it.", "Look whether a firewall drops packets on the way: nightjar doctor."),
        Explanation("max_collections", "The database has as many collections as it may.", "Use fewer; documents can be told apart by a field."),
        Explanation("proof_bytes", "A peer had to prove more of a blob than 128 MiB on one connection.", "It connects anew and goes on."),
        Explanation(
            "held_documents", "A listener's push_filter failed on more than 1,000 documents of one peer, and its feed stands still.",
            "Mend the plugin: what is held is asked about again."),
    ]
}
