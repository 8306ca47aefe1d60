import Documents
import Encodings
import Interfaces

/// One document in an answer of `_changes`. Its rows are created only when they are needed: they take many times the memory of its leaves.
struct FeedEntry: Sendable {
    /// Nil for a document that cannot be stored here: it fails.
    var id: DocumentID?
    /// The name under which such a document is listed.
    var name: DocumentID?
    var sequence: RemoteSequence
    /// The sequence of the previous row.
    var before: String
    /// Greatest first.
    var leaves: [RevisionID] = []
    var isDeleted = false
    /// Why it cannot be accepted as it is.
    var problem: String?

    var rows: [RowResult<OfferedRow>] {
        var rows: [RowResult<OfferedRow>] = []
        if let problem { rows.append(.bad(problem, sequence: leaves.isEmpty ? sequence : nil, id: id ?? name, isGone: id == nil && isDeleted)) }
        guard let id else { return rows }
        // Each leaf has a sequence of its own; the row is complete with its last leaf, and until then the feed resumes after the previous row.
        for (index, leaf) in leaves.enumerated().reversed() {
            let place = index == 0 ? sequence : RemoteSequence(behind: before, index, in: sequence)
            rows.append(.row(OfferedRow(sequence: place, id: id, revision: leaf, isDeletion: isDeleted)))
        }
        return rows
    }

    /// Memory it holds, in bytes.
    var bytes: Int {
        MemoryLayout<Self>.stride + ((id ?? name).map { HeldBytes.text($0.text) } ?? 0) + sequence.heldBytes + HeldBytes.text(before)
            + leaves.reduce(0) { $0 + MemoryLayout<RevisionID>.stride + HeldBytes.text($1.text) }
    }

    /// Memory of its rows, in bytes.
    var rowBytes: Int {
        guard let first = leaves.first else { return HeldBytes.row + sequence.heldBytes }
        // All but one have a sequence of their own, composed of two.
        return leaves.count * (HeldBytes.row + HeldBytes.text(first.text)) + leaves.count * sequence.heldBytes + (leaves.count - 1) * HeldBytes.text(before)
    }
}

/// One answer of `_changes`.
struct FeedAnswer: Sendable {
    /// Includes documents that cannot be stored here, which fail by name.
    var entries: [FeedEntry] = []
    /// Rows as counted by the peer: one per document.
    var count = 0
    /// Where the feed continues.
    var last: String
    /// How many rows follow it, if the peer says so.
    var pending: Int64?

    /// The same without the leaves of documents whose rows would take more memory than this, in bytes.
    func refusing(above bytes: Int = -1) -> Self {
        var answer = self
        for index in answer.entries.indices where entries[index].rowBytes > bytes {
            answer.entries[index].leaves = []
            if let id = answer.entries[index].id { answer.entries[index].problem = Self.tooManyLeaves(id, "more leaves than can be read") }
        }
        return answer
    }

    /// Memory it holds, in bytes.
    var bytes: Int { entries.reduce(0) { $0 + $1.bytes } }

    /// Whether it has the same documents with the same leaves. A cluster may have several names for one position of its feed.
    func isSame(as other: Self) -> Bool { entries.map(\.id) == other.entries.map(\.id) && entries.map(\.leaves) == other.entries.map(\.leaves) }

    private static func tooManyLeaves(_ id: DocumentID, _ what: String) -> String {
        "document \(id) has \(what) at the peer, couch_leaves is \(CouchBounds.leaves): delete or purge there what its conflicts left; it comes when it changes"
    }

    init(_ answer: JSONValue, since: String, limits: ReplicationLimits) throws(ReplicationError) {
        guard let results = answer["results"]?.asArray else {
            throw ReplicationError(domain: .http, code: 502, message: "_changes has no results; does CouchDB answer there?")
        }
        last = since
        count = results.count
        pending = answer["pending"]?.asInt64
        for row in results {
            guard let sequence = row["seq"].flatMap({ RemoteSequence(feed: $0) }), let text = row["id"]?.asString else {
                throw ReplicationError(domain: .http, code: 502, message: "a row of _changes has no seq or no id")
            }
            try sequence.checkFeed(limits)
            let before = last
            last = sequence.feedText
            // Design documents are the peer's own programs.
            if text.utf8.starts(with: "_design/".utf8) || text.utf8.starts(with: "_local/".utf8) { continue }
            var entry = FeedEntry(sequence: sequence, before: before)
            do { entry.id = try DocumentID(text) } catch {
                (entry.name, entry.problem, entry.isDeleted) = (NotTakenDocuments.name(of: text), "\(error)", row["deleted"]?.asBool == true)
            }
            if let id = entry.id { Self.read(row, id, &entry) }
            entries.append(entry)
        }
        if let end = answer["last_seq"].flatMap({ RemoteSequence(feed: $0) }) {
            try end.checkFeed(limits)
            last = end.feedText
        }
    }

    private static func read(_ row: JSONValue, _ id: DocumentID, _ entry: inout FeedEntry) {
        let changes = row["changes"]?.asArray ?? []
        // The winner is deleted then, and therefore every leaf.
        entry.isDeleted = row["deleted"]?.asBool == true
        guard changes.count <= CouchBounds.leaves else {
            entry.problem = tooManyLeaves(id, Plural.count(changes.count, "leaf", "leaves"))
            return
        }
        for change in changes {
            do { entry.leaves.append(try RevisionID(change["rev"]?.asString ?? "")) } catch { entry.problem = "document \(id) cannot be stored here: \(error)" }
        }
        if entry.leaves.isEmpty, entry.problem == nil { entry.problem = "document \(id): its row of _changes names no revision" }
        // In our own order: PouchDB lists tombstones of a higher generation before the winner.
        entry.leaves.sort(by: >)
    }
}

extension RemoteSequence {
    /// A number, a string, or an array as in BigCouch.
    init?(feed value: JSONValue) {
        switch value {
        case .number, .string: self.init(json: value.text)
        case .array: self.init(json: JSONValue.string(value.text).text)
        default: return nil
        }
    }

    fileprivate func checkFeed(_ limits: ReplicationLimits) throws(ReplicationError) {
        do throws(MessageError) { try check(limits) } catch {
            throw ReplicationError(error)
        }
    }

    /// The sequence of one of several leaves that share a row.
    init(behind before: String, _ index: Int, in row: RemoteSequence) {
        self.init(json: JSONValue.string("\(before)~\(index)~\(row.feedText)").text)
    }

    /// It belongs to one of several leaves, and not to the greatest.
    var isOfBranch: Bool { json.utf8.contains(UInt8(ascii: "~")) }

    /// The form used for `since`.
    var feedText: String {
        guard case .string(let text)? = try? JSONValue(parsing: json) else { return json }
        guard let end = text.utf8.firstIndex(of: UInt8(ascii: "~")) else { return text }
        return String(text[..<end])
    }
}
