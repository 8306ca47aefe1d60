public import NIOCore

/// Bits 3 to 6 of a frame's flags.
public struct BLIPFlags: OptionSet, Sendable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }
    public static let compressed = BLIPFlags(rawValue: 0x08)
    public static let urgent = BLIPFlags(rawValue: 0x10)
    public static let noReply = BLIPFlags(rawValue: 0x20)
    static let moreComing = BLIPFlags(rawValue: 0x40)
}

/// A request to send.
public struct OutgoingRequest: Sendable {
    /// Name of the request, sent as property `Profile` unless empty. Truncated at its first NUL, if any.
    public var profile: String
    /// All other properties; a `Profile` among them is not sent.
    public var properties: BLIPProperties
    public var body: ByteBuffer
    public var isCompressed: Bool
    /// May overtake normal messages.
    public var isUrgent: Bool
    public var isNoReply: Bool

    public init(
        profile: String, properties: BLIPProperties = [:], body: ByteBuffer = ByteBuffer(),
        isCompressed: Bool = false, isUrgent: Bool = false, isNoReply: Bool = false
    ) {
        self.profile = profile
        self.properties = properties
        self.body = body
        self.isCompressed = isCompressed
        self.isUrgent = isUrgent
        self.isNoReply = isNoReply
    }
}

/// A complete request from the peer.
public struct IncomingRequest: Sendable {
    /// Pass it to `BLIPConnection.reply(to:)`.
    public var number: UInt64
    /// Property `Profile`; empty if the request has none (answer `BLIP`/404).
    public var profile: String
    /// The properties without `Profile`.
    public var properties: BLIPProperties
    public var body: ByteBuffer
    /// The request must not be answered; the connection ignores replies to it.
    public var isNoReply: Bool
    public var isUrgent: Bool
    /// Whether its first frame was compressed.
    public var isCompressed: Bool
    /// Whether the request exceeded `BLIPLimits.maximumMessage(of:)` and its body was dropped, leaving `body` empty. An owner must check this before
    /// it interprets an empty body; the answer is `HTTP`/413.
    public var isTruncated: Bool
    /// Length of the whole request as the peer sent it, in bytes, uncompressed, including properties: the length that the limits apply to.
    public var totalBytes: Int

    public init(
        number: UInt64, profile: String, properties: BLIPProperties = [:], body: ByteBuffer = ByteBuffer(),
        isNoReply: Bool = false, isUrgent: Bool = false, isCompressed: Bool = false, isTruncated: Bool = false, totalBytes: Int = 0
    ) {
        self.number = number
        self.profile = profile
        self.properties = properties
        self.body = body
        self.isNoReply = isNoReply
        self.isUrgent = isUrgent
        self.isCompressed = isCompressed
        self.isTruncated = isTruncated
        self.totalBytes = totalBytes
    }
}

/// A reply to send. Its urgency is that of the request.
public struct OutgoingReply: Sendable {
    public var properties: BLIPProperties
    public var body: ByteBuffer
    public var isCompressed: Bool
    /// Makes this an error reply: `properties` then follow the error's own, and the body is the error's message.
    public var error: BLIPErrorReply?

    public init(properties: BLIPProperties = [:], body: ByteBuffer = ByteBuffer(), isCompressed: Bool = false) {
        self.properties = properties
        self.body = body
        self.isCompressed = isCompressed
    }

    public init(error: BLIPErrorReply) {
        self.properties = [:]
        self.body = ByteBuffer()
        self.isCompressed = false
        self.error = error
    }
}

/// An error reply. `HTTP` is the only domain that every client tolerates; LiteCore treats code 0 as success.
public struct BLIPErrorReply: Error, Sendable, Equatable, CustomStringConvertible {
    /// `HTTP`, `BLIP`, `LiteCore` …
    public var domain: String
    public var code: Int
    public var message: String

    public init(domain: String, code: Int, message: String = "") {
        self.domain = domain
        self.code = code
        self.message = message
    }

    /// The answer to an unknown profile, worded exactly as LiteCore expects.
    public static let noHandler = BLIPErrorReply(domain: "BLIP", code: 404, message: "no handler for message")

    public var description: String { message.isEmpty ? "\(domain)/\(code)" : "\(domain)/\(code) \(message)" }
}

/// A complete reply from the peer.
public struct IncomingReply: Sendable {
    public var properties: BLIPProperties
    public var body: ByteBuffer
    /// Set for an error reply. A missing domain is read as `BLIP`, a missing or malformed code as 0.
    public var error: BLIPErrorReply?

    public init(properties: BLIPProperties = [:], body: ByteBuffer = ByteBuffer(), error: BLIPErrorReply? = nil) {
        self.properties = properties
        self.body = body
        self.error = error
    }
}

/// Identifies a request that was sent and awaits its reply. (Request numbers cannot serve for this: a request gets its number only when its first
/// frame is produced.)
public struct RequestToken: Hashable, Sendable {
    let serial: UInt64
}

/// Identifies a reply of ours that is streamed.
public struct StreamID: Hashable, Sendable {
    /// The number of the request that it answers.
    let number: UInt64
}

/// What the connection reports to its owner.
public enum BLIPEvent: Sendable {
    /// A request of the peer is complete.
    case request(IncomingRequest)
    /// The reply to a request of ours is complete.
    case reply(RequestToken, IncomingReply)
    /// A multi-frame reply is growing: bytes received so far, uncompressed, including properties.
    case replyProgress(RequestToken, receivedBytes: Int)
    /// The last frame of a request was produced (only reported by `nextFrame(_:into:)`).
    case sent(RequestToken)
    /// The reply to a request sent with `streamsReply` has begun and is a success.
    case replyBegan(RequestToken, BLIPProperties)
    /// The next bytes of its body, uncompressed. They count as held until `consumed(_:bytes:)` is called for them.
    case replyBytes(RequestToken, ByteBuffer)
    /// Its body is complete.
    case replyEnded(RequestToken)
    /// Little of a streamed reply of ours is left to send: `supply(_:_:isLast:)` more (only reported by `nextFrame(_:into:)`). Reported once; again
    /// only after the stream has been supplied.
    case wantsMore(StreamID)
}
