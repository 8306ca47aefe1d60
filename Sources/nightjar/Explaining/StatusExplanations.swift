extension Explanation {
    /// What a replicator or listener is doing, in the words of `nightjar status`, what is said of a backup, and what runs alongside a plugin.
    static let ofStatus = [
        Explanation(
            "stopped", "A replicator or listener does nothing: an operator stopped it, an error stopped it that a retry does not fix, or it is a one-shot replicator "
                + "that has finished.",
            "status shows the error, where there was one. nightjar replicator NAME start, nightjar listener NAME start."),
        Explanation(
            "offline", "A replicator has no connection and waits for its next attempt.",
            "status shows the last error and when the next attempt is; nightjar replicator NAME start makes it now. If it lasts: nightjar doctor."),
        Explanation("suspended", "An operator, or its schedule, keeps the replicator from connecting for now.", "With a schedule it resumes by itself, otherwise "
            + "with nightjar replicator NAME resume."),
        Explanation("connecting", "A replicator is connecting.", "Nothing; if it lasts, check the line: nightjar doctor."),
        Explanation(
            "idle",
            "A replicator is connected, and nothing can be done now: both sides are in sync, except for what is held, refused or rejected, or waits for the other "
                + "side, for room or for a plugin.",
            "Nothing, unless attention names something that waits."),
        Explanation("busy", "A replicator is connected and at work; progress says how far it has come.", "Nothing."),
        Explanation("listening", "A listener accepts peers.", "Nothing."),
        Explanation(
            "shadow",
            "A plugin runs beside the one that serves: it is asked the same afterwards, and what it says has no effect. Status counts how often both said the same, "
                + "something different, the candidate failed, or too many waited to ask it (skipped).",
            "nightjar plugin list shows the last differences. Where they are what was meant, name the candidate in place of the plugin that serves; else change its file, "
                + "and counting starts over."),
        Explanation(
            "remote_went_back", "The remote of a replicator was found behind where it was: it has lost the checkpoint that it kept, or has an older one, as after a restore from a backup.",
            "What the remote lost is pushed again by itself. What is not pushed is gone there and stays here only: what a push filter keeps back, and everything of a "
                + "replicator that only pulls (type: pull). To bring it back, have the filter let it through, or set type: push_and_pull, reload and then "
                + "nightjar replicator NAME start --reset. Where nobody restored it, ask whoever runs it what happened to its database. Where it goes back again within "
                + "a day (times), it is contacted less and less often: remote_goes_back."),
        Explanation(
            "damaged_blobs",
            "A backup lacks blobs that its documents name, or they are damaged in it: their files were altered or gone in the database when the backup was made, or "
                + "are now in the backup's folder.",
            "nightjar backup --verify FOLDER names them. Store each again from a copy (nightjar blob put DB FILE) and make another backup. To go back to this one: "
                + "put the right files "
                + "into its folder blobs, or nightjar restore FOLDER --without-damaged-blobs, and peers get the documents that name those blobs once they are stored again."),
        Explanation(
            "waiting", "A listener cannot get its port or interface yet and keeps retrying; or a document waits, because the peer, or this database, cannot accept "
                + "or provide it at the moment.",
            "The text beside it names the reason. nightjar listener NAME start tries now; for a document, nightjar doc why DB ID."),
    ]
}
