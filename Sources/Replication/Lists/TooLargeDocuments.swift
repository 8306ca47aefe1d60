import Documents
import DocumentStore
import Environment

/// Documents of a remote that were larger than the limits here allowed, with these limits. The checkpoint is past them: once the limits are higher,
/// they are requested again by id. If there are too many to record their ids, they are found by reading the remote's changes again.
enum TooLargeDocuments {
    /// `too_large_documents`: number of ids recorded for a collection and a remote.
    static let most = 1_000

    /// The limits that the settings impose.
    struct Bounds: Sendable, Equatable {
        /// `limits.memory`, of which a document may take a fraction.
        var memory: Int
        /// `max_document_bytes`.
        var document: Int

        init(memory: Int, document: Int) { (self.memory, self.document) = (memory, document) }

        init(_ memory: MemoryBudget, _ limits: ReplicationLimits) { self.init(memory: memory.limit, document: limits.maximumDocumentBytes) }

        func allowMore(than others: Bounds) -> Bool { memory > others.memory || document > others.document }

        /// Whether a document that was too large for others may be taken, as far as it is known.
        ///
        /// - Parameter needed: the `limits.memory` that it needs; nil if it is not known.
        func mayTake(_ others: Bounds, needed: Int?) -> Bool { allowMore(than: others) && needed ?? 0 <= memory }
    }

    /// Documents beyond ``most``: the limits when they arrived, and from where on the remote's changes include all of them.
    struct Unnamed: Sendable, Equatable {
        var bounds: Bounds
        /// The sequence after which they are; nil: the beginning.
        var since: RemoteSequence?

        /// Number of entries that are kept apart by their limits, which seldom change.
        fileprivate static let most = 8

        /// One entry that covers both.
        fileprivate func with(_ other: Unnamed) -> Unnamed {
            let bounds = Bounds(memory: min(bounds.memory, other.bounds.memory), document: min(bounds.document, other.bounds.document))
            return Unnamed(bounds: bounds, since: Self.earlier(since, other.since))
        }

        /// The earlier of two sequences: a remote restored from a backup continues from an earlier one.
        private static func earlier(_ one: RemoteSequence?, _ other: RemoteSequence?) -> RemoteSequence? {
            if one == other { return one }
            guard let one, let other, let first = place(one), let second = place(other) else { return nil }
            return first <= second ? one : other
        }

        /// The number that a sequence consists of, or that CouchDB's `"12-g1AAAA"` begins with; nil if sequences cannot be compared.
        private static func place(_ sequence: RemoteSequence) -> UInt64? {
            if let number = sequence.integer { return number }
            let parts = sequence.json.dropFirst().split(separator: "-", maxSplits: 1)
            return parts.count == 2 ? UInt64(parts[0]) : nil
        }
    }

    /// What is recorded for a collection and a remote.
    struct Noted: Sendable, Equatable {
        var documents: [DocumentID: Bounds] = [:]
        /// The `limits.memory`, in bytes, with which a document would be taken, as far as it is known.
        var needed: [DocumentID: Int] = [:]
        var unnamed: [Unnamed] = []

        fileprivate mutating func note(_ new: Unnamed) {
            if let known = unnamed.firstIndex(where: { $0.bounds == new.bounds }) {
                unnamed[known] = unnamed[known].with(new)
                return
            }
            if unnamed.count >= Unnamed.most, let first = unnamed.first { unnamed = [unnamed.dropFirst().reduce(first) { $0.with($1) }] }
            unnamed.append(new)
        }
    }

    /// What has to be requested.
    struct Due: Sendable, Equatable {
        var documents: [DocumentID] = []
        /// From where the changes are to be read again, for documents whose ids are not recorded.
        var rereading: Rereading?
    }

    /// The remote's changes are to be read again.
    struct Rereading: Sendable, Equatable {
        /// The sequence after which they are read; nil: all of them.
        var since: RemoteSequence?
    }

    /// - Parameters:
    ///   - needed: the `limits.memory` with which it would be taken.
    ///   - since: a sequence after which the remote's changes include the document.
    static func note(
        _ id: DocumentID, _ bounds: Bounds, needed: Int? = nil, since: RemoteSequence?, _ remote: RemoteID, _ collection: Collection, _ transaction: WriteTransaction
    ) throws(StoreError) {
        try change(remote, collection, transaction) { noted in
            if noted.documents[id] != nil || noted.documents.count < most {
                (noted.documents[id], noted.needed[id]) = (bounds, needed)
            } else {
                noted.note(Unnamed(bounds: bounds, since: since))
            }
        }
    }

