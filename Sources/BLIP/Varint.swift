import Encodings
import NIOCore

extension Varint.Reading {
    @inline(__always)
    func checked() throws(BLIPError) -> Varint.Reading {
        if length > 0 { return self }
        throw length == 0 ? .truncatedNumber : .numberOverflow
    }
}

extension ByteBuffer {
    @inline(__always)
    mutating func writeVarint(_ value: UInt64) {
        Varint.write(value) { writeInteger($0) }
    }
}
