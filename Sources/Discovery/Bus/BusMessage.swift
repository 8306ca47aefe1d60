/// A D-Bus message: a call, its reply, its error, or a signal.
struct BusMessage: Sendable {
    enum Kind: UInt8, Sendable { case call = 1, reply = 2, error = 3, signal = 4 }

    var kind: Kind
    var serial: UInt32 = 0
    var path: String?
    var interface: String?
    var member: String?
    var errorName: String?
    var replySerial: UInt32?
    var destination: String?
    var signature = ""
    var body: [BusValue] = []

    /// `bus_message_bytes`: many times the size of Avahi's messages; the specification allows 128 MiB.
    static let mostBytes = 1 << 20

    init(_ kind: Kind) { self.kind = kind }

    static func call(_ destination: String, _ path: String, _ interface: String, _ member: String, _ signature: String = "", _ body: [BusValue] = []) -> BusMessage {
        var message = BusMessage(.call)
        (message.destination, message.path, message.interface, message.member) = (destination, path, interface, member)
        (message.signature, message.body) = (signature, body)
        return message
    }

    func encoded() -> [UInt8] {
        var content = BusWriter()
        for (value, type) in zip(body, BusType.parse(signature) ?? []) { content.write(value, type) }
        var whole = BusWriter()
        whole.append([UInt8(ascii: "l"), kind.rawValue, 0, 1])
        whole.write(.number(UInt64(content.bytes.count)), .uint32)
        whole.write(.number(UInt64(serial)), .uint32)
        // a(yv): the variants are written explicitly, since each has one of three types.
        var fields = BusWriter()
        func add(_ code: UInt8, _ type: BusType, _ letter: Character, _ value: BusValue?) {
            guard let value else { return }
            fields.align(8)
            fields.append([code])
            fields.write(.text(String(letter)), .signature)
            fields.write(value, type)
        }
        add(1, .objectPath, "o", path.map { .text($0) })
        add(2, .string, "s", interface.map { .text($0) })
        add(3, .string, "s", member.map { .text($0) })
        add(5, .uint32, "u", replySerial.map { .number(UInt64($0)) })
        add(6, .string, "s", destination.map { .text($0) })
        add(8, .signature, "g", signature.isEmpty ? nil : .text(signature))
        whole.write(.number(UInt64(fields.bytes.count)), .uint32)
        // Appended at offset 16, so that alignment within the fields is preserved.
        whole.append(fields.bytes)
        whole.align(8)
        whole.append(content.bytes)
        return whole.bytes
    }

    /// The length of the first message; nil if it is not known yet.
    static func length(_ bytes: ArraySlice<UInt8>) throws(DiscoveryError) -> Int? {
        guard bytes.count >= 16 else { return nil }
        let isBigEndian = try order(bytes)
        var reader = BusReader(bytes, isBigEndian: isBigEndian)
        let head = try reader.read([.uint32, .uint32, .uint32, .uint32]).map { $0.number ?? 0 }
        let fields = (Int(head[3]) + 7) / 8 * 8
        let total = 16 + fields + Int(head[1])
        guard total <= mostBytes else { throw .malformed }
        return total
    }

    private static func order(_ bytes: ArraySlice<UInt8>) throws(DiscoveryError) -> Bool {
        switch bytes.first {
        case UInt8(ascii: "l"): return false
        case UInt8(ascii: "B"): return true
        default: throw .malformed
        }
    }

    /// - Parameter bytes: exactly one message.
    /// - Returns: nil for a kind of message that this program does not know.
    static func decode(_ bytes: ArraySlice<UInt8>) throws(DiscoveryError) -> BusMessage? {
        let isBigEndian = try order(bytes)
        var reader = BusReader(bytes, isBigEndian: isBigEndian)
        let head = try reader.read([.byte, .byte, .byte, .byte, .uint32, .uint32, .array(.structure([.byte, .variant]))])
        guard let kind = head[1].number.flatMap({ Kind(rawValue: UInt8($0)) }) else { return nil }
        var message = BusMessage(kind)
        message.serial = UInt32(truncatingIfNeeded: head[5].number ?? 0)
        for field in head[6].array ?? [] {
            guard case .structure(let pair) = field, let code = pair.first?.number, case .variant(let value)? = pair.last else { continue }
            switch code {
            case 1: message.path = value.text
            case 2: message.interface = value.text
            case 3: message.member = value.text
            case 4: message.errorName = value.text
            case 5: message.replySerial = value.number.map { UInt32(truncatingIfNeeded: $0) }
            case 6: message.destination = value.text
            case 8: message.signature = value.text ?? ""
            default: break
            }
        }
        try reader.align(8)
        guard let types = BusType.parse(message.signature) else { throw .malformed }
        message.body = try reader.read(types)
        return message
    }
}
