/// A number that orders the changes of one collection. 0 means "before all of them".
public typealias SequenceNumber = UInt64

/// The name of a collection: scope and name, each 1 to 251 of `A-Z a-z 0-9 _ - %`, not starting with `_` or `%`, except for `_default`.
public struct CollectionName: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let scope: String
    public let name: String

    public static let `default` = CollectionName(storedScope: "_default", name: "_default")

    public init(scope: String, name: String) throws(CollectionNameError) {
        try Self.check(scope, whole: scope + "." + name)
        try Self.check(name, whole: scope + "." + name)
        if name == "_default", scope != "_default" {
            // Couchbase has the default collection in the default scope only.
            throw .defaultOutsideDefaultScope(value: quoted((scope + "." + name).utf8))
        }
        self.scope = scope
        self.name = name
    }

    /// Parses `name` (in the default scope) or `scope.name`.
    public init(parsing text: some StringProtocol) throws(CollectionNameError) {
        let parts = text.split(separator: ".", maxSplits: 2, omittingEmptySubsequences: false)
        switch parts.count {
        case 1: try self.init(scope: "_default", name: String(parts[0]))
        case 2: try self.init(scope: String(parts[0]), name: String(parts[1]))
        default: throw .tooManyDots(value: quoted(text.utf8))
        }
    }

    /// A name from our own database, which was checked before.
    public init(storedScope scope: String, name: String) {
        self.scope = scope
        self.name = name
    }

    public var isDefault: Bool { name == "_default" && scope == "_default" }

    /// `scope.name`.
    public var description: String { scope + "." + name }

    /// The name used in messages of the sync protocol: `_default`, or `scope.name`.
    public var wireName: String { isDefault ? "_default" : description }

    // All ASCII, so the order of Strings is the order of bytes.
    public static func < (a: CollectionName, b: CollectionName) -> Bool { (a.scope, a.name) < (b.scope, b.name) }

    private static func check(_ part: String, whole: String) throws(CollectionNameError) {
        let bytes = part.utf8
        guard let first = bytes.first else { throw .empty(value: quoted(whole.utf8)) }
        guard bytes.count <= DocumentLimits.collectionNameBytes else { throw .tooLong(bytes: bytes.count, value: quoted(whole.utf8)) }
        guard part == "_default" || (first != 0x5F && first != 0x25) else { throw .badFirstCharacter(value: quoted(whole.utf8)) }
        for byte in bytes {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x5F, 0x2D, 0x25: continue
            default: throw .badCharacter(byte: byte, value: quoted(whole.utf8))
            }
        }
    }
}

/// The rule that a collection name breaks; `value` is the name, escaped and shortened for a log line.
public enum CollectionNameError: Error, Equatable, Sendable, CustomStringConvertible {
    case empty(value: String)
    case tooLong(bytes: Int, value: String)
    case badFirstCharacter(value: String)
    case badCharacter(byte: UInt8, value: String)
    case tooManyDots(value: String)
    case defaultOutsideDefaultScope(value: String)

    public var description: String {
        switch self {
        case .empty(let value): "the collection name \(value) has an empty part: write NAME or SCOPE.NAME"
        case .tooLong(let bytes, let value):
            "the collection name \(value) has a part of \(bytes) bytes, more than collectionNameBytes = \(DocumentLimits.collectionNameBytes)"
        case .badFirstCharacter(let value): "the collection name \(value) has a part that begins with _ or %, which only _default may"
        case .badCharacter(let byte, let value):
            "the collection name \(value) holds byte 0x\(String(byte, radix: 16)): only A-Z a-z 0-9 _ - % are allowed"
        case .tooManyDots(let value): "the collection name \(value) has more than one dot: write NAME or SCOPE.NAME"
        case .defaultOutsideDefaultScope(let value): "the collection name \(value): _default exists only in the scope _default"
        }
    }
}
