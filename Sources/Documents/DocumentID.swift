/// The identifier of a document in its collection: 1 to 240 bytes of UTF-8, not starting with `_`, without control characters (replication.md section
/// 7). Compared, ordered and hashed as bytes, never after Unicode normalisation.
public struct DocumentID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let text: String

    /// Checks the text. The error says which rule it breaks.
    public init(_ text: String) throws(DocumentIDError) {
        var owned = text
        owned.makeContiguousUTF8()
        if let problem = owned.withBytes({ Self.problem($0) }) { throw problem }
        self.text = owned
    }

    /// Checks the bytes, including that they are valid UTF-8.
    public init(utf8 bytes: some Collection<UInt8>) throws(DocumentIDError) {
        let problem = bytes.withContiguousStorageIfAvailable { Self.problem($0) } ?? Array(bytes).withUnsafeBufferPointer { Self.problem($0) }
        if let problem { throw problem }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw .notUTF8(value: quoted(bytes)) }
        self.text = text
    }

    /// An id from our own database, which was checked before.
    public init(stored text: String) { self.text = text }

    public var description: String { text }

    public static func == (a: DocumentID, b: DocumentID) -> Bool { a.text.sameBytes(as: b.text) }

    public static func < (a: DocumentID, b: DocumentID) -> Bool { a.text.precedesBytes(of: b.text) }

    public func hash(into hasher: inout Hasher) {
        text.withBytes { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        hasher.combine(UInt8(0xFF))
    }

    private static func problem(_ bytes: UnsafeBufferPointer<UInt8>) -> DocumentIDError? {
        guard bytes.count > 0 else { return .empty }
        guard bytes.count <= DocumentLimits.documentIDBytes else { return .tooLong(bytes: bytes.count, value: quoted(bytes)) }
        guard bytes[0] != 0x5F else { return .leadingUnderscore(value: quoted(bytes)) }
        for offset in 0..<bytes.count where bytes[offset] < 0x20 || bytes[offset] == 0x7F {
            return .controlCharacter(byte: bytes[offset], offset: offset, value: quoted(bytes))
        }
        return nil
    }
}

/// The rule that a document id breaks; `value` is the id, escaped and shortened for a log line.
public enum DocumentIDError: Error, Equatable, Sendable, CustomStringConvertible {
    case empty
    case tooLong(bytes: Int, value: String)
    case leadingUnderscore(value: String)
    case controlCharacter(byte: UInt8, offset: Int, value: String)
    case notUTF8(value: String)

    public var description: String {
        switch self {
        case .empty: "the document id is empty: it must have 1 to \(DocumentLimits.documentIDBytes) bytes"
        case .tooLong(let bytes, let value):
            "the document id \(value) has \(bytes) bytes, and \(DocumentLimits.documentIDBytes) are allowed (document_id_bytes)"
        case .leadingUnderscore(let value): "the document id \(value) begins with _, which is reserved"
        case .controlCharacter(let byte, let offset, let value):
            "the document id \(value) holds the control character 0x\(String(byte, radix: 16)) at byte \(offset)"
        case .notUTF8(let value): "the document id \(value) is not UTF-8"
        }
    }
}
