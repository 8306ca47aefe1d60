import Documents

/// A remote that was found behind where it was: restored from a backup, or made anew.
public struct RemoteWentBack: Sendable, Equatable {
    /// `went_back_again`: seconds within which it is the same trouble, and no other accident.
    public static let againSeconds: Int64 = 24 * 3_600
    /// `went_back_attention`: so often in a row, an operator has to see to it.
    public static let attentionTimes = 3

    /// When it was noticed (seconds since 1970).
    public var time: Int64
    /// What of it, and what follows, in words.
    public var message: String
    /// Both sides are still compared.
    public var isComparing: Bool
    /// How often in a row, less than a day apart.
    public var times: Int

    public init(time: Int64, message: String, isComparing: Bool, times: Int = 1) {
        self.time = time
        self.message = message
        self.isComparing = isComparing
        self.times = times
    }

    /// It does so again and again, and each time all is exchanged anew.
    public func isHabit(now: Int64) -> Bool { times >= Self.attentionTimes && now - time < Self.againSeconds }
}

/// What a run has found out about a remote that goes back.
struct Setback {
    /// How often in a row it has gone back, where the present connection, or the last one, found that; 0: it did not.
    var count = 0
    /// Collections whose checkpoint it has lost, and has not got back.
    var lost: Set<CollectionName> = []
    /// It has got one back since.
    var hasSaved = false
}

extension Replicator {
    /// While the sides are compared, another connection finds the same again: that is no news. A remote that kept the new checkpoint, and has
    /// lost that one as well, has gone back again.
    nonisolated func noteWentBack(_ message: String, _ collection: CollectionName) {
        let now = environment.time.wallSeconds()
        shared.withLock { shared in
            // Several collections that are lost at a time are one loss.
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

    /// Both sides have a checkpoint of it that is the same.
    nonisolated func noteSaved(_ collection: CollectionName) {
        shared.withLock { shared in
            if shared.setback.lost.remove(collection) != nil { shared.setback.hasSaved = true }
        }
    }

    /// Everything is exchanged that can be.
    nonisolated func noteInStep() {
        brokenOff.withLock { $0 = nil }
        waiting.forgetUnmentioned()
        shared.withLock {
            $0.wentBack?.isComparing = false
            $0.setback.lost = []
        }
    }
}
