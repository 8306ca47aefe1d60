import Documents
import DocumentStore
import HTTPServer
import Replication

/// `_local_docs`: what `_all_docs` is of documents that are never replicated. It lists the user's own, which are those that `_local/ID` reads:
/// nobody learns what checkpoints another keeps.
struct LocalDocumentList: Sendable {
    private let call: CouchCall
    /// With what their ids begin in the store; for clients that is `_local/`.
    private let prefix: String

    private init(_ call: CouchCall) { (self.call, prefix) = (call, LocalRoutes.key(call, "")) }

    static func answer(_ call: CouchCall) async throws -> HTTPResponse {
        var query = call.query
        if call.request.method == "POST" { query = CouchQuery(body: try await call.jsonObject(isOptional: true), over: query) }
        let asked = try AllDocuments(call, query)
        let list = Self(call)
        return .pieces(call.database.blobs, packing: call.packing) { writer in
            try await list.write(asked, &writer)
            try await writer.write("\n")
        }
    }

    /// `_local_docs/queries`: several at once.
    static func queries(_ call: CouchCall) async throws -> HTTPResponse {
        let asked = try await AllDocuments.several(call)
        let list = Self(call)
        return .pieces(call.database.blobs, packing: call.packing) { writer in
            try await writer.write("{\"results\":[")
            for (index, each) in asked.enumerated() {
                if index > 0 { try await writer.write(",\n") }
                try await list.write(each, &writer)
            }
            try await writer.write("]}\n")
        }
    }

    private func write(_ asked: AllDocuments, _ writer: inout PieceWriter) async throws {
        // CouchDB counts them nowhere, and they have no sequences.
        try await writer.write("{\"total_rows\":null,\"offset\":null\(asked.withSequence ? ",\"update_seq\":null" : ""),\"rows\":[")
        if let keys = asked.keys {
            try await write(keys: keys, asked, &writer)
        } else if !asked.isEmpty, mayList {
            try await writeRange(asked, &writer)
        }
        try await writer.write("\n]}")
    }

    /// Who comes without a name shares these documents with all others who do. By a list each could alter the checkpoints of all of them, so that
    /// one is for those only who may alter everything else, too.
    private var mayList: Bool { call.peer.principal.name != nil || call.isUnbounded }

    // MARK: - Rows

    private func writeRange(_ asked: AllDocuments, _ writer: inout PieceWriter) async throws {
        // What begins with the prefix comes before the next byte in place of its slash.
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

    /// As CouchDB has it: keys are counted before those that name no such document go, which have no row.
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

    /// - Returns: false for one that has gone meanwhile.
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

    // MARK: - What is stored

    private func entries(after lower: String, before upper: String, isDescending: Bool) async throws -> [CheckpointEntry] {
        let owner = call.peer.checkpointOwner
        let found = try await reading { transaction in
            try transaction.peerCheckpoints(owner, after: lower, before: upper, isDescending: isDescending, limit: CouchLimits.pageRows)
        }
        return found.compactMap(\.self)
    }

    /// Nil for each that is not there.
    private func entries(_ ids: [String]) async throws -> [CheckpointEntry?] {
        let owner = call.peer.checkpointOwner
        return try await reading { transaction in
            var found: [CheckpointEntry?] = []
            for id in ids { found.append(try transaction.peerCheckpointEntry(owner, id: id)) }
            return found
        }
    }

    /// A page of them, when there is room for it.
    private func reading(_ read: @escaping @Sendable (ReadTransaction) throws -> [CheckpointEntry?]) async throws -> [CheckpointEntry?] {
        // The page before was taken by the client.
        call.answer.hold(0)
        try await call.requireAdmission()
        let most = CouchLimits.pageRows * (StoreLimits.maxLocalIDBytes + Self.bytesPerEntry)
        return try await call.answer.reading(most) { () -> ([CheckpointEntry?], bytes: Int) in
            let found = try await call.database.read(read)
            return (found, Self.bytes(found))
        }
    }

    /// With the room of a list that grew.
    private static let bytesPerEntry = 2 * MemoryLayout<CheckpointEntry?>.stride + 96

    private static func bytes(_ entries: [CheckpointEntry?]) -> Int { entries.reduce(0) { $0 + bytesPerEntry + ($1?.id.utf8.count ?? 0) } }

    private func storedID(_ id: String) -> String { prefix + String(Substring(id.utf8.dropFirst("_local/".utf8.count))) }
    private func shownID(_ entry: CheckpointEntry) -> String { "_local/" + String(Substring(entry.id.utf8.dropFirst(prefix.utf8.count))) }

    /// Those of another collection stand beside the default collection's, with its name before their own.
    private func belongsToOtherCollection(_ entry: CheckpointEntry) -> Bool {
        guard call.collection.name.isDefault else { return false }
        let id = entry.id.utf8.dropFirst(prefix.utf8.count)
        guard let slash = id.firstIndex(of: UInt8(ascii: "/")), let name = try? CollectionName(parsing: Substring(id[..<slash])), !name.isDefault else {
            return false
        }
        return name.description.utf8.elementsEqual(id[..<slash]) && call.database.collection(name) != nil
    }
}
