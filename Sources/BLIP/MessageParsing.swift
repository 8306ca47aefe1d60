import Encodings
import NIOCore

/// A complete message, split into its parts: `varint(length of properties) ‖ properties ‖ body`. Copies nothing unless `Profile` is not the first
/// property.
struct ParsedMessage {
    /// Empty if absent or not requested.
    var profile: String
    var properties: BLIPProperties
    var body: ByteBuffer

    private struct Layout {
        var length: Varint.Reading
        var fault: BLIPError.PropertiesFault?
        var profile: String?
        /// The range of the pair `Profile`, relative to the start of the properties.
        var profilePair = 0..<0
        var pairs = 0
    }

    init(_ message: ByteBuffer, number: UInt64, wantsProfile: Bool, limits: BLIPLimits) throws(BLIPError) {
        guard message.readableBytes > 0 else { throw .properties(reason: .missing, message: number) }
        let layout = message.withUnsafeReadableBytes { Self.scan($0, wantsProfile, limits) }
        try Self.check(layout.length, limits)
        guard layout.pairs <= limits.maximumPropertyCount else {
            throw .limitExceeded("maximumPropertyCount", value: layout.pairs, maximum: limits.maximumPropertyCount)
        }
        if let fault = layout.fault { throw .properties(reason: fault, message: number) }

        let start = layout.length.length
        let count = Int(layout.length.value)
        profile = layout.profile ?? ""
        // The body may be kept for long, and must not keep alive the memory of properties that are longer than itself.
        body = message.slice(start + count, message.readableBytes - start - count).sharedIfDense()
        let pair = layout.profilePair
        if pair.lowerBound == 0 {
            properties = BLIPProperties(checkedBlock: message.slice(start + pair.count, count - pair.count))
        } else {
            var rest = ByteBuffer()
            rest.reserveCapacity(count - pair.count)
            rest.writeImmutableBuffer(message.slice(start, pair.lowerBound))
            rest.writeImmutableBuffer(message.slice(start + pair.upperBound, count - pair.upperBound))
            properties = BLIPProperties(checkedBlock: rest)
        }
    }

    /// Length of an incomplete message's properties, including their length field. Nil if that has not arrived yet.
    static func startLength(_ message: ByteBuffer, limits: BLIPLimits) throws(BLIPError) -> Int? {
        let length = message.withUnsafeReadableBytes { Varint.read($0, at: 0) }
        if length.length == 0 { return nil }
        try check(length, limits)
        return length.length + Int(length.value)
    }

    private static func check(_ length: Varint.Reading, _ limits: BLIPLimits) throws(BLIPError) {
        let value = try length.checked().value
        guard value <= UInt64(UInt32.max) else { throw .numberOverflow }
        guard value <= UInt64(limits.maximumProperties) else {
            throw .limitExceeded("maximumProperties", value: Int(value), maximum: limits.maximumProperties)
        }
    }

    private static let profileKey: StaticString = "Profile"

    private static func scan(_ bytes: UnsafeRawBufferPointer, _ wantsProfile: Bool, _ limits: BLIPLimits) -> Layout {
        var layout = Layout(length: Varint.read(bytes, at: 0))
        guard layout.length.length > 0, layout.length.value <= UInt64(limits.maximumProperties) else { return layout }
        let start = layout.length.length
        let count = Int(layout.length.value)
        guard count > 0 else { return layout }
        guard count <= bytes.count - start else {
            layout.fault = .longerThanMessage
            return layout
        }
        let block = UnsafeRawBufferPointer(rebasing: bytes[start..<start + count])
        guard block[count - 1] == 0 else {
            layout.fault = .unterminated
            return layout
        }
        let key = UnsafeRawBufferPointer(start: profileKey.utf8Start, count: profileKey.utf8CodeUnitCount)
        var position = 0
        while position < count {
            guard let pair = PropertyBlock.pair(block, at: position) else {
                layout.fault = .oddStrings
                return layout
            }
            if wantsProfile, layout.profile == nil, PropertyBlock.equal(key, block, pair.key) {
                layout.profile = String(decoding: block[pair.value], as: UTF8.self)
                layout.profilePair = pair.key.lowerBound..<pair.value.upperBound + 1
            }
            position = pair.value.upperBound + 1
            layout.pairs += 1
            if layout.pairs > limits.maximumPropertyCount { break }
        }
        return layout
    }
}

extension IncomingReply {
    /// A complete reply. `bits`: the flags of its first frame.
    init(_ message: ByteBuffer, number: UInt64, bits: UInt8, limits: BLIPLimits) throws(BLIPError) {
        let parsed = try ParsedMessage(message, number: number, wantsProfile: false, limits: limits)
        self.init(properties: parsed.properties, body: parsed.body)
        if bits & FrameType.mask == FrameType.errorReply {
            let text = parsed.body.slice(0, min(parsed.body.readableBytes, limits.maximumErrorText))
            error = BLIPErrorReply(
                domain: parsed.properties["Error-Domain"] ?? "BLIP",
                code: parsed.properties["Error-Code"].flatMap { Int($0) } ?? 0,
                message: String(buffer: text)
            )
        }
    }
}
