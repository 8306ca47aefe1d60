import Environment
import Synchronization

/// The maximum bytes per second in each direction; nil for no limit.
public struct BandwidthCap: Sendable, Equatable {
    public var send: Int?
    public var receive: Int?

    public init(send: Int? = nil, receive: Int? = nil) {
        self.send = send
        self.receive = receive
    }
}

/// A cap together with its usage: for one connection, or shared by several.
public final class Bandwidth: Sendable {
    let send: TokenBucket?
    let receive: TokenBucket?

    public init(_ cap: BandwidthCap, time: any TimeSource) {
        send = cap.send.map { TokenBucket(rate: $0, time: time) }
        receive = cap.receive.map { TokenBucket(rate: $0, time: time) }
    }
}

/// The bandwidth limits for a listener's connections.
public struct ListenerBandwidth: Sendable {
    /// For all connections together.
    private let all: Bandwidth?
    /// For each connection.
    private let each: BandwidthCap?
    private let time: any TimeSource

    /// Nil if there is no limit.
    public init?(all: BandwidthCap?, each: BandwidthCap?, time: any TimeSource) {
        guard all != nil || each != nil else { return nil }
        self.all = all.map { Bandwidth($0, time: time) }
        self.each = each
        self.time = time
    }

    /// The limits for another connection.
    var ofConnection: [Bandwidth] { [all, each.map { Bandwidth($0, time: time) }].compactMap { $0 } }
}

/// Bytes that become available at a constant rate. A caller that takes more than are available gets them anyway, and the next one waits until
/// they have been made up for: callers are served in the order in which they ask.
final class TokenBucket: Sendable {
    /// Bytes per second.
    let rate: Int
    /// Unused bytes accumulate for at most this many nanoseconds.
    private static let unused: UInt64 = 250_000_000
    private let time: any TimeSource
    /// When everything taken so far will have been made up for.
    private let settled: Mutex<UInt64>

    init(rate: Int, time: any TimeSource) {
        self.rate = max(1, rate)
        self.time = time
        settled = Mutex(0)
    }

    /// - Returns: nanoseconds until the bytes may be used.
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
