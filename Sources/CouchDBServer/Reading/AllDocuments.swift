import Documents
import DocumentStore
import HTTPServer
import Interfaces
import Replication

/// `_all_docs`: the documents, ordered by id.
///
/// The store has no such order: a pass over the collection finds the next ids, as many at once as memory allows.
struct AllDocuments: Sendable {
    let call: CouchCall
    var keys: [JSONValue]?
    private var start: String?
    private var end: String?
    private var includesEnd = true
    var isDescending = false
    /// The range contains no ids.
    var isEmpty = false
    var limit = Int.max
    var skip = 0
    var includesDocuments = false
    private(set) var withSequence = false
    private var form = DocumentForm()

    init(_ call: CouchCall, _ query: CouchQuery) throws {
        self.call = call
        includesDocuments = try query.flag("include_docs")
        withSequence = try query.flag("update_seq")
        isDescending = try query.flag("descending")
        includesEnd = try query.flag("inclusive_end", default: true)
        limit = try query.number("limit") ?? .max
        skip = try query.number("skip") ?? 0
        form = try DocumentRoutes.form(query)
        if let list = try query.json("keys") {
            guard let items = list.asArray else { throw CouchError.badRequest("`keys` parameter must be an array.") }
            keys = items
        }
        if call.request.method == "POST", keys != nil, ["key", "startkey", "start_key", "endkey", "end_key"].contains(where: { query.text($0) != nil }) {
            throw CouchError.query("`keys` is incompatible with `key`, `start_key` and `end_key`")
        }
        if let key = try query.json("key") {
            guard let text = key.asString else {
                isEmpty = true
                return
            }
            (start, end, includesEnd) = (text, text, true)
            return
        }
        // Other values sort before or after all strings.
        let first = try query.json("startkey") ?? query.json("start_key")
        switch first {
        case nil: break
        case .string(let text)?: start = text
        case .array?, .object?: isEmpty = !isDescending
        default: isEmpty = isDescending
        }
        let last = try query.json("endkey") ?? query.json("end_key")
        switch last {
        case nil: break
        case .string(let text)?: end = text
        case .array?, .object?: isEmpty = isEmpty || isDescending
        default: isEmpty = isEmpty || !isDescending
        }
    }

    /// Whether the range contains only design documents, which many clients list this way.
    var coversOnlyDesigns: Bool {
        if let keys { return !keys.isEmpty && keys.allSatisfy { DesignDocumentList.isID($0) } }
        guard let start, let end else { return false }
        return [start, end].allSatisfy { $0.utf8.starts(with: "_design".utf8) }
    }

    // MARK: - Answers

    static func answer(_ call: CouchCall) async throws -> HTTPResponse {
        var query = call.query
        if call.request.method == "POST" { query = CouchQuery(body: try await call.jsonObject(), over: query) }
        let asked = try Self(call, query)
        if asked.coversOnlyDesigns { return try await DesignDocumentList.answer(call, asked) }
        try await DocumentReading(call: call).prepare()
        return .pieces(call.database.blobs, packing: call.packing, keeping: call.answer) { writer in
            try await asked.write(&writer)
            try await writer.write("\n")
        }
    }

    /// `_all_docs/queries`: several requests in one.
    static func queries(_ call: CouchCall) async throws -> HTTPResponse {
        let all = try await several(call)
        try await DocumentReading(call: call).prepare()
        let designs = all.contains(where: \.coversOnlyDesigns) ? try await DesignDocumentList(call) : nil
        return .pieces(call.database.blobs, packing: call.packing, keeping: call.answer) { writer in
            try await writer.write("{\"results\":[")
            for (index, query) in all.enumerated() {
                if index > 0 { try await writer.write(",\n") }
                if query.coversOnlyDesigns, let designs { try await designs.write(query, &writer) } else { try await query.write(&writer) }
            }
            try await writer.write("]}\n")
        }
    }

    /// The parameters of each of the body's `queries`.
    static func several(_ call: CouchCall) async throws -> [Self] {
        guard let list = try await call.jsonObject()["queries"]?.asArray else { throw CouchError.badRequest("`queries` member must be an array.") }
        guard list.count <= CouchLimits.queries else {
            throw CouchError.badRequest("the request has more queries than couchdb_queries (\(CouchLimits.queries)) allows")
        }
        return try list.map { item in
            guard let object = item.asObject else { throw CouchError.badRequest("a query must be a JSON object") }
            return try Self(call, CouchQuery(body: object, over: CouchQuery(pairs: [])))
        }
    }

