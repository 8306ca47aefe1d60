import Documents
import DocumentStore
import HTTPServer
import Interfaces
import Logging
import Replication
import Selectors

/// Answers `_find`: searches the documents that are visible to the client, in the form in which it sees them.
struct FindAnswer: Sendable {
    let call: CouchCall
    let question: FindQuestion
    let plan: FindPlan
    private let start: UInt64

    static func answer(_ call: CouchCall) async throws -> HTTPResponse {
        let question = try FindQuestion(try await call.jsonObject(CouchCall.findLimit))
        try await DocumentReading(call: call).prepare()
        let asked = Self(call: call, question: question, plan: try await FindPlan(question, call))
        let beginning = try await asked.beginning()
        return .pieces(call.database.blobs, packing: call.packing, keeping: call.answer) { writer in try await asked.write(beginning, &writer) }
    }

    private init(call: CouchCall, question: FindQuestion, plan: FindPlan) {
        (self.call, self.question, self.plan) = (call, question, plan)
        start = call.host.environment.time.monotonicNanoseconds()
    }

    /// The progress of the answer.
    private struct Output {
        var left: Int
        var skip: Int
        var count = 0
        var last: IndexEntry?
        /// How many documents visible to the client were examined.
        var examined = 0
        var keys = 0
        /// Why a document was left out.
        var failure: PolicyFailure?
        /// For a query that uses an index.
        var budget = SelectorBudget()
        /// A document was left out because it takes too much to be matched, or to be cut down to the fields asked for.
        var hasLeftOut = false
    }

    /// The first pass of a query without an index. It examines all documents before anything is written, so that a query with too expensive a
    /// selector can still be answered with an error status.
    private struct Beginning: Sendable {
        var scan: FindScan
        var found: (places: [IndexEntry], isWhole: Bool)
    }

    private func beginning() async throws -> Beginning? {
        if case .index = plan.way { return nil }
        guard question.limit > 0 else { return nil }
        var scan = FindScan(call: call, question: question, ids: plan.ids)
        let found = try await scan.next(after: question.bookmark?.last, limit: question.limit + question.skip)
        return Beginning(scan: scan, found: found)
    }

    private func write(_ beginning: Beginning?, _ writer: inout PieceWriter) async throws {
        var output = Output(left: question.limit, skip: question.skip)
        try await writer.write("{\"docs\":[")
        do {
            if let beginning {
                try await writeScanned(beginning, &output, &writer)
            } else if output.left > 0, case .index(let index, let range) = plan.way {
                try await write(index, range, &output, &writer)
            }
        } catch let error as SelectorError {
            return try await writer.write(inPlaceOfTheRest: error)
        }
        var text = JSONWriter()
        text.raw("\n],\n\"bookmark\":")
        text.string(output.last.map { Bookmark(index: plan.indexNumber, last: $0).text } ?? Bookmark.none)
        if question.withStatistics { text.text(",\n\"execution_stats\":\(statistics(output).text)") }
        output.hasLeftOut = output.hasLeftOut || output.budget.leftOut > 0
        var warnings = plan.warnings + (output.failure.map { [DocumentReading.warning($0)] } ?? [])
        // Not which, nor how many: a filter may hide them from the client.
        if output.hasLeftOut {
            warnings.append(
                "Documents were left out: it takes more than selector_field_bytes (\(SelectorLimits.fieldBytes)) or selector_steps (\(SelectorLimits.steps)) to match them.")
        }
        if !warnings.isEmpty {
            text.raw(",\n\"warning\":")
            text.string(warnings.joined(separator: "\n"))
        }
        text.raw("}\n")
        try await writer.write(text.bytes)
        note(output)
    }

    /// Logs figures about the query for the operator, but not the selector, which contains data from documents.
    private func note(_ output: Output) {
        call.host.queryLogger?.debug(
            "a query by \(plan.indexName)",
            metadata: [
                "database": "\(call.database.name)", "collection": "\(call.collection.name)", "examined": .stringConvertible(output.examined),
                "returned": .stringConvertible(output.count), "left_out": .stringConvertible(output.hasLeftOut), "milliseconds": .stringConvertible((call.host.environment.time.monotonicNanoseconds() - start) / 1_000_000),
            ])
    }

    private func statistics(_ output: Output) -> JSONValue {
        let nanoseconds = call.host.environment.time.monotonicNanoseconds() - start
        let milliseconds = JSONNumber(Double(nanoseconds / 1000) / 1000)
        // A client must not learn how many documents are hidden from it.
        let examined = call.peer.pushFilter == nil ? output.examined : output.count
        return [
            "total_keys_examined": .int(isBound ? min(output.keys, examined) : output.keys), "total_docs_examined": .int(examined),
            "total_quorum_docs_examined": 0, "results_returned": .int(output.count), "execution_time_ms": milliseconds.map { .number($0) } ?? 0,
        ]
    }

    private var isBound: Bool { call.peer.channelPeer != nil || call.peer.pushFilter != nil }

    // MARK: - With an index

