/// The saving of one collection's checkpoint, without its I/O.
struct CheckpointSync {
    let id: String
    /// The peer's token for its copy, empty for none.
    var peerRevision = ""
    /// What the peer and we have saved.
    var saved: CheckpointBody
    var isSaving = false
    var timerIsRunning = false
    /// The peer refused the last save for good; no more are sent in this run.
    var isBroken = false

    init(id: String, saved: CheckpointBody) {
        self.id = id
        self.saved = saved
    }

    func isDirty(_ current: CheckpointBody) -> Bool { !isBroken && current != saved }
}
