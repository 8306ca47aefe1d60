extension Explanation {
    /// The kinds of `/health`, `nightjar status` and `nightjar_attention`.
    static let ofAttention = [
        Explanation(
            "not_ready", "The agent is starting or stopping.",
            "Wait. Where a start takes long, its log names the database or the plugin that it is at."),
        Explanation(
            "database_unreadable", "The file of a database is damaged, gone, or was replaced under the running agent; or its disk fails. Or the folder of its blobs is gone. Where SQLite found the file malformed when it was to write, nothing more is written to it.",
            "Look at the disk (dmesg, smartctl). Put the file back, or stop the agent and restore a backup: nightjar restore. nightjar doctor says how "
                + "much of it can still be read, and lets writes go on where it finds the file sound; nightjar export saves what can be read."),
        Explanation(
            "writes_failing", "The disk takes no writes: it is full or it fails. What was acknowledged before is safe; nothing new is stored.",
            "Make room, or look after the disk. Writes go on by themselves then."),
        Explanation(
            "clocks_differ", "A peer with version vectors made a version that is more than two minutes (max_clock_drift) ahead of this machine's clock.",
            "Set the clock that is wrong: the text names who gave the version, which that peer or one behind it made; nightjar doctor says how good this machine's is. Documents are taken all the same; where the later edit "
                + "decides a conflict, that peer's counts as the later one until then."),
        Explanation(
            "versions_ahead",
            "The clock of this machine was ahead and was set right since. Documents of a database that were edited meanwhile have versions of a time that is still to "
                + "come, by more than two minutes (max_clock_drift). The database makes further versions under a new name, from the right time.",
            "See that the clock is kept right (nightjar doctor); then nothing has to be done. Couchbase Lite 4 refuses those documents until the time in the text, also "
                + "after further edits, and a replicator offers them again then; in a conflict their edits count as the later ones until then."),
        Explanation(
            "clock_unset",
            "The clock of this machine says a time before 2026 (earliest_time), or one before the agent ran here last (DATA/clock.noted, where a listener takes tokens) "
                + "while nothing keeps it right: it has no battery, and nothing has set it since it was started; or it was ahead then.",
            "Set the clock, and have it kept right: systemctl enable --now systemd-timesyncd, or chrony. Until then versions go on from the last one that was made here, "
                + "and JSON Web Tokens are judged by the later time. Where it was ahead and cannot be kept right: stop the agent, remove DATA/clock.noted, start it."),
        Explanation(
            "database_copied",
            "A version came under the name that a database here makes versions under, and was not made here: a copy of the database is in use, on a machine that was cloned "
                + "for instance, or this one was set back to an earlier state, with a snapshot of its machine. It goes on under a new name.",
            "Where there is a copy, stop the agent that uses it, and make another database of it there: nightjar backup, then nightjar restore --replace. Nothing has "
                + "to be done about one that was set back."),
        Explanation(
            "disk_nearly_full", "Less than a tenth and less than 1 GiB of the disk is free.",
            "Make room: remove what is not the agent's, then nightjar compact, or a shorter history and delta_sync.max_bytes."),
        Explanation(
            "writes_refused", "The disk is so full (disk.refuse_writes, 90 %) that writes made here are refused with 507. What peers bring is still taken.",
            "Make room: remove what is not the agent's, delete or purge documents, then nightjar compact. It ends by itself."),
        Explanation(
            "database_read_only", "The disk is so full (disk.read_only, 95 %) that nothing but deletions is taken, from peers neither: they keep theirs and come again.",
            "Make room: remove what is not the agent's, delete or purge documents, then nightjar compact. It ends by itself."),
        Explanation(
            "quota_reached", "The database has reached its quota: nothing but deletions is taken.",
            "Delete or purge documents: what they leave is room at once, and blobs that no document names any more go by themselves within the hour. Or raise the "
                + "database's quota and nightjar reload."),
        Explanation(
            "pull_waits_for_room", "There is no room here for documents or blobs that the peer of a replicator has: the disk or the database's quota is used up. "
                + "They stay at the peer; deletions and documents that fit still come, and what is to be pushed goes on.",
            "Make room: delete or purge documents, remove what is not the agent's from the disk, or raise the quota and nightjar reload. The pull goes on by itself."),
        Explanation(
            "documents_damaged", "What is stored of a document, or the file of a blob, cannot be read or was altered; or the file of a blob that a document names is gone. Peers do not get that document, or those "
                + "that name the blob; everything else goes on.",
            "A document: save it anew on top of its current revision, delete it, or purge it; or let a peer send it again. A blob: nightjar blob put DB "
                + "FILE with the right bytes, such as a backup has in its folder blobs. A disk that does this once does it again: look at it."),
        Explanation(
            "fleet_refused", "A signed document of the fleet is not used: its signature, its version, its tests or its uses are wrong, or it sets what this agent does not let it set. What was in force goes on.",
            "The text says why. Publish a version that is right: nightjar fleet publish; nightjar fleet status on the hub shows who refuses what. Where this agent is in "
                + "the way, mend its configuration: a reload has everything looked at again."),
        Explanation(
            "documents_held",
            "A filter failed on documents, so that nobody knows whether they may pass; or they are larger than max_document_bytes of the database; or a blob that they name "
                + "cannot be taken, such as one above limits: { max_blob_bytes }, or one that the peer has not got. They wait.",
            "nightjar replicator NAME held says which, and why: the line of the plugin that failed, or the document or blob with its size and the limit. Mend the plugin and save "
                + "it, or raise the limit and nightjar reload: they go on by themselves. A blob that is missing or damaged at the peer has to be stored there "
                + "anew (nightjar blob put); then nightjar replicator NAME start."),
        Explanation(
            "documents_large", "Documents were stored that are larger than warn_document_bytes of their database (1 MiB). They replicate as others do, and each change of one sends all of it "
                + "where the peer takes no delta.",
            "The text names the largest; the log names each as it is stored. Store what is large as a blob (nightjar blob put), have the document split, or raise warn_document_bytes and "
                + "nightjar reload. It ends once they are smaller or deleted; a restart forgets those that were stored before it."),
        Explanation(
            "documents_waiting",
            "Documents cannot be exchanged for the moment: the peer cannot take or give them, such as one whose blob it has not got, or there is no room for them here.",
            "They are tried again, at once with nightjar replicator NAME start. Where it lasts, the text names what the peer said: mend that at the peer. Where it is an error of the store (store/…), it is on this side: "
                + "nightjar doctor says what is in the way."),
        Explanation(
            "documents_pending", "Changes have waited for over an hour to be pushed.",
            "Look at the replicator's own entry in nightjar status: it is not connected, or the peer is slow."),
        Explanation(
            "documents_refused", "The peer said no to documents.",
            "nightjar replicator NAME refused says which and why. Change the documents, or what the peer allows; then nightjar replicator NAME retry-refused. "
                + "What was refused for a version of a time to come has until, and is offered again then by itself."),
        Explanation(
            "documents_not_taken",
            "Peers push documents that cannot be taken for the moment: they keep them and come again. Or documents that are larger than a limit here, or name a blob "
                + "that is, such as one above limits: { max_blob_bytes }: those the peers give up, and each is told for a day after it was pushed last.",
            "Mend the cause that is named: a plugin, a missing blob, a full disk. Where it is a limit, raise it and nightjar reload, or have what is pushed made smaller; "
                + "a Nightjar pushes it again with nightjar replicator NAME retry-refused, other peers once it changes. The log names each."),
        Explanation(
            "documents_unrouted", "The sync function failed on documents or rejected them, and they are in no channel: no user gets them.",
            "nightjar doc unrouted DB says which and why. Where it failed, mend the plugin and save it. Where it says rejected, change the document, or remove it: nightjar doc rm."),
        Explanation(
            "channels_outdated",
            "The sync function of a database changed, and documents stored before keep the channels, and users the grants, that another version gave them. "
                + "Only what is written since is judged by the present one.",
            "nightjar resync DB --dry-run says which documents would change, nightjar resync DB moves them. Where sync fails on documents, mend the plugin and resync again: "
                + "they keep their channels, and this stays."),
        Explanation(
            "conflicts_pending", "Two versions of a document wait, because the resolver failed.",
            "nightjar conflicts list --pending says why. Mend the resolver and save it: they are decided by themselves."),
        Explanation(
            "listener_waiting", "The port of a listener is taken by another program, or its interface is not there or has no address, or has lost it.",
            "A port that is in use: free it (as root, ss -ltnp 'sport = :PORT' says which program has it). An interface: bring it up and give it an address, or correct its name. A listener that goes by the name of an interface follows its addresses: it listens on the new ones within seconds, and the URLs of nightjar status are those that are bound. It is tried again by itself, at once with: nightjar listener NAME start."),
        Explanation(
            "connections_refused", "A listener has refused connections in the last ten minutes, because the limit that is named is reached. They were answered 503, and peers come again.",
            "max_connections_per_address counts all sockets of one address: behind a proxy, or a router with address translation, all peers have the same one, and it has to be as "
                + "large as their number and some more. Raise it, or max_connections, at the listener, then nightjar reload. If it is one machine that opens too many: nightjar listener NAME peers."),
        Explanation(
            "hidden_conflicts",
            "A user, or an address without a login, wrote to documents that are hidden from it, 100 times or more within an hour, on top of revisions that are not there. "
                + "Revision ids are digests of what stands in a document, so it may be guessing at that. "
                + "Until the hour is over, what it says of hidden documents is not believed: each such write is a conflict (409), also a right one.",
            "Ask whose login that is, and what it writes: take the user out of users.txt, or give it the channels of what it edits. "
                + "Where documents hold little that nobody can guess, put a field with a random value into them."),
        Explanation(
            "replicator_stopped", "A replicator ended with an error, and not by hand.", "Mend the error that is named; then nightjar replicator NAME start."),
        Explanation(
            "replicator_failing", "A replicator gets no further until somebody acts: a login, a certificate, a wrong address.",
            "Do what the remedy says, here or at the peer. It tries on its own now and then; nightjar replicator NAME start tries at once."),
        Explanation(
            "replicator_interrupted", "A replicator gets connections, but for ten minutes each has broken before both sides were in step.",
            "Look at the line and at what stands between (a proxy that cuts long connections, a weak radio link); the log says why each ended. What was exchanged is kept, and it goes on trying."),
        Explanation(
            "peer_unanswered",
            "A replicator is connected, and for 30 seconds (unanswered_attention) nothing has come of what its peer owes: an answer, or documents that it was asked for. A long document or blob on its way, and a feed without news, are none of that.",
            "Look at the peer, or at a proxy in front of it: it hangs, or says just enough to seem alive. It ends as soon as the peer answers; nightjar replicator NAME stop, then start, connects anew."),
        Explanation(
            "remote_goes_back",
            "The remote of a replicator was found behind where it was three times or more, each less than a day after the one before: it acknowledges documents and a "
                + "checkpoint, and has lost them the next time. Everything is compared and pushed anew each time.",
            "Ask whoever runs the remote what becomes of its database: a disk that is not kept over restarts, a backup that is restored again and again, several servers "
                + "behind one address that do not share a database. Until then the replicator connects ever more seldom, up to max_attempt_wait_time. A day after the last time "
                + "this ends by itself."),
        Explanation(
            "replicator_offline", "A replicator has had no connection for ten minutes.",
            "nightjar doctor tries each step from here: name, address, TLS, login. It goes on trying by itself."),
        Explanation(
            "breaker_open", "A plugin failed so often in a row that it is called only now and then; what it should judge is held.",
            "Mend the plugin and save it, or nightjar plugin rollback NAME; nightjar plugin retry NAME asks it again at once."),
        Explanation(
            "nobody_can_log_in", "The file of users of a listener's password-file has no user, or none of its lines can be used, as after an edit that went wrong: every login is refused.",
            "nightjar user add NAME makes a user, nightjar user list says what is wrong with each line; where there were users, put the file back. It is read again by itself."),
        Explanation(
            "authenticator_failing", "An authenticator failed on a login: whoever it was got 503 and may come again.",
            "The text has file and line. Mend the plugin and save it."),
        Explanation(
            "plugin_unavailable", "A plugin that the configuration uses has no version that loads, or none with the signature that fleet.require_signed asks for.",
            "nightjar plugin check says why. Mend its file, or have it signed (nightjar plugin sign); or name another plugin and nightjar reload."),
        Explanation(
            "plugin_file_gone",
            "The file of a plugin in use is gone. Its last version serves, also after a restart, from the copy in DATA/plugin-versions; without that the next "
                + "start fails. Until the file is back, no change of the configuration is taken: nightjar reload and nightjar check refuse it.",
            "Put NAME.lua back into the plugins folder, or take the plugin out of the configuration."),
        Explanation(
            "plugin_refused", "A changed plugin is refused: it does not compile, its tests fail, or fleet.require_signed wants a signature of it that is missing or wrong. The version before serves, also after a restart.",
            "nightjar plugin test NAME shows the tests. Mend the file and save it."),
        Explanation(
            "configuration_refused", "A changed configuration was refused. The one before is in force, and the next start reads the changed one.",
            "nightjar check names each mistake with line and column. Mend them, then nightjar reload; or put the file back as it was, and this ends by itself."),
        Explanation(
            "next_start_fails",
            "The agent runs, and would not start again: its configuration cannot be read now, or a file that it names is gone or wrong, such as a certificate, "
                + "a pin, a secret or users.txt, or the token that it made for its admin port. What was read before is in use.",
            "The text names the file and the reason. Mend it or put it back before the agent or the machine is restarted; nightjar check says when all is well."),
        Explanation(
            "certificate_expired", "A certificate in use, or the authority that vouches for it, has ended: peers refuse it.",
            "nightjar identity create LABEL --replace keeps the key, so that pins of the key hold; or replace the file. A running agent takes it by itself."),
        Explanation(
            "certificate_ending", "A certificate ends within 30 days: an identity, an authority, a pin, or the server's.",
            "Renew it now: nightjar identity create LABEL --replace keeps the key, and what peers have pinned holds. Where the new certificate has another key, have those who pin the old one pin the new one beside it first."),
        Explanation(
            "tls_files_refused", "Files with certificates or keys were changed and are wrong, or are gone. Those read before are in use; next_start_fails says if a start would fail. Or the agent's own identity was damaged, and it made itself another key, which its peers have not pinned.",
            "The text names the file and the reason. Mend it: it is read again by itself. Of the agent's own identity: restore it from a backup, or have the peers pin the new key; then remove the damaged file."),
        Explanation(
            "not_advertised", "A listener is to be announced on the local network (advertise), and is not: no avahi-daemon runs, or another service has the name.",
            "The text says which. apt install avahi-daemon, systemctl enable --now avahi-daemon; or give one of the two another name. It is tried again by itself."),
        Explanation(
            "log_file_failing", "The file of the log (log.file) cannot be written: its folder is gone or another user's, or the disk is full. The lines go to standard error.",
            "The text names the file and the reason. Make the folder for the agent's user, make room, or correct log.file and nightjar reload. Each further line tries it again."),
    ]
}
