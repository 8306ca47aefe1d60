/// Decides whether a connection that is idle has gone deaf: twice in a row the peer has something that is not here, and the connection
/// has come no further between.
///
/// Once is not enough: what the peer was just given may be on its way over the connection.
struct IdleCanary {
    enum Decision: Equatable {
        /// Ask again after so many seconds.
        case wait(seconds: Int)
        /// Make another connection.
        case reconnect
    }

    /// `silence_interval`: seconds between two questions.
    let intervalSeconds: Int

    /// How far the pull was when the peer had something that was not here.
    private var suspected: [RemoteSequence?]?

    init(intervalSeconds: Int) {
        self.intervalSeconds = intervalSeconds
    }

    /// The connection does something, or nothing could be asked.
    ///
    /// - Returns: seconds until the next question.
    mutating func forget() -> Int {
        suspected = nil
        return intervalSeconds
    }

    /// The peer has so many documents behind the sequences, up to which the pull is complete, that are not here.
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