    private func write(_ writer: inout PieceWriter) async throws {
        if keys != nil { return try await writeKeys(&writer) }
        var output = Output(left: limit, skip: skip)
        var after: String?
        repeat {
            let page = try await ids(after: after, isFirst: after == nil)
            let held = Self.bytes(page.rows)
            call.answer.hold(held)
            if after == nil { try await begin(page, &writer) }
            var rest = page.rows[...]
            while !rest.isEmpty, output.left > 0 {
                let taken = try await write(rest, beside: held, &output, &writer)
                rest = rest.dropFirst(taken)
            }
            after = page.isWhole ? nil : page.rows.last?.id.text
        } while after != nil && output.left > 0
        try await end(output, &writer)
    }

    /// A document that the filter failed on has no row, because clients expect a revision in each. A warning at the end says that one is missing.
    private func end(_ output: Output, _ writer: inout PieceWriter) async throws {
        let warning = output.failure.map { ",\"warning\":\(JSONValue.string(DocumentReading.warning($0)).text)" } ?? ""
        try await writer.write("\n]\(warning)}")
    }

    private struct Output {
        var left: Int
        var skip: Int
        var isFirst = true
        /// Why a document was left out.
        var failure: PolicyFailure?
    }

    private func begin(_ page: Page, _ writer: inout PieceWriter) async throws {
        // A client must not learn how many documents are hidden from it.
        let isWhole = call.peer.pushFilter == nil
        try await writer.write("{\"total_rows\":\(isWhole ? "\(page.total)" : "null"),\"offset\":\(isWhole ? "\(min(page.before + skip, page.total))" : "null")")
        if withSequence {
            let collection = call.collection
            try await writer.write(",\"update_seq\":\(try await call.database.read { try $0.lastSequence(collection) })")
        }
        try await writer.write(",\"rows\":[")
    }

    /// - Parameter held: bytes of all rows in the page.
    /// - Returns: how many rows were processed.
    private func write(_ rows: ArraySlice<Row>, beside held: Int, _ output: inout Output, _ writer: inout PieceWriter) async throws -> Int {
        guard includesDocuments || call.peer.pushFilter != nil else {
            let shown = rows.dropFirst(output.skip).prefix(output.left)
            output.skip -= min(output.skip, rows.count)
            for row in shown { try await write(row.id, row.revision, nil, &output, &writer) }
            return rows.count
        }
        let page = try await reading.page(
            rows.prefix(CouchLimits.pageRows).map { DocumentReading.Question(id: $0.id) }[...], withTrees: includesDocuments && form.needsTree, beside: held)
        for document in page {
            output.failure = output.failure ?? document.failure
            guard let found = document.revisions.first, !found.isDeleted else { continue }
            guard output.skip == 0 else {
                output.skip -= 1
                continue
            }
            guard output.left > 0 else { break }
            try await write(found.id, found.revision, includesDocuments ? found : nil, &output, &writer)
        }
        return page.count
    }

    private func write(
        _ id: DocumentID, _ revision: RevisionID, _ found: FoundRevision?, _ output: inout Output, _ writer: inout PieceWriter
    ) async throws {
        let quoted = JSONValue.string(id.text).text
        try await writer.write("\(output.isFirst ? "" : ",")\n{\"id\":\(quoted),\"key\":\(quoted),\"value\":{\"rev\":\"\(revision.text)\"")
        try await writer.write(found?.isDeleted == true ? ",\"deleted\":true}" : "}")
        if let found, !found.isDeleted {
            try await writer.write(",\"doc\":")
            try await writer.write(DocumentText.ofRow(found, form, call.database.blobs).pieces)
        } else if found != nil, includesDocuments {
            try await writer.write(",\"doc\":null")
        }
        try await writer.write("}")
        output.isFirst = false
        output.left -= 1
    }

    /// The named documents, in the order given; missing documents have a row too.
    private func writeKeys(_ writer: inout PieceWriter) async throws {
        let all = keys ?? []
        let wanted = (isDescending ? all.reversed().map(\.self) : all).dropFirst(skip).prefix(limit)
        let statistics = try await call.database.statistics().first { $0.name == call.collection.name }
        let isBound = call.peer.channelPeer != nil || call.peer.pushFilter != nil
        try await writer.write("{\"total_rows\":\(isBound ? "null" : "\(statistics?.documents ?? 0)"),\"offset\":null,\"rows\":[")
        var output = Output(left: .max, skip: 0)
        var rest = wanted[...]
        while let key = rest.first {
            let run = rest.prefix(CouchLimits.pageRows).prefix { $0.asString.flatMap { try? DocumentID($0) } != nil }
            guard !run.isEmpty else {
                try await missing(key, &output, &writer)
                rest = rest.dropFirst()
                continue
            }
            let questions = run.compactMap { $0.asString.flatMap { try? DocumentID($0) }.map { DocumentReading.Question(id: $0) } }
            let page = try await reading.page(questions[...], withTrees: includesDocuments && form.needsTree)
            for (document, key) in zip(page, run) {
                output.failure = output.failure ?? document.failure
                if let found = document.revisions.first {
                    // Deleted documents are reported in any case.
                    var shown = found
                    if !includesDocuments { shown.body = Array("{}".utf8) }
                    try await write(found.id, found.revision, includesDocuments || found.isDeleted ? shown : nil, &output, &writer)
                } else {
                    let error = document.isDamaged ? "internal_server_error" : document.failure == nil ? "not_found" : "held"
                    try await missing(key, &output, &writer, error: error)
                }
            }
            rest = rest.dropFirst(page.count)
        }
        try await end(output, &writer)
    }

