import Documents
import NIOCore

/// The entries of an answer to `_bulk_get`, by their position in its text: also those of the beginning of an answer that was too long to be received
/// whole. Each is JSON only once it has been parsed.
struct BulkGetEntries {
    /// The complete ones, in order.
    private(set) var places: [Range<Int>] = []
    /// What follows them and is not complete, or nothing of which is known to follow.
    private(set) var cut: Range<Int>?

    /// Nil if the text does not begin like such an answer.
    init?(_ text: ByteBuffer) {
        let isRead = text.withBytes { bytes in
            guard let list = bytes.member("results", at: bytes.start(0)) else { return false }
            return read(list, bytes)
        }
        guard isRead else { return nil }
    }

    /// The same for an answer with the open revisions of one document: a list without anything around it.
    init?(openRevisions text: ByteBuffer) {
        let isRead = text.withBytes { read($0.start(0), $0) }
        guard isRead else { return nil }
    }

    private mutating func read(_ list: Int, _ bytes: JSONBytes) -> Bool {
        guard list < bytes.text.count, bytes.text[list] == UInt8(ascii: "[") else { return false }
        var at = bytes.start(list + 1)
        while bytes.isObject(at) {
            let end = bytes.end(of: at)
            let next = bytes.start(end)
            // Without a successor, it may have been cut.
            guard end > at, next < bytes.text.count, bytes.text[next] == UInt8(ascii: ",") || bytes.text[next] == UInt8(ascii: "]") else {
                cut = at..<bytes.text.count
                break
            }
            places.append(at..<end)
            at = bytes.start(next + 1)
        }
        return true
    }

    /// The document that an entry is about: what its first document says of itself, or else what the entry says. Nil if neither says anything.
    static func owner(of place: Range<Int>, in text: ByteBuffer) -> String? {
        text.withBytes { bytes in
            func text(_ name: String, at object: Int?) -> String? {
                guard let start = object.flatMap({ bytes.member(name, at: $0) }) else { return nil }
                return (try? JSONValue(parsing: Array(bytes.text[start..<bytes.end(of: start)])))?.asString
            }
            let entry = place.lowerBound
            let first = bytes.member("docs", at: entry).map { bytes.start($0 + 1) } ?? entry
            return text("_id", at: bytes.member("ok", at: first)) ?? text("id", at: entry)
        }
    }
}

extension ByteBuffer {
    fileprivate func withBytes<Result>(_ body: (JSONBytes) -> Result) -> Result {
        withUnsafeReadableBytes { body(JSONBytes(text: $0.bindMemory(to: UInt8.self))) }
    }
}
