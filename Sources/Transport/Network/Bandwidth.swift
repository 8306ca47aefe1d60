import Environment
import Synchronization

/// Bytes a second that may go each way, at most; nil: as many as the line takes.
public struct BandwidthCap: Sendable, Equatable {
    public var send: Int?
    public var receive: Int?

    public init(send: Int? = nil, receive: Int? = nil) {
        self.send = send
        self.receive = receive
    }
}

/// A cap with what was used of it: of one connection, or of several that share it.
public final class Bandwidth: Sendable {
    let send: TokenBucket?
    let receive: TokenBucket?

    public init(_ cap: BandwidthCap, time: any TimeSource) {
        send = cap.send.map { TokenBucket(rate: $0, time: time) }
        receive = cap.receive.map { TokenBucket(rate: $0, time: time) }
    }
}

/// What the connections of a listener are held to.
public struct ListenerBandwidth: Sendable {
    /// All together.
    private let all: Bandwidth?
    /// Each of them.
    private let each: BandwidthCap?
    private let time: any TimeSource

    /// Nil where nothing is capped.
    public init?(all: BandwidthCap?, each: BandwidthCap?, time: any TimeSource) {
        guard all != nil || each != nil else { return nil }
        self.all = all.map { Bandwidth($0, time: time) }
        self.each = each
        self.time = time
    }

    /// For one more connection.
    var ofConnection: [Bandwidth] { [all, each.map { Bandwidth($0, time: time) }].compactMap { $0 } }
}

/// Bytes that become free at an even pace. Whoever takes more than there are gets them, and the next one waits until they are made up for: who
/// shares it is served in the order of asking.
final class TokenBucket: Sendable {
    /// Bytes a second.
    let rate: Int
    /// What has not been used goes up to so much of a second's bytes.
    private static let unused: UInt64 = 250_000_000
    private let time: any TimeSource
    /// When all that was taken is made up for.
    private let settled: Mutex<UInt64>

    init(rate: Int, time: any TimeSource) {
        self.rate = max(1, rate)
        self.time = time
        settled = Mutex(0)
    }

    /// - Returns: nanoseconds until they may be used.
    func take(_ bytes: Int) -> UInt64 {
        let now = time.monotonicNanoseconds()
        let cost = UInt64(Double(max(0, bytes)) / Double(rate) * 1_000_000_000)
        return settled.withLock { settled in
            let start = max(settled, now > Self.unused ? now - Self.unused : 0)
            settled = start + cost
            return start > now ? start - now : 0
        }
    }
}
