import Glibc

/// Ancestors of a revision, newest first, as one text: `3-cc,2-bb,1-aa,`. A peer may send a thousand of a hundred bytes each; as separate values they
/// would take twice the memory, and an allocation each.
public struct RevisionHistory: Sendable, Hashable, Collection, ExpressibleByArrayLiteral, CustomStringConvertible {
    /// Each id is followed by a comma.
    private var text: [UInt8]
    public private(set) var count: Int

    public init() { (text, count) = ([], 0) }

    /// Creates a history from ids that were checked before.
    public init(_ ids: some Sequence<RevisionID>) {
        self.init()
        for id in ids {
            text.append(contentsOf: id.text.utf8)
            text.append(Self.comma)
            count += 1
        }
    }

    public init(arrayLiteral ids: RevisionID...) { self.init(ids) }

    /// Parses a peer's list: ids separated by commas, which may be followed by spaces.
    public init(parsing bytes: UnsafeRawBufferPointer, limit: Int = DocumentLimits.historyRevisions) throws(RevisionHistoryError) {
        self.init()
        var start = 0
        while start < bytes.count {
            var end = start
            while end < bytes.count, bytes[end] != Self.comma { end += 1 }
            defer { start = end + 1 }
            if end == start { continue }
            guard count < limit else { throw .tooLong(limit: limit) }
            var first = start
            while first < end, bytes[first] == UInt8(ascii: " ") { first += 1 }
            let id = UnsafeRawBufferPointer(rebasing: bytes[first..<end])
            do throws(RevisionIDError) { try RevisionID.check(id) } catch { throw .badID(error) }
            // Reserved once: a growing array would hold up to twice its size.
            if text.isEmpty { text.reserveCapacity(bytes.count + 1) }
            text.append(contentsOf: id)
            text.append(Self.comma)
            count += 1
        }
    }

    /// Whether the generations fall, from that of the revision on. One that does not descends from nothing, whichever of its ids is known.
    public func descends(from revision: RevisionID) -> Bool {
        var last = revision.generation
        for id in self {
            guard id.generation < last else { return false }
            last = id.generation
        }
        return true
    }

    private static let comma = UInt8(ascii: ",")

    /// Memory it holds beyond the value itself, in bytes.
    public var heldBytes: Int { text.capacity > 0 ? text.capacity + 32 : 0 }

    // MARK: Collection

    public var startIndex: Int { 0 }
    public var endIndex: Int { text.count }
    public func index(after index: Int) -> Int { end(of: index) + 1 }

    public subscript(index: Int) -> RevisionID {
        text.withUnsafeBytes { RevisionID(checked: UnsafeRawBufferPointer(rebasing: $0[index..<end(of: index)])) }
    }

    private func end(of index: Int) -> Int {
        text.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress, let comma = memchr(base + index, Int32(Self.comma), bytes.count - index) else { return bytes.count }
            return UnsafeRawPointer(comma) - base
        }
    }

    public var description: String { String(decoding: text.dropLast(), as: UTF8.self) }
}

/// Why the history of a revision is refused.
public enum RevisionHistoryError: Error, Equatable, Sendable {
    case tooLong(limit: Int)
    case badID(RevisionIDError)
}
