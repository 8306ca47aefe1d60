import Documents
import DocumentStore
import HTTPServer
import Interfaces
import Replication
import Selectors

/// Answers `_find`: a client finds among the documents that it may see, as it may see them.
struct FindAnswer: Sendable {
    let call: CouchCall
    let question: FindQuestion
    let plan: FindPlan
    private let start: UInt64

    static func answer(_ call: CouchCall) async throws -> HTTPResponse {
        let question = try FindQuestion(try await call.jsonObject(CouchCall.findLimit))
        try await DocumentReading(call: call).prepare()
        let asked = Self(call: call, question: question, plan: try await FindPlan(question, call))
        return .pieces(call.database.blobs, gzip: call.acceptsGzip) { writer in try await asked.write(&writer) }
    }

    private init(call: CouchCall, question: FindQuestion, plan: FindPlan) {
        (self.call, self.question, self.plan) = (call, question, plan)
        start = call.host.environment.time.monotonicNanoseconds()
    }

    /// How far the answer is.
    private struct Output {
        var left: Int
        var skip: Int
        var count = 0
        var last: IndexEntry?
        /// Of documents that the client may see.
        var examined = 0
        var keys = 0
        /// Why a document is left out.
        var failure: PolicyFailure?
    }

    private func write(_ writer: inout PieceWriter) async throws {
        var output = Output(left: question.limit, skip: question.skip)
        try await writer.write("{\"docs\":[")
        if output.left > 0 {
            if case .index(let index, let range) = plan.way {
                try await write(index, range, &output, &writer)
            } else {
                try await writeScanned(&output, &writer)
            }
        }
        var text = JSONWriter()
        text.raw("\n],\n\"bookmark\":")
        text.string(output.last.map { Bookmark(index: plan.indexNumber, last: $0).text } ?? Bookmark.none)
        if question.withStatistics { text.text(",\n\"execution_stats\":\(statistics(output).text)") }
        let warnings = plan.warnings + (output.failure.map { [DocumentReading.warning($0)] } ?? [])
        if !warnings.isEmpty {
            text.raw(",\n\"warning\":")
            text.string(warnings.joined(separator: "\n"))
        }
        text.raw("}\n")
        try await writer.write(text.bytes)
    }

    private func statistics(_ output: Output) -> JSONValue {
        let nanoseconds = call.host.environment.time.monotonicNanoseconds() - start
        let milliseconds = JSONNumber(Double(nanoseconds / 1000) / 1000)
        // How many others there are is not for a client for whom they do not exist.
        let examined = call.peer.pushFilter == nil ? output.examined : output.count
        return [
            "total_keys_examined": .int(isBound ? min(output.keys, examined) : output.keys), "total_docs_examined": .int(examined),
            "total_quorum_docs_examined": 0, "results_returned": .int(output.count), "execution_time_ms": milliseconds.map { .number($0) } ?? 0,
        ]
    }

    private var isBound: Bool { call.peer.channelPeer != nil || call.peer.pushFilter != nil }

    // MARK: - By an index

    private func write(_ index: FieldIndex, _ range: IndexRange, _ output: inout Output, _ writer: inout PieceWriter) async throws {
        let roots = question.selector.roots + index.definition.roots
        let isDescending = question.sort.isDescending
        var after = question.bookmark?.last
        // Few are read at first: most queries are content with them.
        var wanted = min(max(output.left + output.skip, 1), CouchLimits.pageRows)
        while output.left > 0 {
            let (place, limit) = (after, wanted)
            let entries = try await call.database.read { transaction in
                guard try transaction.isReady(index) else {
                    throw HTTPError(503, "the index was removed during the query: ask again", headers: ["Retry-After": "1"])
                }
                return try transaction.entries(of: index, in: range, after: place, isDescending: isDescending, limit: limit)
            }
            guard !entries.isEmpty else { return }
            var rest = entries[...]
            while !rest.isEmpty, output.left > 0 {
                let page = try await DocumentReading(call: call, leavesOutFailures: true).page(
                    rest.map { DocumentReading.Question(id: $0.id) }[...], withTrees: question.withConflicts)
                for (document, entry) in zip(page, rest) where output.left > 0 {
                    output.keys += 1
                    output.failure = output.failure ?? document.failure
                    guard let found = document.revisions.first, !found.isDeleted else { continue }
                    output.examined += 1
                    let fields = DocumentFields(found.id, found.revision, isDeleted: false, body: found.body)
                    // What changed since the entry was read has another entry now, or will have none.
                    guard let read = fields.document(with: roots), index.definition.key(in: read) == entry.key, try question.selector.matches(read)
                    else { continue }
                    try await write(found, entry, &output, &writer)
                }
                rest = rest.dropFirst(page.count)
            }
            after = entries.last
            wanted = min(2 * wanted, CouchLimits.pageRows)
        }
    }

    // MARK: - By looking at documents

    private func writeScanned(_ output: inout Output, _ writer: inout PieceWriter) async throws {
        var scan = FindScan(call: call, question: question, ids: plan.ids)
        var after = question.bookmark?.last
        var isWhole = false
        while !isWhole, output.left > 0 {
            let found = try await scan.next(after: after, limit: output.left + output.skip)
            isWhole = found.isWhole
            after = found.places.last
            var rest = found.places.dropFirst(output.skip)
            output.skip -= min(output.skip, found.places.count)
            while !rest.isEmpty, output.left > 0 {
                let page = try await DocumentReading(call: call, leavesOutFailures: true).page(
                    rest.map { DocumentReading.Question(id: $0.id) }[...], withTrees: question.withConflicts)
                for (document, place) in zip(page, rest) where output.left > 0 {
                    output.failure = output.failure ?? document.failure
                    // It may have changed meanwhile.
                    guard let revision = document.revisions.first, !revision.isDeleted, try matches(revision) else { continue }
                    try await write(revision, place, &output, &writer)
                }
                rest = rest.dropFirst(page.count)
            }
        }
        (output.examined, output.keys, output.failure) = (scan.examined, 0, output.failure ?? scan.failure)
    }

    private func matches(_ found: FoundRevision) throws -> Bool {
        let fields = DocumentFields(found.id, found.revision, isDeleted: false, body: found.body)
        return try fields.document(with: question.selector.roots).map { try question.selector.matches($0) } ?? false
    }

    // MARK: - Documents

    private func write(_ found: FoundRevision, _ place: IndexEntry, _ output: inout Output, _ writer: inout PieceWriter) async throws {
        guard output.skip == 0 else {
            output.skip -= 1
            return
        }
        try await writer.write(output.count == 0 ? "\n" : ",\n")
        var form = DocumentForm()
        form.withConflicts = question.withConflicts
        let text = DocumentText(found, form)
        if let fields = question.fields {
            // Stored bodies were checked; what is damaged nevertheless has no fields.
            let whole = (try? JSONValue(stored: text.bytes)) ?? [:]
            try await writer.write(Projection.of(whole, fields).serialize())
        } else {
            try await writer.write(text.pieces)
        }
        output.left -= 1
        output.count += 1
        output.last = place
    }
}

extension FindPlan {
    fileprivate var ids: [DocumentID]? {
        if case .ids(let ids) = way { return ids }
        return nil
    }
}
