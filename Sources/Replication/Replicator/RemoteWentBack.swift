/// A remote that was found behind where it was: restored from a backup, or made anew.
public struct RemoteWentBack: Sendable, Equatable {
    /// When it was noticed (seconds since 1970).
    public var time: Int64
    /// What of it, and what follows, in words.
    public var message: String
    /// Both sides are still compared.
    public var isComparing: Bool

    public init(time: Int64, message: String, isComparing: Bool) {
        self.time = time
        self.message = message
        self.isComparing = isComparing
    }
}

extension Replicator {
    /// While the sides are compared, another connection finds the same again: that is no news.
    nonisolated func noteWentBack(_ message: String) {
        let now = environment.time.wallSeconds()
        shared.withLock { shared in
            if shared.wentBack?.isComparing != true { shared.wentBack = RemoteWentBack(time: now, message: message, isComparing: true) }
        }
        update { _ in }
    }

    /// Everything is exchanged that can be.
    nonisolated func noteInStep() {
        brokenOff.withLock { $0 = nil }
        waiting.forgetUnmentioned()
        shared.withLock { $0.wentBack?.isComparing = false }
    }
}
