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
    /// Name of the request, sent as property `Profile` unless empty. Ends at its first NUL, if any.
    public var profile: String
    /// The other properties; a `Profile` among them is not sent.
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

/// A complete request of the peer.
public struct IncomingRequest: Sendable {
    /// To be given to `BLIPConnection.reply(to:)`.
    public var number: UInt64
    /// Property `Profile`; empty if the request has none (answer `BLIP`/404).
    public var profile: String
    /// The properties without `Profile`.
    public var properties: BLIPProperties
    public var body: ByteBuffer
    /// Must not be answered; the machine ignores replies to it.
    public var isNoReply: Bool
    public var isUrgent: Bool
    /// Whether its first frame was compressed.
    public var isCompressed: Bool
    /// Whether the request exceeded `BLIPLimits.maximumMessage(of:)` and its body was dropped: `body` is empty then. An owner
    /// must look here before it takes an empty body for what the peer meant; the answer is `HTTP`/413.
    public var isTruncated: Bool
    /// Length of all that the peer sent, in bytes, uncompressed, properties included: what the limits count.
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

/// A reply to send. It takes its urgency from the request.
public struct OutgoingReply: Sendable {
    public var properties: BLIPProperties
    public var body: ByteBuffer
    public var isCompressed: Bool
    /// Makes it an error reply: `properties` are then preceded by the error's, and the body is its message.
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

/// An error reply. Domain `HTTP` is the one every client survives; LiteCore takes code 0 for a success.
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

    /// The answer to an unknown profile, in the exact words LiteCore looks for.
    public static let noHandler = BLIPErrorReply(domain: "BLIP", code: 404, message: "no handler for message")

    public var description: String { message.isEmpty ? "\(domain)/\(code)" : "\(domain)/\(code) \(message)" }
}

/// A complete reply of the peer.
public struct IncomingReply: Sendable {
    public var properties: BLIPProperties
    public var body: ByteBuffer
    /// Set if it is an error reply. A missing domain reads as `BLIP`, a missing or malformed code as 0.
    public var error: BLIPErrorReply?

    public init(properties: BLIPProperties = [:], body: ByteBuffer = ByteBuffer(), error: BLIPErrorReply? = nil) {
        self.properties = properties
        self.body = body
        self.error = error
    }
}

/// Stands for a request that was sent and awaits its reply. (Request numbers are no use here: a request gets its number
/// only when its first frame is produced.)
public struct RequestToken: Hashable, Sendable {
    let serial: UInt64
}

/// Stands for a reply of ours that is sent as it is supplied.
public struct StreamID: Hashable, Sendable {
    /// Of the request that it answers.
    let number: UInt64
}

/// What the connection has to say to its owner.
public enum BLIPEvent: Sendable {
    /// A request of the peer is complete.
    case request(IncomingRequest)
    /// The reply to a request of ours is complete.
    case reply(RequestToken, IncomingReply)
    /// A reply of several frames is growing: bytes so far, uncompressed, properties included.
    case replyProgress(RequestToken, receivedBytes: Int)
    /// The last frame of a request was produced (only from `nextFrame(_:into:)`).
    case sent(RequestToken)
    /// The reply to a request sent with `streamsReply` is a success and has begun.
    case replyBegan(RequestToken, BLIPProperties)
    /// The next bytes of its body, uncompressed. They count as held until `consumed(_:bytes:)` is told.
    case replyBytes(RequestToken, ByteBuffer)
    /// Its body is complete.
    case replyEnded(RequestToken)
    /// Little of a streamed reply of ours is left to send: `supply(_:_:isLast:)` more (only from `nextFrame(_:into:)`). Told
    /// once; a stream is asked for again after it was supplied.
    case wantsMore(StreamID)
}