    private var reading: DocumentReading { DocumentReading(call: call, omitsFailures: true) }

    private func missing(_ key: JSONValue, _ output: inout Output, _ writer: inout PieceWriter, error: String = "not_found") async throws {
        try await writer.write("\(output.isFirst ? "" : ",")\n{\"key\":\(key.text),\"error\":\"\(error)\"}")
        output.isFirst = false
    }

    // MARK: - Ordering by id

    private struct Row: Sendable {
        var id: DocumentID
        var revision: RevisionID
    }

    private struct Page: Sendable {
        /// In the requested order.
        var rows: [Row] = []
        /// Whether no rows come after these.
        var isWhole = true
        /// How many documents are visible to the client, and how many of them come before the range.
        var total = 0
        var before = 0
    }

    /// The next ids of the range, found by one pass over the collection.
    private func ids(after: String?, isFirst: Bool) async throws -> Page {
        var page = Page()
        if isEmpty { return page }
        let (needed, isOver) = limit.addingReportingOverflow(skip)
        let isJudged = call.peer.pushFilter != nil
        let room = isOver || isJudged ? CouchLimits.idsAtOnce : min(needed, CouchLimits.idsAtOnce)
        var since: SequenceNumber = 0
        var kept: [Row] = []
        // The client has received the previous page.
        call.answer.hold(0)
        while true {
            let held = Self.bytes(kept)
            let most = Self.rowsPerRead * Self.bytesPerRow
            let (rows, last) = try await call.answer.reading(most, orFew: true) { bytes -> (([Row], SequenceNumber?), bytes: Int) in
                let found = try await visible(since: since, limit: bytes / Self.bytesPerRow)
                return (found, held + Self.bytes(found.0))
            }
            guard let last else { break }
            since = last
            for row in rows {
                page.total += 1
                switch place(row.id.text, after: after) {
                case .before: page.before += 1
                case .inside: kept.append(row)
                case .behind: continue
                }
            }
            // Occasionally drops ids that can no longer be among the first.
            if kept.count >= 2 * room + CouchLimits.pageRows {
                sort(&kept)
                kept.removeSubrange(room...)
                page.isWhole = false
            }
        }
        sort(&kept)
        if kept.count > room {
            kept.removeSubrange(room...)
            page.isWhole = false
        }
        page.rows = kept
        return page
    }

    /// How many rows are read in one go, keeping the id and revision of those needed.
    private static let rowsPerRead = 2_000
    private static let bytesPerRow = 256

    /// The memory for these rows, including unused capacity of a list that has grown: ids have up to 240 bytes.
    private static func bytes(_ rows: [Row]) -> Int {
        rows.reduce(0) { $0 + 2 * MemoryLayout<Row>.stride + $1.id.text.utf8.count + $1.revision.text.utf8.count + 96 }
    }

    /// A document that changes during the pass is seen again at the end.
    private func sort(_ rows: inout [Row]) {
        rows.sort { isDescending ? $1.id < $0.id : $0.id < $1.id }
        var last: DocumentID?
        rows.removeAll { row in
            defer { last = row.id }
            return row.id == last
        }
    }

    enum Place { case before, inside, behind }

    func place(_ id: String, after: String?) -> Place {
        func precedes(_ a: String, _ b: String) -> Bool { isDescending ? b.utf8.lexicographicallyPrecedes(a.utf8) : a.utf8.lexicographicallyPrecedes(b.utf8) }
        if let after, !precedes(after, id) { return .before }
        if let start, precedes(id, start) { return .before }
        if let end, precedes(end, id) || !includesEnd && id.utf8.elementsEqual(end.utf8) { return .behind }
        return .inside
    }

    /// Live documents in the client's channels; the sequence is nil after the last.
    private func visible(since: SequenceNumber, limit: Int) async throws -> ([Row], SequenceNumber?) {
        let (collection, peer) = (call.collection, call.peer.channelPeer)
        try await call.requireAdmission()
        return try await call.database.read { transaction in
            let access = try peer.map { try transaction.channelAccess(collection, of: $0) }
            let changes = try transaction.changes(collection, since: since, limit: limit, includeBodies: false)
            var rows: [Row] = []
            for change in changes where !change.isDeleted {
                if let access, try !transaction.isVisible(collection, change.id, change.revision, to: access) { continue }
                rows.append(Row(id: change.id, revision: change.revision))
            }
            return (rows, changes.last?.sequence)
        }
    }
}
