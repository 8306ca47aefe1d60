// Stands in for FoundationEssentials in the program that goes into a package, of which it would be a seventh.
//
// Of all of it only swift-argument-parser uses something: the protocol that it asks errors about, of which no error here is one, and the
// encoder of its hidden option --experimental-dump-help. build-release links this beforehand, so that the library itself is not taken, and
// looks afterwards whether that is so.

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

    // Nothing of this class may be called: its layout is not that of the other.
    public init() { fatalError("the program of a package does not dump its help: one that was built with swift build does") }
}

extension String {
    public struct Encoding: Sendable {
        public let rawValue: UInt
        public static let utf8 = Encoding(rawValue: 4)
    }

    public init?(data: __shared Data, encoding: Encoding) { return nil }
}
