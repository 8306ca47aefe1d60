import Documents
import DocumentStore
import HTTPServer
import Replication

/// `_local_docs`: the counterpart of `_all_docs` for documents that are never replicated. It lists only the user's own ones, which are those that
/// `_local/ID` reads: users must not learn of each other's checkpoints.
struct LocalDocumentList: Sendable {
    private let call: CouchCall
    /// What their ids begin with in the store; clients see `_local/` instead.
    private let prefix: String

    private init(_ call: CouchCall) { (self.call, prefix) = (call, LocalRoutes.key(call, "")) }

    static func answer(_ call: CouchCall) async throws -> HTTPResponse {
        var query = call.query
        if call.request.method == "POST" { query = CouchQuery(body: try await call.jsonObject(isOptional: true), over: query) }
        let asked = try AllDocuments(call, query)
        let list = Self(call)
        return .pieces(call.database.blobs, packing: call.packing, keeping: call.answer) { writer in
            try await list.write(asked, &writer)
            try await writer.write("\n")
        }
    }

    /// `_local_docs/queries`: several queries in one request.
    static func queries(_ call: CouchCall) async throws -> HTTPResponse {
        let asked = try await AllDocuments.several(call)
        let list = Self(call)
        return .pieces(call.database.blobs, packing: call.packing, keeping: call.answer) { writer in
            try await writer.write("{\"results\":[")
            for (index, each) in asked.enumerated() {
                if index > 0 { try await writer.write(",\n") }
                try await list.write(each, &writer)
            }
            try await writer.write("]}\n")
        }
    }

