import NIOCore

/// Decides when a silent peer is asked for a sign of life, and when it counts as dead. Anything received is a sign of
/// life.
struct Liveness {
    enum Action: Equatable {
        /// Check again after this time.
        case wait(TimeAmount)
        /// Send a PING and check again after this time.
        case ping(TimeAmount)
        /// No answer arrived within this time.
        case dead(TimeAmount)
    }

    let heartbeat: TimeAmount
    private let pongTime: TimeAmount
    private var lastHeard = NIODeadline.uptimeNanoseconds(0)
    private var pingSent: NIODeadline?

    init(heartbeat: TimeAmount, pongTime: TimeAmount) {
        self.heartbeat = heartbeat
        // At most the heartbeat less a second, as in LiteCore; half of it for heartbeats below two seconds.
        self.pongTime = min(pongTime, max(heartbeat - .seconds(1), .nanoseconds(heartbeat.nanoseconds / 2)))
    }

    @inline(__always)
    mutating func heard(at now: NIODeadline) {
        lastHeard = now
    }

    /// - Parameter isReading: false while back-pressure keeps us from reading, which is not the peer's fault.
    mutating func check(at now: NIODeadline, isReading: Bool) -> Action {
        guard isReading else {
            lastHeard = now
            pingSent = nil
            return .wait(heartbeat)
        }
        if let sent = pingSent {
            if lastHeard < sent { return .dead(now - sent) }
            pingSent = nil
        }
        let idle = now - lastHeard
        if idle < heartbeat { return .wait(heartbeat - idle) }
        pingSent = now
        return .ping(pongTime)
    }
}
