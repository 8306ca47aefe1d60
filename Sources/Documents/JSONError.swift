/// Why a text is not acceptable JSON, and where.
public struct JSONError: Error, Equatable, Sendable, CustomStringConvertible {
    public enum Kind: UInt8, Error, Sendable {
        case unexpectedEnd, unexpectedCharacter, expectedKey, expectedColon, expectedCommaOrEnd
        case badNumber, badLiteral, badEscape, loneSurrogate, controlCharacter, badUTF8
        case tooDeep, tooLarge, rootNotObject, trailingText, duplicateKey
    }

    public let kind: Kind
    /// Of the offending byte, from 0.
    public let offset: Int
    /// From 1.
    public let line: Int
    /// In bytes, from 1.
    public let column: Int
    /// The key that appears twice, escaped and cut for a log line; nil for other kinds.
    public let key: String?

    init(_ kind: Kind, offset: Int, in bytes: UnsafeRawBufferPointer, key: String? = nil) {
        self.kind = kind
        self.key = key
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
        "line \(line), column \(column) (byte \(offset)): \(problem)"
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
        case .tooDeep: "arrays and objects are nested deeper than depth = \(JSONLimits.depth)"
        case .tooLarge: "the text is larger than textBytes = \(JSONLimits.textBytes)"
        case .rootNotObject: "a document's body must be a JSON object"
        case .duplicateKey: "the key \(key ?? "") appears twice in one object; readers differ in which of the two counts"
        case .trailingText: "nothing may follow the JSON value"
        }
    }
}
