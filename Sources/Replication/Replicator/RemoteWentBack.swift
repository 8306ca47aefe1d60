import Documents

/// Notes that a remote was found in an older state: restored from a backup, or recreated.
public struct RemoteWentBack: Sendable, Equatable {
    /// `went_back_again`: seconds within which it counts as the same problem rather than a new incident.
    public static let againSeconds: Int64 = 24 * 3_600
    /// `went_back_attention`: after this many times in a row, an operator has to look into it.
    public static let attentionTimes = 3

    /// When it was noticed, in seconds since 1970.
    public var time: Int64
    /// What was lost and what follows, as text.
    public var message: String
    /// Whether both sides are still being compared.
    public var isComparing: Bool
    /// How often in a row, less than a day apart.
    public var times: Int

    public init(time: Int64, message: String, isComparing: Bool, times: Int = 1) {
        self.time = time
        self.message = message
        self.isComparing = isComparing
        self.times = times
    }

    /// Whether it happens over and over, so that everything is exchanged again each time.
    public func isRecurring(now: Int64) -> Bool { times >= Self.attentionTimes && now - time < Self.againSeconds }
}

/// What a run has found out about a remote in an older state.
struct Setback {
    /// How often in a row the remote has gone back, if the current or last connection noticed it; 0 otherwise.
    var count = 0
    /// Collections whose checkpoint the remote has lost, and has not got back.
    var lost: Set<CollectionName> = []
    /// The remote has got one back since.
    var hasSaved = false
}

extension Replicator {
    /// While the sides are being compared, another connection notices the same again, which does not count. A remote that kept the new checkpoint and
    /// then lost that one as well has gone back again.
    nonisolated func noteWentBack(_ message: String, _ collection: CollectionName) {
        let now = environment.time.wallSeconds()
        shared.withLock { shared in
            // Several collections lost at the same time are one loss.
            guard shared.setback.lost.insert(collection).inserted, shared.setback.count == 0 else { return }
            let before = shared.wentBack
            if let before, before.isComparing, !shared.setback.hasSaved { return }
            let isAgain = before.map { now - $0.time < RemoteWentBack.againSeconds } ?? false
            let times = isAgain ? (before?.times ?? 0) + 1 : 1
            shared.wentBack = RemoteWentBack(time: now, message: message, isComparing: true, times: times)
            (shared.setback.count, shared.setback.hasSaved) = (times, false)
        }
        update { _ in }
    }

    /// Both sides have the same checkpoint of the collection.
    nonisolated func noteSaved(_ collection: CollectionName) {
        shared.withLock { shared in
            if shared.setback.lost.remove(collection) != nil { shared.setback.hasSaved = true }
        }
    }

    /// Everything that can be exchanged has been.
    nonisolated func noteInSync() {
        interruptionRecord.withLock { $0 = nil }
        waiting.forgetUnmentioned()
        shared.withLock {
            $0.wentBack?.isComparing = false
            $0.setback.lost = []
        }
    }
}