    private func write(_ asked: AllDocuments, _ writer: inout PieceWriter) async throws {
        // CouchDB does not count these documents, and they have no sequences.
        try await writer.write("{\"total_rows\":null,\"offset\":null\(asked.withSequence ? ",\"update_seq\":null" : ""),\"rows\":[")
        if let keys = asked.keys {
            try await write(keys: keys, asked, &writer)
        } else if !asked.isEmpty, mayList {
            try await writeRange(asked, &writer)
        }
        try await writer.write("\n]}")
    }

    /// All anonymous clients share these documents. With a list, each could alter the checkpoints of all others, so an anonymous client gets one only
    /// if it may write everything else, too.
    private var mayList: Bool { call.peer.principal.name != nil || call.isUnbounded }

    // MARK: - Rows

    private func writeRange(_ asked: AllDocuments, _ writer: inout PieceWriter) async throws {
        // All ids with the prefix lie between it and the same text with the slash replaced by the next byte.
        var (lower, upper) = (prefix, "\(prefix.dropLast())0")
        var (skip, left) = (asked.skip, asked.limit)
        var isFirst = true
        while left > 0 {
            let page = try await entries(after: lower, before: upper, isDescending: asked.isDescending)
            let held = Self.bytes(page)
            for entry in page where entry.size > 0 && !belongsToOtherCollection(entry) {
                switch asked.place(shownID(entry), after: nil) {
                case .before: continue
                case .behind: return
                case .inside: break
                }
                guard skip == 0 else {
                    skip -= 1
                    continue
                }
                guard left > 0 else { return }
                if try await write(entry, asked, beside: held, &isFirst, &writer) { left -= 1 }
            }
            guard page.count == CouchLimits.pageRows, let last = page.last?.id else { return }
            if asked.isDescending { upper = last } else { lower = last }
        }
    }

    /// As in CouchDB: `skip` and `limit` apply before keys that are not ids of such documents are dropped; these get no row.
    private func write(keys: [JSONValue], _ asked: AllDocuments, _ writer: inout PieceWriter) async throws {
        let inOrder = asked.isDescending ? keys.reversed().map(\.self) : keys
        var rest = inOrder.dropFirst(asked.skip).prefix(asked.limit).filter { $0.asString?.utf8.starts(with: "_local/".utf8) ?? false }[...]
        var isFirst = true
        while !rest.isEmpty {
            let part = rest.prefix(CouchLimits.pageRows)
            let found = try await entries(part.map { storedID($0.asString ?? "") })
            let held = Self.bytes(found)
            for (key, entry) in zip(part, found) {
                if let entry, entry.size > 0, try await write(entry, asked, beside: held, &isFirst, &writer) { continue }
                try await writer.write("\(isFirst ? "" : ",")\n{\"key\":\(key.text),\"error\":\"not_found\"}")
                isFirst = false
            }
            rest = rest.dropFirst(part.count)
        }
    }

    /// - Returns: false if the document was deleted in the meantime.
    private func write(
        _ entry: CheckpointEntry, _ asked: AllDocuments, beside held: Int, _ isFirst: inout Bool, _ writer: inout PieceWriter
    ) async throws -> Bool {
        let id = shownID(entry)
        var revision = entry.revision
        var document: [UInt8]?
        if asked.includesDocuments {
            try await call.requireAdmission()
            guard let stored = try await LocalRoutes.read(call, key: entry.id, beside: held), !LocalRoutes.isDeleted(stored) else { return false }
            (revision, document) = (stored.revision, LocalRoutes.shown(id, stored).bytes)
        }
        let quoted = JSONValue.string(id).text
        try await writer.write("\(isFirst ? "" : ",")\n{\"id\":\(quoted),\"key\":\(quoted),\"value\":{\"rev\":\"\(revision)\"}")
        isFirst = false
        if let document {
            try await writer.write(",\"doc\":")
            try await writer.write([.bytes(document)])
        }
        try await writer.write("}")
        return true
    }

    // MARK: - Reading the store

    private func entries(after lower: String, before upper: String, isDescending: Bool) async throws -> [CheckpointEntry] {
        let owner = call.peer.checkpointOwner
        let found = try await reading { transaction in
            try transaction.peerCheckpoints(owner, after: lower, before: upper, isDescending: isDescending, limit: CouchLimits.pageRows)
        }
        return found.compactMap(\.self)
    }

    /// Nil for each one that does not exist.
    private func entries(_ ids: [String]) async throws -> [CheckpointEntry?] {
        let owner = call.peer.checkpointOwner
        return try await reading { transaction in
            var found: [CheckpointEntry?] = []
            for id in ids { found.append(try transaction.peerCheckpointEntry(owner, id: id)) }
            return found
        }
    }

    /// Reads a page of entries once memory for it is available.
    private func reading(_ read: @escaping @Sendable (ReadTransaction) throws -> [CheckpointEntry?]) async throws -> [CheckpointEntry?] {
        // The client has received the previous page.
        call.answer.hold(0)
        try await call.requireAdmission()
        let most = CouchLimits.pageRows * (StoreLimits.maxLocalIDBytes + Self.bytesPerEntry)
        return try await call.answer.reading(most) { () -> ([CheckpointEntry?], bytes: Int) in
            let found = try await call.database.read(read)
            return (found, Self.bytes(found))
        }
    }

    /// Allows for the spare capacity of an array that grew.
    private static let bytesPerEntry = 2 * MemoryLayout<CheckpointEntry?>.stride + 96

    private static func bytes(_ entries: [CheckpointEntry?]) -> Int { entries.reduce(0) { $0 + bytesPerEntry + ($1?.id.utf8.count ?? 0) } }

    private func storedID(_ id: String) -> String { prefix + String(Substring(id.utf8.dropFirst("_local/".utf8.count))) }
    private func shownID(_ entry: CheckpointEntry) -> String { "_local/" + String(Substring(entry.id.utf8.dropFirst(prefix.utf8.count))) }

    /// The ids of other collections' documents contain the collection's name, and share the default collection's prefix.
    private func belongsToOtherCollection(_ entry: CheckpointEntry) -> Bool {
        guard call.collection.name.isDefault else { return false }
        let id = entry.id.utf8.dropFirst(prefix.utf8.count)
        guard let slash = id.firstIndex(of: UInt8(ascii: "/")), let name = try? CollectionName(parsing: Substring(id[..<slash])), !name.isDefault else {
            return false
        }
        return name.description.utf8.elementsEqual(id[..<slash]) && call.database.collection(name) != nil
    }
}
