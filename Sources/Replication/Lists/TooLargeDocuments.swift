import Documents
import DocumentStore
import Environment

/// Documents of a remote that were larger than the settings here allow, with what these allowed then. The checkpoint is past them: where the settings
/// allow more, they are asked for once more, by name.
enum TooLargeDocuments {
    /// `too_large_documents`: as many are remembered of a collection and a remote.
    static let most = 1_000

    /// What settings allow.
    struct Bounds: Sendable, Equatable {
        /// `limits.memory`, of which a document may take a part.
        var memory: Int
        /// `max_document_bytes`.
        var document: Int

        init(memory: Int, document: Int) { (self.memory, self.document) = (memory, document) }

        init(_ memory: MemoryBudget, _ limits: ReplicationLimits) { self.init(memory: memory.limit, document: limits.maximumDocumentBytes) }

        func allowMore(than others: Bounds) -> Bool { memory > others.memory || document > others.document }
    }

    static func note(
        _ id: DocumentID, _ bounds: Bounds, _ remote: RemoteID, _ collection: Collection, _ transaction: WriteTransaction
    ) throws(StoreError) {
        try change(remote, collection, transaction) { if $0[id] != nil || $0.count < most { $0[id] = bounds } }
    }

    /// Those that were noted where less was allowed.
    static func due(
        _ bounds: Bounds, _ remote: RemoteID, _ collection: Collection, _ transaction: ReadTransaction
    ) throws(StoreError) -> [DocumentID] {
        decode(try transaction.localDocument(collection, id: key(remote))?.body).filter { bounds.allowMore(than: $0.value) }.keys.sorted()
    }

    /// They were asked for with these bounds. What was too large once more was noted anew, and stays.
    static func forget(
        _ ids: [DocumentID], askedWith bounds: Bounds, _ remote: RemoteID, _ collection: Collection, _ transaction: WriteTransaction
    ) throws(StoreError) {
        try change(remote, collection, transaction) { noted in
            for id in ids { if let before = noted[id], bounds.allowMore(than: before) { noted[id] = nil } }
        }
    }

    // MARK: - As it is stored

    private static func key(_ remote: RemoteID) -> String { "too-large/\(remote.number)" }

    private static func change(
        _ remote: RemoteID, _ collection: Collection, _ transaction: WriteTransaction, _ body: (inout [DocumentID: Bounds]) -> Void
    ) throws(StoreError) {
        let stored = try transaction.localDocument(collection, id: key(remote))
        let before = decode(stored?.body)
        var after = before
        body(&after)
        guard after != before else { return }
        _ = try transaction.putLocalDocument(
            collection, id: key(remote), body: after.isEmpty ? nil : encode(after), expectedRevision: stored?.revision)
    }

    /// `{"ID": [memory, document]}`
    private static func encode(_ documents: [DocumentID: Bounds]) -> [UInt8] {
        let members = documents.sorted { $0.key < $1.key }.map { id, bounds in
            JSONObject.Member(key: id.text, value: .array([.int(bounds.memory), .int(bounds.document)]))
        }
        return JSONValue.object(JSONObject(members)).serialize()
    }

    private static func decode(_ bytes: [UInt8]?) -> [DocumentID: Bounds] {
        guard let bytes, let object = (try? JSONValue(stored: bytes))?.asObject else { return [:] }
        var documents: [DocumentID: Bounds] = [:]
        for member in object.members {
            guard let numbers = member.value.asArray, numbers.count == 2, let memory = numbers[0].asInt64, let document = numbers[1].asInt64 else { continue }
            documents[DocumentID(stored: member.key)] = Bounds(memory: Int(memory), document: Int(document))
        }
        return documents
    }
}
