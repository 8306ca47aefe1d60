import NIOCore

/// The entries of an answer to `_bulk_get`, by their position in its text: also those of the beginning of an answer that was too long to be received
/// whole. Each is JSON only once it has been parsed.
struct BulkGetEntries {
    /// The complete ones, in order.
    private(set) var places: [Range<Int>] = []

    /// Nil if the text does not begin like such an answer.
    init?(_ text: ByteBuffer) {
        let isRead = text.withUnsafeReadableBytes { read(JSONBytes(text: $0.bindMemory(to: UInt8.self))) }
        guard isRead else { return nil }
    }

    private mutating func read(_ bytes: JSONBytes) -> Bool {
        guard let list = bytes.member("results", at: bytes.start(0)), list < bytes.text.count, bytes.text[list] == UInt8(ascii: "[") else { return false }
        var at = bytes.start(list + 1)
        while bytes.isObject(at) {
            let end = bytes.end(of: at)
            let next = bytes.start(end)
            // Without a successor, it may have been cut.
            guard end > at, next < bytes.text.count, bytes.text[next] == UInt8(ascii: ",") || bytes.text[next] == UInt8(ascii: "]") else { break }
            places.append(at..<end)
            at = bytes.start(next + 1)
        }
        return true
    }
}
