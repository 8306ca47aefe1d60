// Replaces FoundationEssentials in packaged programs, where it would be a seventh of the size.
//
// Only swift-argument-parser uses any of it: the protocol that it checks errors against, to which no error here conforms, and the encoder
// of its hidden option --experimental-dump-help. build-release links this first, so that the library itself is not pulled in, and
// afterwards checks that it was not.

public protocol LocalizedError: Error {
    var errorDescription: String? { get }
    var failureReason: String? { get }
    var recoverySuggestion: String? { get }
    var helpAnchor: String? { get }
}

public struct Data: Sendable {}

open class JSONEncoder {
    public struct OutputFormatting: OptionSet, Sendable {
        public let rawValue: UInt
        public init(rawValue: UInt) { self.rawValue = rawValue }
        public static let prettyPrinted = OutputFormatting(rawValue: 1)
        public static let sortedKeys = OutputFormatting(rawValue: 2)
    }

    // Nothing in this class may be called: its layout differs from the real one.
    public init() { fatalError("the program of a package does not dump its help: one that was built with swift build does") }
}

extension String {
    public struct Encoding: Sendable {
        public let rawValue: UInt
        public static let utf8 = Encoding(rawValue: 4)
    }

    public init?(data: __shared Data, encoding: Encoding) { return nil }
}
