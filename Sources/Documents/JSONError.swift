/// Why a text is not acceptable JSON, and the position of the error.
public struct JSONError: Error, Equatable, Sendable, CustomStringConvertible {
    public enum Kind: UInt8, Error, Sendable {
        case unexpectedEnd, unexpectedCharacter, expectedKey, expectedColon, expectedCommaOrEnd
        case badNumber, badLiteral, badEscape, loneSurrogate, controlCharacter, badUTF8
        case tooDeep, tooLarge, rootNotObject, trailingText, duplicateKey
        case notFinite, emptyKey, nulInKey, tooManyKeys
    }

    public let kind: Kind
    /// Offset of the offending byte, starting at 0.
    public let offset: Int
    /// Starting at 1.
    public let line: Int
    /// In bytes, starting at 1.
    public let column: Int
    /// The key that appears twice, escaped and shortened for a log line; nil for other kinds.
    public let key: String?
    /// JSON pointer (RFC 6901), escaped and shortened for a log line, to the value in question, or to the object whose key it is; nil if the position
    /// in the text is sufficient.
    public let path: String?

    init(_ kind: Kind, offset: Int, in bytes: UnsafeRawBufferPointer, key: String? = nil) {
        self.kind = kind
        self.key = key
        switch kind {
        case .tooDeep, .notFinite, .duplicateKey, .emptyKey, .nulInKey: path = JSONPlace.pointer(to: offset, in: bytes)
        default: path = nil
        }
        self.offset = offset
        var line = 1
        var lineStart = 0
        if kind != .tooLarge {
            for index in 0..<min(offset, bytes.count) where bytes[index] == 0x0A {
                line += 1
                lineStart = index + 1
            }
        }
        self.line = line
        column = offset - lineStart + 1
    }

    public var description: String {
        let place = path.map { $0.isEmpty ? "at the top level, " : "at \($0), " } ?? ""
        return "\(place)line \(line), column \(column) (byte \(offset)): \(problem)"
    }

    private var problem: String {
        switch kind {
        case .unexpectedEnd: "the JSON text ends too early"
        case .unexpectedCharacter: "a JSON value was expected here"
        case .expectedKey: "a key in double quotes was expected here"
        case .expectedColon: "\":\" was expected after the key"
        case .expectedCommaOrEnd: "\",\" or the closing bracket was expected here"
        case .badNumber: "this is not a JSON number"
        case .badLiteral: "only true, false and null are words of JSON"
        case .badEscape: "this is not an escape of JSON"
        case .loneSurrogate: "this \\u escape is half of a surrogate pair"
        case .controlCharacter: "a control character in a string must be escaped"
        case .badUTF8: "the string is not UTF-8"
        case .tooManyKeys: "there are more keys here, in this object and those around it, than openKeys = \(JSONLimits.openKeys)"
        case .tooDeep: "arrays and objects are nested deeper than depth = \(JSONLimits.depth)"
        case .notFinite: "the number is beyond what a double can hold; Couchbase peers cannot store it"
        case .emptyKey: "an empty key, which Couchbase peers cannot store; unusual_keys of the database allows it"
        case .nulInKey: "a key with a NUL character, which Couchbase peers cannot store; unusual_keys of the database allows it"
        case .tooLarge: "the text is larger than textBytes = \(JSONLimits.textBytes)"
        case .rootNotObject: "a document's body must be a JSON object"
        case .duplicateKey: "the key \(key ?? "") appears twice in one object; readers differ in which of the two counts"
        case .trailingText: "nothing may follow the JSON value"
        }
    }
}
