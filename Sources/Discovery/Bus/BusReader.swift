/// Decodes values received over the bus. Whatever the bytes are, it reads nothing beyond them and allocates no more than in
/// proportion to them.
struct BusReader {
    let bytes: ArraySlice<UInt8>
    let isBigEndian: Bool
    private var at: Int

    init(_ bytes: ArraySlice<UInt8>, isBigEndian: Bool) {
        self.bytes = bytes
        self.isBigEndian = isBigEndian
        at = bytes.startIndex
    }

    var offset: Int { at - bytes.startIndex }

    mutating func align(_ alignment: Int) throws(DiscoveryError) {
        let gap = (alignment - offset % alignment) % alignment
        guard bytes.endIndex - at >= gap else { throw .malformed }
        at += gap
    }

    mutating func read(_ types: [BusType]) throws(DiscoveryError) -> [BusValue] {
        var values: [BusValue] = []
        for type in types { values.append(try read(type, depth: 0)) }
        return values
    }

    mutating func read(_ type: BusType, depth: Int = 0) throws(DiscoveryError) -> BusValue {
        guard depth <= 2 * BusType.deepest else { throw .malformed }
        try align(type.alignment)
        switch type {
        case .byte: return .number(try integer(1))
        case .int16, .uint16: return .number(try integer(2))
        case .bool, .int32, .uint32, .descriptor: return .number(try integer(4))
        case .int64, .uint64, .double: return .number(try integer(8))
        case .string, .objectPath: return .text(try text(Int(try integer(4))))
        case .signature: return .text(try text(Int(try integer(1))))
        case .variant:
            guard let types = BusType.parse(try text(Int(try integer(1)))), types.count == 1 else { throw .malformed }
            return .variant(try read(types[0], depth: depth + 1))
        case .array(let element):
            let length = Int(try integer(4))
            try align(element.alignment)
            guard length <= bytes.endIndex - at else { throw .malformed }
            let end = at + length
            var values: [BusValue] = []
            // Each element takes at least a byte, so the input bounds the loop.
            while at < end { values.append(try read(element, depth: depth + 1)) }
            guard at == end else { throw .malformed }
            return .array(values)
        case .structure(let fields):
            var values: [BusValue] = []
            for field in fields { values.append(try read(field, depth: depth + 1)) }
            return .structure(values)
        }
    }

    private mutating func integer(_ size: Int) throws(DiscoveryError) -> UInt64 {
        guard bytes.endIndex - at >= size else { throw .malformed }
        var number: UInt64 = 0
        for index in 0..<size {
            number |= UInt64(bytes[at + index]) << (8 * UInt64(isBigEndian ? size - 1 - index : index))
        }
        at += size
        return number
    }

    private mutating func text(_ length: Int) throws(DiscoveryError) -> String {
        guard length < bytes.endIndex - at, bytes[at + length] == 0 else { throw .malformed }
        defer { at += length + 1 }
        return String(decoding: bytes[at..<at + length], as: UTF8.self)
    }
}
