import Documents
import Encodings
import NIOCore

/// The document of a single-document answer, split by its bytes: parsed into values in addition to its text, a document of several megabytes would
/// need more than `limits.memory` leaves for it.
struct LargeDocument {
    /// The protocol members.
    private(set) var head = JSONObject()
    /// All other members, as an object.
    private(set) var content = ByteBuffer()

    /// Nil if the answer is not one of `_bulk_get` or `open_revs` with one document, or not JSON: parsing it into values yields the proper error.
    init?(_ answer: ByteBuffer) {
        let isRead = answer.withUnsafeReadableBytes { raw -> Bool in
            guard (try? JSONScanner.checkValue(raw)) != nil else { return false }
            return read(JSONBytes(text: raw.bindMemory(to: UInt8.self)))
        }
        guard isRead else { return nil }
    }

    /// The body of a stored document. Nil if it is not an object.
    init?(held body: [UInt8]) {
        let isRead = body.withUnsafeBytes { raw -> Bool in
            guard (try? JSONScanner.checkValue(raw)) != nil else { return false }
            let bytes = JSONBytes(text: raw.bindMemory(to: UInt8.self))
            let start = bytes.start(0)
            if bytes.isObject(start) { take(start, bytes) }
            return bytes.isObject(start)
        }
        guard isRead else { return nil }
    }

    private mutating func read(_ bytes: JSONBytes) -> Bool {
        let root = bytes.start(0)
        let results = bytes.member("results", at: root).flatMap { bytes.onlyElement(at: $0) }
        let list = results.flatMap { bytes.member("docs", at: $0) } ?? root
        guard let found = bytes.onlyElement(at: list), let document = bytes.member("ok", at: found), bytes.isObject(document) else { return false }
        take(document, bytes)
        return true
    }

    private mutating func take(_ document: Int, _ bytes: JSONBytes) {
        content = ByteBufferAllocator().buffer(capacity: bytes.end(of: document) - document)
        content.writeInteger(UInt8(ascii: "{"))
        bytes.forEachMember(at: document) { key, value in
            if let name = bytes.reservedKey(key), FoundDocument.protocolKeys.contains(name) {
                head[name] = try? JSONValue(stored: Array(bytes.text[value]))
                return
            }
            if content.readableBytes > 1 { content.writeInteger(UInt8(ascii: ",")) }
            content.writeBytes(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(bytes.text)[key]))
            content.writeInteger(UInt8(ascii: ":"))
            content.writeBytes(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(bytes.text)[value]))
        }
        content.writeInteger(UInt8(ascii: "}"))
    }
}
