/// Detects that an idle connection no longer delivers anything: twice in a row the peer has something that is not here, and the pull made no progress
/// in between.
///
/// Once is not enough: what the peer has just received may still be in flight to us.
struct IdleCanary {
    enum Decision: Equatable {
        /// Ask again after this many seconds.
        case wait(seconds: Int)
        /// Replace the connection.
        case reconnect
    }

    /// `silence_interval`: seconds between two checks.
    let intervalSeconds: Int

    /// The position of the pull when the peer was last found to have something that was not here.
    private var suspected: [RemoteSequence?]?

    init(intervalSeconds: Int) {
        self.intervalSeconds = intervalSeconds
    }

    /// The connection is active, or the check was not possible.
    ///
    /// - Returns: seconds until the next check.
    mutating func forget() -> Int {
        suspected = nil
        return intervalSeconds
    }

    /// The peer has this many documents after the sequences up to which the pull is complete.
    mutating func asked(missing: UInt64, at position: [RemoteSequence?]) -> Decision {
        guard missing > 0 else {
            suspected = nil
            return .wait(seconds: intervalSeconds)
        }
        guard suspected != position else {
            suspected = nil
            return .reconnect
        }
        suspected = position
        return .wait(seconds: min(intervalSeconds, EngineBounds.silenceGraceSeconds))
    }
}
