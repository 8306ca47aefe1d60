/// Encodes values for D-Bus: each aligned to its size, in little-endian order.
struct BusWriter {
    private(set) var bytes: [UInt8] = []

    mutating func align(_ alignment: Int) {
        while bytes.count % alignment != 0 { bytes.append(0) }
    }

    mutating func append(_ more: [UInt8]) { bytes += more }

    /// A value that does not fit its type is a programming error, and is written as an empty or zero value of
    /// that type.
    mutating func write(_ value: BusValue, _ type: BusType) {
        align(type.alignment)
        switch type {
        case .byte: integer(value, 1)
        case .int16, .uint16: integer(value, 2)
        case .bool, .int32, .uint32, .descriptor: integer(value, 4)
        case .int64, .uint64, .double: integer(value, 8)
        case .string, .objectPath: text(value.text ?? "", lengthBytes: 4)
        case .signature: text(value.text ?? "", lengthBytes: 1)
        case .variant: break // nothing that we send contains one
        case .array(let element):
            let place = bytes.count
            bytes += [0, 0, 0, 0]
            align(element.alignment)
            let start = bytes.count
            for item in value.array ?? [] { write(item, element) }
            let length = UInt32(bytes.count - start)
            for index in 0..<4 { bytes[place + index] = UInt8(truncatingIfNeeded: length >> (8 * index)) }
        case .structure(let fields):
            guard case .structure(let values) = value else { return }
            for (field, value) in zip(fields, values) { write(value, field) }
        }
    }

    private mutating func integer(_ value: BusValue, _ size: Int) {
        let number = value.number ?? 0
        for index in 0..<size { bytes.append(UInt8(truncatingIfNeeded: number >> (8 * UInt64(index)))) }
    }

    private mutating func text(_ text: String, lengthBytes: Int) {
        integer(.number(UInt64(text.utf8.count)), lengthBytes)
        bytes += Array(text.utf8)
        bytes.append(0)
    }
}
