import Documents

/// The `remotes` column: which revision of the document each remote is known to have.
///
/// A sequence of entries: remote number and length as variable-length integers, then the revision's text. Length 0 means the revision of the row
/// itself, the usual case. Remote number 0 is not a remote: a new row gets the entry (0, 0), whose two bytes the first remote can later overwrite in
/// place, so that marking a document as pushed does not make its row grow. Further entries with number 0 are the revisions in `left`.
struct KnownRemotes {
    struct Entry {
        var remote: Int64
        /// `nil` = the current revision of the row.
        var revision: RevisionID?
    }

    static let none: [UInt8] = [0, 0]

    var entries: [Entry] = []
    /// Revisions that a remote, and we after it, abandoned for a lesser one, latest last.
    private(set) var left: [RevisionID] = []

    init() {}

    /// Throws if the bytes are truncated or contain invalid text.
    init(_ bytes: UnsafeRawBufferPointer) throws(DamagedColumn) {
        var offset = 0
        while offset < bytes.count {
            let remote = try Self.readNumber(bytes, &offset)
            let length = try Self.readNumber(bytes, &offset)
            guard length <= UInt64(bytes.count - offset) else { throw DamagedColumn() }
            var revision: RevisionID?
            if length > 0 {
                let text = bytes[offset..<offset + Int(length)]
                revision = RevisionID(stored: String(decoding: text, as: UTF8.self))
            }
            if remote != 0 {
                entries.append(Entry(remote: Int64(truncatingIfNeeded: remote), revision: revision))
            } else if let revision {
                left.append(revision)
            }
            offset += Int(length)
        }
    }

    func encoded() -> [UInt8] {
        if entries.isEmpty, left.isEmpty { return Self.none }
        var bytes: [UInt8] = []
        for entry in entries {
            Self.append(UInt64(truncatingIfNeeded: entry.remote), to: &bytes)
            if let revision = entry.revision {
                Self.append(UInt64(revision.text.utf8.count), to: &bytes)
                bytes.append(contentsOf: revision.text.utf8)
            } else {
                bytes.append(0)
            }
        }
        for revision in left {
            bytes.append(0)
            Self.append(UInt64(revision.text.utf8.count), to: &bytes)
            bytes.append(contentsOf: revision.text.utf8)
        }
        return bytes
    }

    /// The two or more bytes that mean "this remote has the current revision, and no other remote is known to have any".
    static func current(_ remote: RemoteID) -> [UInt8] {
        var bytes: [UInt8] = []
        append(UInt64(truncatingIfNeeded: remote.number), to: &bytes)
        bytes.append(0)
        return bytes
    }

    func revision(_ remote: RemoteID, current: RevisionID) -> RevisionID? {
        for entry in entries where entry.remote == remote.number { return entry.revision ?? current }
        return nil
    }

    /// Makes "the row's revision" explicit, before the row gets a new one.
    mutating func spellOut(_ current: RevisionID) {
        for index in entries.indices where entries[index].revision == nil { entries[index].revision = current }
    }

    /// The opposite: abbreviates revisions that equal the row's.
    mutating func abbreviate(_ current: RevisionID) {
        for index in entries.indices where entries[index].revision == current { entries[index].revision = nil }
    }

    /// Returns false if there is no room for another remote.
    mutating func set(_ remote: RemoteID, _ revision: RevisionID) -> Bool {
        for index in entries.indices where entries[index].remote == remote.number {
            entries[index].revision = revision
            return true
        }
        guard entries.count < StoreLimits.maxRemotesPerDocument else { return false }
        entries.append(Entry(remote: remote.number, revision: revision))
        return true
    }

    /// It is not known to have any revision.
    mutating func forget(_ remote: RemoteID) { entries.removeAll { $0.remote == remote.number } }

    mutating func leave(_ revision: RevisionID) {
        left.removeAll { $0 == revision }
        left.append(revision)
        left.removeFirst(max(0, left.count - StoreLimits.leftRevisions))
    }

    private static func append(_ number: UInt64, to bytes: inout [UInt8]) {
        var rest = number
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    private static func readNumber(_ bytes: UnsafeRawBufferPointer, _ offset: inout Int) throws(DamagedColumn) -> UInt64 {
        var number: UInt64 = 0
        var shift: UInt64 = 0
        while offset < bytes.count && shift < 63 {
            let byte = bytes[offset]
            offset += 1
            number |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return number }
            shift += 7
        }
        throw DamagedColumn()
    }
}

/// A column whose bytes cannot have been written by us.
struct DamagedColumn: Error {}