    private func write(_ index: FieldIndex, _ range: IndexRange, _ output: inout Output, _ writer: inout PieceWriter) async throws {
        let roots = question.selector.roots + index.definition.roots
        let isDescending = question.sort.isDescending
        var after = question.bookmark?.last
        // Few rows are read at first, because they are enough for most queries.
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
                let page = try await page(rest, &output.budget) { [selector = question.selector] found, entry, budget in
                    let fields = DocumentFields(found.id, found.revision, isDeleted: false, body: found.body)
                    return try budget.leavingOut { budget in
                        // If the document has changed since the entry was read, it has a different entry now, or none.
                        guard let read = try fields.document(with: roots), index.definition.key(in: read) == entry.key else { return false }
                        return try selector.matches(read, &budget)
                    } ?? false
                }
                for looked in page where output.left > 0 {
                    output.keys += 1
                    output.failure = output.failure ?? looked.failure
                    guard let found = looked.found else { continue }
                    output.examined += 1
                    if looked.isMeant { try await write(found, looked.place, &output, &writer) }
                }
                rest = rest.dropFirst(page.count)
            }
            after = entries.last
            wanted = min(2 * wanted, CouchLimits.pageRows)
        }
    }

    // MARK: - Without an index

    private func writeScanned(_ beginning: Beginning, _ output: inout Output, _ writer: inout PieceWriter) async throws {
        var (scan, found) = (beginning.scan, beginning.found)
        while true {
            var rest = found.places.dropFirst(output.skip)
            output.skip -= min(output.skip, found.places.count)
            while !rest.isEmpty, output.left > 0 {
                // The documents may have changed meanwhile.
                let page = try await page(rest, &scan.budget) { [selector = question.selector] found, _, budget in
                    try budget.leavingOut { try selector.means(found, &$0) } ?? false
                }
                for looked in page where output.left > 0 {
                    output.failure = output.failure ?? looked.failure
                    if looked.isMeant, let found = looked.found { try await write(found, looked.place, &output, &writer) }
                }
                rest = rest.dropFirst(page.count)
            }
            if found.isWhole || output.left == 0 { break }
            found = try await scan.next(after: found.places.last, limit: output.left + output.skip)
        }
        (output.examined, output.keys, output.failure) = (scan.examined, 0, output.failure ?? scan.failure)
        output.hasLeftOut = output.hasLeftOut || scan.budget.leftOut > 0
    }

    // MARK: - Pages

    /// A document that was read again before it is written.
    private struct Looked: Sendable {
        var place: IndexEntry
        /// Nil if it is no longer visible to the client.
        var found: FoundRevision?
        /// Why it was left out.
        var failure: PolicyFailure?
        var isMeant = false
    }

    /// The documents at the first of these positions, at least one.
    private func page(
        _ places: ArraySlice<IndexEntry>, _ budget: inout SelectorBudget,
        _ isMeant: @escaping @Sendable (FoundRevision, IndexEntry, inout SelectorBudget) throws -> Bool
    ) async throws -> [Looked] {
        let spent = budget
        let (page, left) = try await call.answer.matching {
            let page = try await DocumentReading(call: call, omitsFailures: true).page(
                places.prefix(CouchLimits.pageRows).map { DocumentReading.Question(id: $0.id) }[...], withTrees: question.withConflicts)
            let read = zip(page, places).map { document, place in
                Looked(place: place, found: document.revisions.first.flatMap { $0.isDeleted ? nil : $0 }, failure: document.failure)
            }
            return try await SelectorMatching.each(read, spent, call.host.environment) { looked, budget in
                var looked = looked
                if let found = looked.found { looked.isMeant = try isMeant(found, looked.place, &budget) }
                return looked
            }
        }
        budget = left
        return page
    }

    // MARK: - Documents

    private func write(_ found: FoundRevision, _ place: IndexEntry, _ output: inout Output, _ writer: inout PieceWriter) async throws {
        guard output.skip == 0 else {
            output.skip -= 1
            return
        }
        let separator = output.count == 0 ? "\n" : ",\n"
        if let fields = question.fields {
            // Stored bodies were checked when they were stored; one that has been damaged since has no fields.
            let document: JSONValue
            do { document = try await self.document(found, with: fields.map { $0.names[0] }) ?? [:] } catch let error as SelectorError where error.isOfDocument {
                output.hasLeftOut = true
                return
            }
            try await writer.write(separator)
            try await writer.write(Projection.of(document, fields).serialize())
        } else {
            try await writer.write(separator)
            try await writer.write(text(found).pieces)
        }
        output.left -= 1
        output.count += 1
        output.last = place
    }

    private func text(_ found: FoundRevision) async throws -> DocumentText {
        var form = DocumentForm()
        form.withConflicts = question.withConflicts
        return try await DocumentText.of(found, form, call.database.blobs)
    }

    /// These members of a document. The whole text is only produced for members that are added to the body, since it may be large.
    private func document(_ found: FoundRevision, with roots: [String]) async throws -> JSONValue? {
        let isMade = found.hasBlobs || roots.contains { $0.utf8.first == UInt8(ascii: "_") && $0 != "_id" && $0 != "_rev" }
        guard isMade else { return try DocumentFields(found.id, found.revision, isDeleted: false, body: found.body).document(with: roots) }
        return try DocumentFields.document(in: try await text(found).bytes, with: roots)
    }
}

extension FindPlan {
    fileprivate var ids: [DocumentID]? {
        if case .ids(let ids) = way { return ids }
        return nil
    }

    fileprivate var indexName: String {
        switch way {
        case .index(let index, _): "index \(index.name)"
        case .ids: "ids"
        case .scan: "no index"
        }
    }
}
