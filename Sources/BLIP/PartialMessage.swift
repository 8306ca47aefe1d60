import NIOCore

/// A message from the peer that has begun.
struct PartialMessage {
    /// What happens to its data.
    enum Phase {
        /// It is collected.
        case gathering
        /// Its properties were delivered; its body is delivered as it arrives.
        case passing
        /// Its body is dropped as it arrives.
        case dropping
    }

    /// Flags of its first frame.
    let bits: UInt8
    /// Set for a reply that is to be streamed.
    let stream: RequestToken?
    private(set) var phase = Phase.gathering
    /// The data kept: everything, or only the start if the body is passed on or dropped.
    var bytes = ByteBuffer()
    /// Bytes received, uncompressed.
    var totalBytes = 0
    /// Length of its properties, including their length field; 0 while unknown.
    private(set) var startLength = 0
    /// Maximum number of bytes kept, and the name of the limit that sets it.
    private(set) var bound: Int
    let boundName: String

    /// Its share of the connection's totals.
    var countedBytes = 0
    var countedMemory = 0

    /// Bytes received as transmitted, including checksums, without headers.
    var received = 0
    var acknowledged = 0
    var acknowledgementIsDue = false

    init(_ header: FrameHeader, _ boundName: String, _ bound: Int, stream: RequestToken? = nil, isDropped: Bool = false) {
        bits = header.bits
        self.boundName = boundName
        // Keeps sums from overflowing.
        self.bound = min(max(bound, 0), Int.max >> 1)
        self.stream = stream
        if isDropped { phase = .dropping }
    }

    var isRequest: Bool { bits & FrameType.mask == FrameType.request }
    var startIsComplete: Bool { startLength > 0 && bytes.readableBytes >= startLength }
    var exceedsBound: Bool { bytes.readableBytes > bound }

    /// Memory that it takes, in bytes.
    var memory: Int { bytes.touchedBytes }

    /// How many bytes may be collected before the message must be examined again; at least 1.
    var room: Int {
        // The length field takes 1 to 10 bytes.
        let wanted = max(bound + 1, startLength > 0 ? startLength : 10)
        let piece = startLength == 0 || stream != nil ? Self.pieceLength : .max
        return min(max(wanted - bytes.readableBytes, 1), piece)
    }

    /// Longest piece of a body that is delivered or dropped at a time, in bytes.
    static let pieceLength = 65_536

    /// Whether an acknowledgement should be queued.
    func isDue(_ threshold: Int) -> Bool {
        !acknowledgementIsDue && received - acknowledged >= threshold
    }

    /// Reads the length of the properties once it has arrived.
    mutating func readStart(_ limits: BLIPLimits) throws(BLIPError) {
        guard startLength == 0, let length = try ParsedMessage.startLength(bytes, limits: limits) else { return }
        startLength = length
    }

    mutating func raiseBound(_ bytes: Int) { bound = min(max(bytes, bound), Int.max >> 1) }

    /// Drops the body received so far, and everything that follows.
    mutating func dropBody() {
        bytes = startIsComplete ? bytes.slice(0, startLength).compacted() : ByteBuffer()
        phase = .dropping
    }

    #if DEBUG
    /// The memory range of the collected bytes.
    var place: (address: UInt, length: Int) { bytes.withUnsafeReadableBytes { (UInt(bitPattern: $0.baseAddress), $0.count) } }
    #endif

    /// Starts passing the body on; returns what has arrived of it.
    mutating func passBody() -> ByteBuffer {
        let body = bytes.slice(startLength, bytes.readableBytes - startLength)
        bytes = ByteBuffer()
        phase = .passing
        return body
    }
}

/// A partly inflated frame that waits for room.
struct SuspendedFrame {
    let frame: ByteBuffer
    /// The rest of its data.
    let input: Inflater.Input
    /// Bytes produced from it so far.
    let produced: Int
}

extension BLIPConnection {
    /// Messages up to this size, in bytes, are inflated into a reused buffer.
    static let smallMessage = 8_192

    /// `count` more bytes of a message arrived, uncompressed.
    mutating func took(_ count: Int, _ partial: inout PartialMessage) {
        partial.totalBytes += count
        takenBytes += count
    }
}

extension ByteBuffer {
    /// The memory that it takes, in bytes. The size of a buffer's memory is a power of two; of a large one, the pages that nothing was written to take
    /// none. Part of another buffer keeps all of that in memory.
    var touchedBytes: Int {
        // Smaller ones are not memory of their own (the agent sets malloc's threshold slightly above).
        let (pageBytes, smallBytes) = (4_096, 65_536)
        return capacity == storageCapacity ? min(storageCapacity, max(writerIndex + pageBytes, smallBytes)) : storageCapacity
    }

    /// A copy in memory of exactly its size.
    func compacted() -> ByteBuffer {
        var copy = ByteBuffer()
        copy.reserveCapacity(readableBytes)
        copy.writeImmutableBuffer(self)
        return copy
    }

    /// The buffer itself if it makes up most of the memory it shares, else a copy.
    func sharedIfDense() -> ByteBuffer {
        storageCapacity <= 2 * readableBytes + 1024 ? self : compacted()
    }
}
