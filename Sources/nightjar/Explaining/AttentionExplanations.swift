import Agent

extension Explanation {
    /// The kinds of `/health`, `nightjar status` and `nightjar_attention`.
    static let ofAttention = [
        Explanation(
            "not_ready", "The agent is starting or stopping.",
            "Wait. If a start takes long, its log names the database or the plugin that is being opened."),
        Explanation(
            "database_unreadable", "The file of a database is damaged, gone, or was replaced while the agent was running; or its disk is failing; or the folder of "
                + "its blobs is gone. If SQLite found the file malformed when it was about to write, nothing more is written to it.",
            "Look at the disk (dmesg, smartctl). Put the file back, or stop the agent and restore a backup: nightjar restore. nightjar export saves what can be read "
                + "and names the rest. nightjar doctor allows writes again if it finds the file sound. If the whole data folder is gone, "
                + "the one in its place was made for the agent's socket only: remove it once the agent has stopped, and restore everything."),
        Explanation(
            "writes_failing", "The disk accepts no writes: it is full or failing. What was acknowledged before is safe; nothing new is stored.",
            "Make room, or check the disk. Writes then resume by themselves."),
        Explanation(
            "clocks_differ", "A peer with version vectors made a version that is more than two minutes (max_clock_drift) ahead of this machine's clock.",
            "Set the clock that is wrong: the text names the peer that sent the version, which that peer or one behind it made; nightjar doctor says how accurate "
                + "this machine's clock is. Documents are accepted all the same; until then, if the later edit wins a conflict, that peer's counts as the later one."),
        Explanation(
            "versions_ahead",
            "The clock of this machine was ahead and has been corrected since. Documents that were edited in the meantime have versions more than two minutes "
                + "(max_clock_drift) in the future. The database makes further versions under a new author id, from the right time.",
            "Make sure that the clock is kept right (nightjar doctor); nothing else has to be done. Couchbase Lite 4 refuses those documents until the time in the "
                + "text, even after further edits, and a replicator offers them again then; until then their edits count as the later ones in a conflict."),
        Explanation(
            "clock_unset",
            "The clock of this machine shows a time before 2026 (earliest_time), or one before the agent ran here last (DATA/clock.noted, where a listener takes tokens) "
                + "while nothing keeps it right: it has no battery, and nothing has set it since it was started; or it was ahead then.",
            "Set the clock, and have it kept right: systemctl enable --now systemd-timesyncd, or chrony. Until then versions go on from the last one that was made here, "
                + "and JSON Web Tokens are judged by the later time. Where it was ahead and cannot be kept right: stop the agent, remove DATA/clock.noted, start it."),
        Explanation(
            "database_unnamed",
            "The data folder holds a database that the configuration does not name, as after its name was changed there or removed: nothing opens it, no peer gets it, and what was not "
                + "replicated stays in it.",
            "If its name was changed in the configuration, use the old name there again: the database on disk keeps its name. If it is needed, name it again under databases, and give it a replicator "
                + "until everything in it is pushed; or stop the agent, and nightjar export NAME writes its documents to a file. Otherwise move NAME.nightjar and NAME.nightjar.known out of the data folder."),
        Explanation(
            "database_copied",
            "A version arrived that carries the author id of a database here, but was not made here: a copy of the database is in use, for instance on a cloned "
                + "machine, or this one was reset to an earlier state, for instance with a snapshot of its machine. It continues under a new author id.",
            "If there is a copy, stop the agent that uses it, and turn the copy into a database of its own there: nightjar backup, then nightjar restore --replace. "
                + "If this database was reset to an earlier state, nothing has to be done."),
        Explanation(
            "disk_nearly_full", "Less than a tenth and less than 1 GiB of the disk is free.",
            "Make room: remove what is not the agent's, then nightjar compact, or a shorter history and delta_sync.max_bytes."),
        Explanation(
            "writes_refused", "The disk is so full (disk.refuse_writes, 90 %) that writes made here are refused with 507. What peers bring is still accepted.",
            "Make room: remove what is not the agent's, \(RoomRemedy.purge), then nightjar compact. It ends by itself."),
        Explanation(
            "database_read_only", "The disk is so full (disk.read_only, 95 %) that nothing but deletions is accepted, not even from peers: they keep their documents "
                + "and try again.",
            "Make room: remove what is not the agent's, \(RoomRemedy.purge), then nightjar compact. It ends by itself."),
        Explanation(
            "quota_reached", "The database has reached its quota: nothing but deletions is accepted.",
            "Make room: \(RoomRemedy.purge). Their space is free at once, and blobs that no document names any more are removed by themselves within the hour. Or raise "
                + "the database's quota and nightjar reload."),
        Explanation(
            "pull_waits_for_room", "There is no room here for documents or blobs that the peer of a replicator has: the disk or the database's quota is used up. "
                + "They stay at the peer; deletions and documents that fit are still pulled, and pushing goes on.",
            "Make room: \(RoomRemedy.purge), remove what is not the agent's from the disk, or raise the quota and nightjar reload. The pull resumes by itself."),
        Explanation(
            "documents_damaged", "The stored data of a document, or the file of a blob, cannot be read or was altered; or the file of a blob that a document names "
                + "is gone. Peers do not get that document, or the documents that name the blob; everything else goes on.",
            "A document: save it again on top of its current revision, delete it, or purge it; or let a peer send it again. A blob: nightjar blob put DB FILE with "
                + "the right bytes, for example from the folder blobs of a backup. A disk that has done this once will do it again: check it."),
        Explanation(
            "fleet_refused", "A signed document of the fleet is not used: its signature or version is wrong, its tests fail, it does not suit its uses, or it sets "
                + "something that this agent does not allow it to set. What was in force stays in force.",
            "The text says why. Publish a correct version: nightjar fleet publish; nightjar fleet status on the hub shows which gateway refuses what. If the cause "
                + "is on this agent, fix its configuration: a reload checks everything again."),
        Explanation(
            "documents_held",
            "A filter failed on documents, so that nobody knows whether they may pass; or they are larger than max_document_bytes of the database; or a blob that "
                + "they name cannot be accepted, because it is larger than limits: { max_blob_bytes }, say, or the peer does not have it. They wait.",
            "nightjar replicator NAME held says which, and why: the line of the plugin that failed, or the document or blob with its size and the limit. Fix the "
                + "plugin and save it, or raise the limit and nightjar reload: the documents are then retried by themselves. A blob that is missing or damaged at "
                + "the peer has to be stored there again (nightjar blob put); then nightjar replicator NAME start."),
        Explanation(
            "documents_large", "Documents were stored that are larger than warn_document_bytes of their database (1 MiB). They replicate like any others, but each "
                + "change sends the whole document if the peer does not support deltas.",
            "The text names the largest; the log names each as it is stored. Store what is large as a blob (nightjar blob put), have the document split, or raise warn_document_bytes and "
                + "nightjar reload. It ends once they are smaller or deleted; a restart forgets those that were stored before it."),
        Explanation(
            "documents_waiting",
            "Documents cannot be exchanged at the moment: the peer cannot accept or provide them (it may lack a blob of one, for example), or there is no room for them here.",
            "They are retried by themselves, or at once with nightjar replicator NAME start. If it lasts, the text quotes the peer: fix the cause there. If it is an "
                + "error of the store (store/…), the cause is on this side: nightjar doctor says what is wrong."),
        Explanation(
            "documents_pending", "Changes have waited for over an hour to be pushed.",
            "Look at the replicator's own entry in nightjar status: it is not connected, or the peer is slow."),
        Explanation(
            "documents_refused", "The peer refused documents. Or limits.memory of a listener has no room to send documents of this size to peers that pull.",
            "nightjar replicator NAME refused says which and why. Change the documents, or what the peer allows. Each is offered again by itself, body and all, when it "
                + "changes, on each new connection, and after a minute, then at growing intervals up to an hour; at once with nightjar replicator NAME retry-refused. "
                + "What was refused because its version is in the future shows until, and is offered again at that time by itself. For a listener, the text says what helps."),
        Explanation(
            "documents_not_taken",
            "Peers push documents that cannot be accepted at the moment: they keep them and try again. Or peers push documents that are larger than a limit here, or "
                + "that name a blob larger than limits: { max_blob_bytes }: peers give these up, and each is reported for a day after it was last pushed. Or a "
                + "remote has documents that are too large for limits.memory here, or that cannot be stored here as they are: nested too deeply, with an id that is too long.",
            "Fix the cause that is named: a plugin, a missing blob, a full disk. If it is a limit, raise it and nightjar reload, or have the documents made smaller; "
                + "a Nightjar pushes them again by itself within an hour (at once with nightjar replicator NAME retry-refused there), other peers once they change. What a "
                + "remote has is requested again when the agent starts with the limits: { memory } that the text names; nightjar replicator NAME held lists each, with the memory that it needs. "
                + "What cannot be stored as it is, is listed with the reason by nightjar replicator NAME refused, and requested again when it changes there."),
        Explanation(
            "documents_unrouted", "The sync function failed on documents or rejected them, and they are in no channel: no user gets them.",
            "nightjar doc unrouted DB says which and why. If sync failed, fix the plugin and save it. If it says rejected, change the document, or remove it: "
                + "nightjar doc rm."),
        Explanation(
            "channels_outdated",
            "The sync function of a database changed, and documents stored before that keep the channels, and users the grants, that another version gave them. The "
                + "current version has only been applied to what was written since.",
            "nightjar resync DB --dry-run says which documents would change, nightjar resync DB moves them. If sync fails on documents, fix the plugin and resync "
                + "again: until then they keep their channels, and this entry stays."),
        Explanation(
            "conflicts_pending",
            "Two versions of a document wait: the resolver failed, or the results were undone so often that there is a pause before the next one.",
            "nightjar conflicts list --pending says why. A resolver that failed: fix it and save it, and they are then decided by themselves. Results that are undone: "
                + "resolvers contradict each other, or make a new value each time; see \"Results that are undone\" in conflicts.md."),
        Explanation(
            "listener_waiting", "The port of a listener is taken by another program, or its interface is not there or has no address, or has lost it.",
            "A port that is in use: free it (as root, ss -ltnp 'sport = :PORT' says which program has it). An interface: bring it up and give it an address, or "
                + "correct its name. A listener configured with the name of an interface follows its addresses: it listens on new ones within seconds, and the URLs "
                + "in nightjar status are those that are bound. It retries by itself, or at once with: nightjar listener NAME start."),
        Explanation(
            "listener_stopped", "An operator stopped a listener: no peer can connect to it until it is started, its configuration changes, or the agent restarts.",
            "If nobody needs it stopped any more: nightjar listener NAME start. nightjar audit says who stopped it."),
        Explanation(
            "connections_refused", "A listener has refused connections in the last ten minutes, because the limit that is named is reached. They were answered 503, "
                + "and peers try again.",
            "max_connections_per_address counts all sockets of one address: behind a proxy, or a router with address translation, all peers have the same address, "
                + "and the limit has to be somewhat higher than their number. Raise it, or max_connections, in the listener's configuration, then nightjar reload. "
                + "If it is one machine that opens too many: nightjar listener NAME peers."),
        Explanation(
            "connections_evicted",
            "A listener has ended connections of peers in the last ten minutes (4001), because limits.memory was used up and the agent held much for them, or for long.",
            "Peers come back by themselves. If it goes on, they ask for more at once than there is memory for: raise limits: { memory } and restart, or spread them "
                + "over time. The log names each, and a peer that never reads may be an attacker. nightjar_listener_evictions_total counts them."),
        Explanation(
            "answers_unread",
            "A listener has cut answers of CouchDB's API in the last ten minutes, because their clients did not read them while others needed memory, "
                + "or asked for documents that are large for limits.memory, or has refused requests for which there was none within half a minute. Small documents are read all the same.",
            "The entry names the address of the last one. If it names a value for limits: { memory }, the documents are large: set that and restart. Otherwise find out what that client does: it may hang, or be an attacker. If its line is slow, let it ask for less at "
                + "once, or raise limits: { memory } and restart. nightjar_listener_answers_cut_total counts them."),
        Explanation(
            "hidden_conflicts",
            "A user, or an address without a login, wrote to documents that are hidden from it, 100 times or more within an hour, on top of revisions that do not "
                + "exist. Revision ids are digests of a document's content, so it may be guessing that content. Until the hour is over, each write of this login to "
                + "a hidden document is answered as a conflict (409), even if its guess is right.",
            "Find out whose login that is, and what it writes: remove the user from users.txt, or give it the channels of the documents that it edits. If documents "
                + "hold little that is hard to guess, add a field with a random value to them."),
        Explanation(
            "replicator_stopped", "A replicator was stopped by an error, and not by hand.", "Fix the error that is named; then nightjar replicator NAME start."),
        Explanation(
            "replicator_kept_stopped", "An operator stopped a replicator with stop --keep: it stays stopped, even after the agent restarts, and nothing is replicated.",
            "If nobody needs it stopped any more: nightjar replicator NAME start. nightjar audit says who stopped it."),
        Explanation(
            "replicator_halted", "An operator stopped or suspended a replicator: nothing is replicated until it is started or resumed, or the agent restarts.",
            "If nobody needs that any more: nightjar replicator NAME start, or resume. nightjar audit says who did it."),
        Explanation(
            "replicator_failing", "A replicator cannot continue until somebody acts: a login, a certificate or an address is wrong.",
            "Do what the remedy says, here or at the peer. It retries by itself now and then; nightjar replicator NAME start retries at once."),
        Explanation(
            "replicator_interrupted", "A replicator connects, but for ten minutes every connection has broken before both sides were in sync.",
            "Check the line and what is in between (a proxy that cuts long connections, a weak radio link); the log says why each connection ended. What was "
                + "exchanged is kept, and the replicator goes on trying."),
        Explanation(
            "peer_unanswered",
            "A replicator is connected, and for 30 seconds (unanswered_attention) its peer has not sent what it owes: a reply, or documents that it was asked for. A "
                + "long document or blob in transfer, or a feed without news, does not count.",
            "Check the peer, or a proxy in front of it: it hangs, or sends just enough to seem alive. This entry ends as soon as the peer answers; nightjar "
                + "replicator NAME stop, then start, reconnects."),
        Explanation(
            "remote_goes_back",
            "The remote of a replicator has gone back to an earlier state three times or more, each less than a day after the previous one: it acknowledges documents "
                + "and a checkpoint, but has lost them the next time. Everything is compared and pushed again each time.",
            "Ask the operator of the remote what happens to its database: its disk may not survive restarts, a backup may be restored again and again, or several "
                + "servers behind one address may not share a database. Until then the replicator connects at growing intervals, up to max_attempt_wait_time. This "
                + "ends by itself a day after the last time."),
        Explanation(
            "replicator_offline", "A replicator has had no connection for ten minutes.",
            "nightjar doctor tries each step from here: name, address, TLS, login. The replicator goes on trying by itself."),
        Explanation(
            "breaker_open", "A plugin failed so often in a row that it is called only now and then; documents that it should decide on are held, and events for an observer are lost.",
            "Fix the plugin and save it, or nightjar plugin rollback NAME; nightjar plugin retry NAME calls it again at once."),
        Explanation(
            "breaker_open_for_peer",
            "A plugin of a listener failed so often in a row for what one peer sent or asked for that it is called for that peer only now and then. Others are served as usual.",
            "The text names the peer, by its user or else by its address. Look at its documents, and make the plugin accept or reject them without failing; nightjar plugin "
                + "retry NAME calls it again at once."),
        Explanation(
            "nobody_can_log_in", "The users file of a listener's password-file has no user, or none of its lines is valid, as after a faulty edit: every login is refused.",
            "nightjar user add NAME adds a user, nightjar user list says what is wrong with each line; if there were users before, restore the file. It is read "
                + "again by itself."),
        Explanation(
            "users_without_channels", "A listener has a sync function, which puts documents into channels, and none of the users in the file of its password-file has a channel, from the "
                + "file or from documents: they pull public documents (channel !) and nothing else.",
            "nightjar user permit USER --channel CHANNEL gives a user channels (--role: roles, for what documents grant to them); or have the sync function grant them with access() or role(), "
                + "or use an authenticator plugin that returns channels."),
        Explanation(
            "channels_without_sync", "Users of a listener may pull only what is in their channels, and no listener serves the database with a sync function: nothing is in any channel, and "
                + "they get no document.",
            "Add sync: PLUGIN to the listener, so that documents are put into channels; or let the users pull everything: nightjar user permit USER --channel '*'; what is not given is taken away, so give --read-only and --role "
                + "as nightjar user list shows them."),
        Explanation(
            "authenticator_failing", "An authenticator failed on a login: the client got 503 and may try again. With password-file, a line of the users file is not valid: "
                + "only logins as that user are affected.",
            "The text has file and line. Fix the plugin, or that line of the users file, and save it."),
        Explanation(
            "plugin_unavailable", "A plugin that the configuration uses has no version that loads, or none with the signature that fleet.require_signed asks for.",
            "nightjar plugin check says why. Fix its file; if its signature is missing or wrong, sign it on the machine that has the signing key (nightjar plugin sign NAME "
                + "--key FILE --plugins FOLDER), and put NAME.lua.sig into the plugins folder; or name another plugin and nightjar reload."),
        Explanation(
            "plugin_file_gone",
            "The file of a plugin in use is gone. Its last version stays in use, even after a restart, from the copy in DATA/plugin-versions; without that copy the "
                + "next start fails. Until the file is back, no change of the configuration is accepted: nightjar reload and nightjar check refuse it.",
            "Put NAME.lua back into the plugins folder, or remove the plugin from the configuration."),
        Explanation(
            "plugin_refused", "A changed plugin is refused: it does not compile, its tests fail, or its signature, which fleet.require_signed demands, is missing or "
                + "wrong. The previous version stays in use, even after a restart. So does that of a shadow; without one nothing is compared with the shadow, and nothing is "
                + "held.",
            "nightjar plugin test NAME shows the tests. Fix the file and save it; if its signature is missing or wrong, sign it on the machine that has the signing key "
                + "(nightjar plugin sign NAME --key FILE --plugins FOLDER), and put NAME.lua.sig into the plugins folder."),
        Explanation(
            "configuration_refused", "A changed configuration was refused. The previous one is in force, but the next start will read the changed one.",
            "nightjar check names each mistake with line and column. Fix them, then nightjar reload; or restore the file, and this ends by itself."),
        Explanation(
            "next_start_fails",
            "The agent runs, but would not start again: its configuration can no longer be read, or a file that it names is gone or invalid, such as a certificate, "
                + "a pin, a secret or users.txt, or the token that it made for its admin port; or the data folder cannot be written; or the file names a data folder that "
                + "cannot be used, or an admin port that another program has. What was read before is in use.",
            "The text names the file and the reason. Fix or restore it before the agent or the machine is restarted; nightjar doctor says when all is well."),
        Explanation(
            "certificate_expired", "An identity, or every authority in roots, has expired: peers refuse the identity unless they pin it, and what the "
                + "authorities signed is refused here.",
            "nightjar identity create LABEL --replace keeps the key, so that pins of the key stay valid; or replace the file. A running agent picks it up by itself."),
        Explanation(
            "certificate_ending", "An identity, an authority in roots, or the certificate of a server that authorities vouch for expires within 30 days. "
                + "Or one of several authorities has expired: what it signed is refused. Or a pinned certificate does, or has expired: its pin keeps working, because "
                + "no dates are checked where a certificate is pinned.",
            "Renew it now: nightjar identity create LABEL --replace keeps the key, so that peers' pins stay valid. If the new "
                + "certificate has another key, have the peers that pin the old one pin the new one as well first. For a pinned one, nothing has to be done "
                + "unless the server is to get another key: then pin its new certificate as well first."),
        Explanation(
            "tls_files_refused", "Files with certificates or keys were changed and are invalid, or are gone. Those read before are in use; next_start_fails says if "
                + "a start would fail. Or the agent's own identity was damaged, or gone at a start, and the agent made a new key, which its peers have not pinned. "
                + "Or its file was gone while the agent ran, which has written it again with the same key.",
            "The text names the file and the reason. Fix it: it is read again by itself. If it is the agent's own identity, and its key is a new one: restore "
                + "DATA/identities from a backup, or have the peers pin the new key; then remove the damaged file. If the key is the same: find out what removed the "
                + "file, and restore what else was there."),
        Explanation(
            "not_advertised", "A listener should be announced on the local network (advertise), but is not: avahi-daemon is not running, or another service has the name.",
            "The text says which. apt install avahi-daemon, systemctl enable --now avahi-daemon; or give one of the two another name. It is retried by itself."),
        Explanation(
            "log_file_failing", "The log file (log.file) cannot be written: its folder is gone or belongs to another user, or the disk is full. The lines go to "
                + "standard error.",
            "The text names the file and the reason. Create the folder for the agent's user, make room, or correct log.file and nightjar reload. Each further line "
                + "retries it."),
    ]
}
