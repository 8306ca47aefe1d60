import Glibc

/// Ancestors of a revision, newest first, as one text: `3-cc,2-bb,1-aa,`. A peer may send a thousand, each of a hundred bytes; as values
/// they would take twice the memory, and an allocation each.
public struct RevisionHistory: Sendable, Hashable, Collection, ExpressibleByArrayLiteral, CustomStringConvertible {
    /// Each id with a comma behind it.
    private var text: [UInt8]
    public private(set) var count: Int

    public init() { (text, count) = ([], 0) }

    /// Of ids that were checked before.
    public init(_ ids: some Sequence<RevisionID>) {
        self.init()
        for id in ids {
            text.append(contentsOf: id.text.utf8)
            text.append(Self.comma)
            count += 1
        }
    }

    public init(arrayLiteral ids: RevisionID...) { self.init(ids) }

    /// Reads what a peer sends: ids with commas between, and blanks behind these, which are no part of an id.
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
            // Once and in full: a text that grew would hold up to twice its size.
            if text.isEmpty { text.reserveCapacity(bytes.count + 1) }
            text.append(contentsOf: id)
            text.append(Self.comma)
            count += 1
        }
    }

    private static let comma = UInt8(ascii: ",")

    /// What it holds in memory beside itself.
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
