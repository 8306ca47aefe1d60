import Agent

extension Explanation {
    /// The statements of `nightjar doc why`; `waiting` and the states of a connection also occur in status.
    static let ofWhereabouts = [
        Explanation("here", "The document is in this database.", "Nothing."),
        Explanation(
            "deleted", "The document is here as a tombstone, which tells peers of its deletion.",
            "Nothing. To get it back, save it again. If a resolver deleted what both sides had, the text names the resolver, and nightjar conflicts show has both documents."),
        Explanation("damaged", "The stored data of the document, or of a blob that it names, cannot be read.",
            "Save it again on top of its current revision, delete it, or purge it. A blob: nightjar blob put DB FILE with the right bytes."),
        Explanation(
            "unknown", "There is no such document here: it never arrived, or was refused when a peer pushed it, or it was purged, by hand or because a remote took "
                + "away access to it, which leaves no trace. Nothing else here knows the id.",
            "Ids are compared letter for letter: nightjar doc list shows them. nightjar audit shows purges by hand, and how many documents were purged for lost "
                + "access (access_removed of a replicator counts them); the log names some of these."),
        Explanation(
            "not_accepted", "A peer pushed the document, and it was larger than what is accepted here.",
            "Raise the limit that is named, or have the document made smaller. A Nightjar pushes it again by itself within an hour (at once with nightjar replicator NAME "
                + "retry-refused there), another peer once it changes."),
        Explanation(
            "requests_refused", "Clients of CouchDB's API sent requests with documents of this collection that were larger than what is accepted here, and were refused before "
                + "their documents were known. This document may have been in one of them.",
            "Raise the limit that is named (limits.memory: restart the agent), or have the client send fewer documents at once. It is shown for a day after the last of them."),
        Explanation(
            "not_here", "The document is not in this database, but a remote or a peer announced it, and something holds it back.",
            "Do what the lines below it say."),
        Explanation(
            "purged", "An operator removed the document here, and peers were not told.",
            "A replicator brings it back when it changes there; at once with nightjar replicator NAME start --reset."),
        Explanation(
            "expired", "The document was purged here because of its _exp, or of ttl or tombstone_age of its database; peers keep theirs.",
            "To keep such documents for longer, change what is named. nightjar replicator NAME start --reset brings back what the remote has."),
        Explanation("nothing_here", "There is no such document here that could be sent to the peer.", "Nothing."),
        Explanation("sent", "The peer has the current revision.", "Nothing."),
        Explanation(
            "told", "The peer of a listener was told of the current revision, or started after it in the feed, and did not ask for it, or its reply is no longer "
                + "known: it has the revision, holds it back, does not want it, or has no room for it at the moment.",
            "If the document is not there, find out why there: nightjar doc why, or the peer's log."),
        Explanation("known", "The remote is known to have the revision that is named.", "Nothing."),
        Explanation(
            "known_before", "The remote had the revision that is named, but has gone back to an earlier state (remote_went_back), and may have lost it: the document "
                + "is not pushed.",
            "nightjar explain remote_went_back."),
        Explanation(
            "pending", "The document waits to be pushed, or the feed of a listener's peer has not reached it.",
            "It goes by itself. If it stays, check the connection: nightjar status. Where the text says that it was processed already, nightjar replicator NAME start "
                + "--reset checks every document again."),
        Explanation(
            "unanswered", "The connection of a replicator is up, but the peer owes a reply and has sent nothing for ten seconds or more.",
            "Check the peer, or a proxy in front of it: it hangs. The connection ends by itself when pings are not answered (heartbeat); nightjar replicator NAME "
                + "stop, then start, makes a new one now."),
        Explanation("under_way", "The document was offered to the peer or sent, and the peer has not answered.", "If it stays, check the line and the peer."),
        Explanation(
            "waiting_for_blobs", "A blob of the document is being transferred, is missing or damaged here, or cannot be accepted.",
            "The text names the blob. If it names a limit, raise it and nightjar reload; nightjar blob put stores one that is missing or damaged."),
        Explanation(
            "waiting_for_room", "There is no room here for what the remote has: the disk or the database's quota is used up. The document does not fit, or was not asked for.",
            "Make room: \(RoomRemedy.purge), remove what is not the agent's from the disk, or raise the database's quota. The pull goes on by itself then."),
        Explanation(
            "rejected", "A filter here rejected the document: push_filter or pull_filter.",
            "Change the document or the filter. What a replicator's filter held back is checked again by itself."),
        Explanation(
            "held", "A filter failed on the document, so that nobody knows whether it may pass; or it is larger than max_document_bytes of the database.",
            "The text has the plugin's error, or the limit. Fix the plugin, or raise the limit and nightjar reload; the document is tried again by itself."),
        Explanation(
            "rejected_there", "The peer of a listener received the document, and its pull filter rejected it: it is not in the peer's database.",
            "Change the document, or the filter there. What the filter held back is checked again there by itself; this side does not learn of that."),
        Explanation(
            "held_there", "The peer of a listener received the document but holds it: its pull filter failed, the document is too large there, or a blob of it could "
                + "not be fetched or accepted.",
            "nightjar doc why there has the error. Fix the plugin there, raise the limit, or restore the blob: nightjar blob put on the side that lacks its bytes. "
                + "This side does not learn what the peer does then."),
        Explanation(
            "refused", "The peer refused the document.",
            "Fix the reason there, or change the document. A continuous replicator offers it again by itself, with each new connection and at least once an hour; at once "
                + "with nightjar replicator NAME retry-refused. A peer of a listener has to reconnect."),
        Explanation(
            "asked_again", "The remote sent the document, and it was too large for the limits of then, which have been raised since.",
            "Nothing: it is requested again once everything else that the remote has is here. If it is still too large, the text says how much it takes."),
        Explanation(
            "refused_here", "The remote sent the document, or announced it, and this database did not accept it. nightjar replicator NAME refused lists all such documents.",
            "Fix the reason in the text: a document that changes is sent again, and one that was too large is sent again when the agent starts with a larger limit; "
                + "nightjar replicator NAME start --reset asks for everything again."),
        Explanation(
            "not_given", "The remote has not sent the document: it does not have it, does not let this login read it, or has not reached it yet.",
            "Check whether it exists there, whether this login may read it, and whether channels, document_ids or a source_filter leave it out; nightjar replicator NAME "
                + "start --reset asks for everything again."),
        Explanation(
            "orphaned", "The remote took the document away from this login, but it was kept here: enable_auto_purge is off, or the pull filter rejected the removal.",
            "Give the login access to it again there, or purge it here."),
        Explanation(
            "in_conflict", "The document was edited on both sides, and the conflict waits for a decision.",
            "Fix the resolver, or decide by hand: nightjar conflicts list, nightjar conflicts resolve."),
        Explanation(
            "unrouted", "The sync function of a listener failed on the document or rejected it, or has not reached it yet: it is in no channel, and no user gets it.",
            "Fix the plugin; the document is retried by itself. nightjar doc unrouted DB lists all such documents, nightjar plugin retry retries them now."),
        Explanation(
            "not_in_channels", "The document is in none of the channels that the peer gets.",
            "Have the sync function put it into a channel of this user, or give the user one of its channels."),
        Explanation(
            "deletion_skipped", "The document is deleted, and the peer does not want deletions of documents that it never had (skip_deletions).",
            "Set skip_deletions: false if the deletion should go there."),
        Explanation("not_pushed", "The replicator pushes nothing.", "Set type: push_and_pull if it should."),
        Explanation(
            "not_pulled", "The replicator pulls nothing; or the peer of a listener has not asked for documents: it only pushes, or has only just connected.",
            "Set type: push_and_pull on the side that should pull."),
        Explanation("excluded", "The document is not among those that are replicated (document_ids).", "Add it to document_ids."),
        Explanation(
            "other_collection", "The replicator, or the peer of a listener, replicates other collections.", "Name the collection in its collections."),
        Explanation(
            "other_database", "The replicator or listener belongs to another database.", "If it should serve this one, name this one in the configuration."),
    ]
}
