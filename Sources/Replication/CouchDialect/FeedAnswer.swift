import Documents
import Interfaces

/// One answer of `_changes`.
struct FeedAnswer {
    /// What cannot be stored here is a row too, which fails by name.
    var rows: [RowResult<OfferedRow>] = []
    /// Rows as the peer counts them: one for a document.
    var count = 0
    /// Where the feed goes on.
    var last: String
    /// How many rows are behind it, where the peer says so.
    var pending: Int64?

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
            let id: DocumentID
            do { id = try DocumentID(text) } catch {
                rows.append(.bad("\(error)", sequence: sequence))
                continue
            }
            var leaves: [RevisionID] = []
            var problem: String?
            for change in row["changes"]?.asArray ?? [] {
                do { leaves.append(try RevisionID(change["rev"]?.asString ?? "")) } catch { problem = "document \(id) cannot be stored here: \(error)" }
            }
            if leaves.isEmpty, problem == nil { problem = "document \(id): its row of _changes names no revision" }
            // In an order of our own: PouchDB has tombstones of a higher generation before the winner.
            leaves.sort(by: >)
            if let problem { rows.append(.bad(problem, sequence: leaves.isEmpty ? sequence : nil, id: id)) }
            // Then the winner is, and with it every leaf.
            let isDeleted = row["deleted"]?.asBool == true
            // Each leaf has a place of its own; the row is done with its last, and until then the feed goes on behind the row before.
            for (index, leaf) in leaves.enumerated().reversed() {
                let place = index == 0 ? sequence : RemoteSequence(behind: before, index, in: sequence)
                rows.append(.row(OfferedRow(sequence: place, id: id, revision: leaf, isDeletion: isDeleted)))
            }
        }
        if let end = answer["last_seq"].flatMap({ RemoteSequence(feed: $0) }) {
            try end.checkFeed(limits)
            last = end.feedText
        }
    }
}

extension RemoteSequence {
    /// A number, a text, or what BigCouch had: an array.
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

    /// One leaf of several that share a row.
    init(behind before: String, _ index: Int, in row: RemoteSequence) {
        self.init(json: JSONValue.string("\(before)~\(index)~\(row.feedText)").text)
    }

    /// It is of one of several leaves, and not of the greatest.
    var isOfBranch: Bool { json.utf8.contains(UInt8(ascii: "~")) }

    /// As `since` has it.
    var feedText: String {
        guard case .string(let text)? = try? JSONValue(parsing: json) else { return json }
        guard let end = text.utf8.firstIndex(of: UInt8(ascii: "~")) else { return text }
        return String(text[..<end])
    }
}