    static func noted(_ remote: RemoteID, _ collection: Collection, _ transaction: ReadTransaction) throws(StoreError) -> Noted {
        decode(try transaction.localDocument(collection, id: key(remote))?.body)
    }

    /// Documents noted when less was allowed.
    static func due(
        _ bounds: Bounds, _ remote: RemoteID, _ collection: Collection, _ transaction: ReadTransaction
    ) throws(StoreError) -> Due {
        let noted = try noted(remote, collection, transaction)
        var due = Due(documents: noted.documents.filter { bounds.allowMore(than: $0.value) }.keys.sorted())
        let unnamed = noted.unnamed.filter { bounds.allowMore(than: $0.bounds) }
        if let first = unnamed.first { due.rereading = Rereading(since: unnamed.dropFirst().reduce(first) { $0.with($1) }.since) }
        return due
    }

    /// They were requested with these limits. Those that were too large again were noted again, and stay.
    static func forget(
        _ ids: [DocumentID], askedWith bounds: Bounds, _ remote: RemoteID, _ collection: Collection, _ transaction: WriteTransaction
    ) throws(StoreError) {
        try change(remote, collection, transaction) { noted in
            for id in ids {
                if let before = noted.documents[id], bounds.allowMore(than: before) { (noted.documents[id], noted.needed[id]) = (nil, nil) }
            }
        }
    }

    /// The changes were read again with these limits. As above, documents that were too large again were noted again, and stay.
    static func forgetUnnamed(
        rereadWith bounds: Bounds, _ remote: RemoteID, _ collection: Collection, _ transaction: WriteTransaction
    ) throws(StoreError) {
        try change(remote, collection, transaction) { noted in noted.unnamed.removeAll { bounds.allowMore(than: $0.bounds) } }
    }

    // MARK: - As it is stored

    private static func key(_ remote: RemoteID) -> String { "too-large/\(remote.number)" }

    private static func change(
        _ remote: RemoteID, _ collection: Collection, _ transaction: WriteTransaction, _ body: (inout Noted) -> Void
    ) throws(StoreError) {
        let stored = try transaction.localDocument(collection, id: key(remote))
        let before = decode(stored?.body)
        var after = before
        body(&after)
        guard after != before else { return }
        _ = try transaction.putLocalDocument(
            collection, id: key(remote), body: after == Noted() ? nil : encode(after), expectedRevision: stored?.revision)
    }

    /// `{"ID": [memory, document]}`, or `[memory, document, needed]`, and under the empty id, which no document has, `[[memory, document, since]]` for
    /// documents whose ids are not recorded.
    private static func encode(_ noted: Noted) -> [UInt8] {
        var members = noted.documents.sorted { $0.key < $1.key }.map { id, bounds -> JSONObject.Member in
            var values: [JSONValue] = [.int(bounds.memory), .int(bounds.document)]
            if let needed = noted.needed[id] { values.append(.int(needed)) }
            return JSONObject.Member(key: id.text, value: .array(values))
        }
        if !noted.unnamed.isEmpty {
            let unnamed = noted.unnamed.map { each in
                JSONValue.array([.int(each.bounds.memory), .int(each.bounds.document), each.since.map { .string($0.json) } ?? .null])
            }
            members.append(JSONObject.Member(key: "", value: .array(unnamed)))
        }
        return JSONValue.object(JSONObject(members)).serialize()
    }

    private static func decode(_ bytes: [UInt8]?) -> Noted {
        guard let bytes, let object = (try? JSONValue(stored: bytes))?.asObject else { return Noted() }
        var noted = Noted()
        for member in object.members {
            guard let values = member.value.asArray else { continue }
            if member.key.isEmpty {
                noted.unnamed = values.compactMap { each in
                    guard let parts = each.asArray, parts.count == 3, let bounds = bounds(parts) else { return nil }
                    return Unnamed(bounds: bounds, since: parts[2].asString.map { RemoteSequence(json: $0) })
                }
            } else if let bounds = bounds(values), values.count <= 3 {
                let id = DocumentID(stored: member.key)
                noted.documents[id] = bounds
                noted.needed[id] = values.dropFirst(2).first?.asInt64.map { Int($0) }
            }
        }
        return noted
    }

    private static func bounds(_ numbers: [JSONValue]) -> Bounds? {
        guard numbers.count >= 2, let memory = numbers[0].asInt64, let document = numbers[1].asInt64 else { return nil }
        return Bounds(memory: Int(memory), document: Int(document))
    }
}
