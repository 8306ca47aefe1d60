import Glibc

extension String {
    /// Calls `body` with the bytes of the text, without copying, even for non-native strings.
    @inline(__always)
    func withBytes<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        if let result = utf8.withContiguousStorageIfAvailable(body) { return result }
        return Array(utf8).withUnsafeBufferPointer(body)
    }

    /// Equality of bytes; `==` of String compares after Unicode normalisation.
    @inline(__always)
    func sameBytes(as other: String) -> Bool {
        withBytes { a in other.withBytes { b in a.count == b.count && (a.count == 0 || bytesEqual(a, b)) } }
    }

    /// Whether it precedes the other text in byte order.
    @inline(__always)
    func precedesBytes(of other: String) -> Bool {
        withBytes { a in other.withBytes { b in compareBytes(a, b) < 0 } }
    }
}

@inline(__always)
private func bytesEqual(_ a: UnsafeBufferPointer<UInt8>, _ b: UnsafeBufferPointer<UInt8>) -> Bool {
    guard let x = a.baseAddress, let y = b.baseAddress else { return true }
    return memcmp(x, y, a.count) == 0
}

/// Negative, zero or positive if `a` precedes, equals or follows `b` in byte order.
@inline(__always)
func compareBytes(_ a: UnsafeBufferPointer<UInt8>, _ b: UnsafeBufferPointer<UInt8>) -> Int {
    let common = min(a.count, b.count)
    if common > 0, let x = a.baseAddress, let y = b.baseAddress {
        let order = memcmp(x, y, common)
        if order != 0 { return Int(order) }
    }
    return a.count - b.count
}

extension Array where Element == UInt8 {
    /// `withUnsafeBytes` with a typed error.
    @inline(__always)
    func withRawBytes<Result, Failure: Error>(_ body: (UnsafeRawBufferPointer) throws(Failure) -> Result) throws(Failure) -> Result {
        try withUnsafeBufferPointer { (bytes) throws(Failure) in try body(UnsafeRawBufferPointer(bytes)) }
    }
}
