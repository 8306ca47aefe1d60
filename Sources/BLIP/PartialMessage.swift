import NIOCore

/// A message of the peer that has begun.
struct PartialMessage {
    /// What becomes of its data.
    enum Phase {
        /// It is kept.
        case gathering
        /// Its start is known and told; its body is told as it comes.
        case passing
        /// Its body is dropped as it comes.
        case dropping
    }

    /// From its first frame.
    let bits: UInt8
    /// Set if it is a reply that is to be streamed.
    let stream: RequestToken?
    private(set) var phase = Phase.gathering
    /// What is kept: all of it, or no more than its start if that is passing or dropping.
    var bytes = ByteBuffer()
    /// Bytes that came, uncompressed.
    var totalBytes = 0
    /// Length of its properties with their length; 0: not known yet.
    private(set) var startLength = 0
    /// Most bytes that are kept, and the name of the limit that says so.
    private(set) var bound: Int
    let boundName: String

    /// What the connection's sums say about it.
    var countedBytes = 0
    var countedCapacity = 0

    /// Bytes as transmitted, checksums included, headers not.
    var received = 0
    var acknowledged = 0
    var acknowledgementIsDue = false

    init(_ header: FrameHeader, _ boundName: String, _ bound: Int, stream: RequestToken? = nil, isDropped: Bool = false) {
        bits = header.bits
        self.boundName = boundName
        // Room for sums.
        self.bound = min(max(bound, 0), Int.max >> 1)
        self.stream = stream
        if isDropped { phase = .dropping }
    }

    var isRequest: Bool { bits & FrameType.mask == FrameType.request }
    var startIsComplete: Bool { startLength > 0 && bytes.readableBytes >= startLength }
    var isBeyondBound: Bool { bytes.readableBytes > bound }

    /// How many bytes may be gathered before another look at them; at least 1.
    var room: Int {
        // No number is longer than 10 bytes, and none is 0 bytes long.
        let wanted = max(bound + 1, startLength > 0 ? startLength : 10)
        let piece = startLength == 0 || stream != nil ? Self.pieceLength : .max
        return min(max(wanted - bytes.readableBytes, 1), piece)
    }

    /// Longest piece of a body that is told or dropped at a time, in bytes.
    static let pieceLength = 65_536

    /// Whether an acknowledgement is to be queued.
    func isDue(_ threshold: Int) -> Bool {
        !acknowledgementIsDue && received - acknowledged >= threshold
    }

    /// Takes note of the length of the properties once it is there.
    mutating func readStart(_ limits: BLIPLimits) throws(BLIPError) {
        guard startLength == 0, let length = try ParsedMessage.startLength(bytes, limits: limits) else { return }
        startLength = length
    }

    mutating func raiseBound(_ bytes: Int) { bound = min(max(bytes, bound), Int.max >> 1) }

    /// Lets go of the body that is there, and of what comes.
    mutating func dropBody() {
        bytes = startIsComplete ? bytes.slice(0, startLength).compacted() : ByteBuffer()
        phase = .dropping
    }

    #if DEBUG
    /// Where what is kept lies in memory.
    var place: (address: UInt, length: Int) { bytes.withUnsafeReadableBytes { (UInt(bitPattern: $0.baseAddress), $0.count) } }
    #endif

    /// Begins to pass the body on; gives what is there of it.
    mutating func passBody() -> ByteBuffer {
        let body = bytes.slice(startLength, bytes.readableBytes - startLength)
        bytes = ByteBuffer()
        phase = .passing
        return body
    }
}

/// A frame of which a part was inflated, and the rest waits for room.
struct SuspendedFrame {
    let frame: ByteBuffer
    /// What is left of its data.
    let input: Inflater.Input
    /// What came of it so far, in bytes.
    let produced: Int
}

extension BLIPConnection {
    /// Inflated to memory that is used again and again.
    static let smallMessage = 8_192

    /// So many bytes of a message came, uncompressed.
    mutating func took(_ count: Int, _ partial: inout PartialMessage) {
        partial.totalBytes += count
        takenBytes += count
    }
}

extension ByteBuffer {
    /// A copy in memory of its size.
    func compacted() -> ByteBuffer {
        var copy = ByteBuffer()
        copy.reserveCapacity(readableBytes)
        copy.writeImmutableBuffer(self)
        return copy
    }

    /// Itself if it shares memory that holds little else, or a copy.
    func sharedIfDense() -> ByteBuffer {
        storageCapacity <= 2 * readableBytes + 1024 ? self : compacted()
    }
}
