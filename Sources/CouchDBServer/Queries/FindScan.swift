import Documents
import DocumentStore
import HTTPServer
import Interfaces
import Replication
import Selectors

/// Examines all or some documents of a collection, and finds the first ones that match a selector, ordered by id or by a sort. The store has no
/// such order: each pass keeps as many positions as memory allows, and the next pass finds the following ones.
struct FindScan: Sendable {
    private let call: CouchCall
    private let question: FindQuestion
    private let ids: [DocumentID]?
    private let roots: [String]
    /// How many documents visible to the client were examined.
    private(set) var examined = 0
    /// Why a document was left out.
    private(set) var failure: PolicyFailure?
    /// For the whole query.
    var budget = SelectorBudget()

    init(call: CouchCall, question: FindQuestion, ids: [DocumentID]?) {
        (self.call, self.question, self.ids) = (call, question, ids)
        roots = question.selector.roots + question.sort.paths.map { $0.names[0] }
    }

    /// The next positions after `after`.
    mutating func next(after: IndexEntry?, limit: Int) async throws -> (places: [IndexEntry], isWhole: Bool) {
        var kept = FirstPlaces(isDescending: question.sort.isDescending, after: after, room: min(limit, CouchLimits.sortRows))
        var since: SequenceNumber = 0
        while true {
            let (scan, place, bound) = (self, since, kept)
            let page = try await call.answer.matching {
                // The previous page is released while others have their turn.
                try await scan.page(since: place, bound)
            }
            for candidate in page.passed { kept.add(candidate) }
            examined += page.examined
            budget = page.budget
            failure = failure ?? page.failure
            // This memory counts as the agent's own, not as owed by the client.
            call.answer.hold(kept.bytes, isOwed: false)
            guard let last = page.last else { break }
            since = last
        }
        return kept.finish()
    }

    private struct Page: Sendable {
        var passed: [FirstPlaces.Place] = []
        var examined = 0
        /// Nil after the last document.
        var last: SequenceNumber?
        var budget: SelectorBudget
        /// Why a document was left out.
        var failure: PolicyFailure?
    }

    private func page(since: SequenceNumber, _ kept: FirstPlaces) async throws -> Page {
        let (documents, last) = try await read(since: since, kept)
        var page = Page(last: last, budget: budget)
        guard let filter = call.peer.pushFilter else {
            let matched = try await matched(documents, kept, turn: CouchLimits.matchingTurn)
            (page.examined, page.budget) = (matched.found.count, matched.budget)
            if matched.found.count < documents.count { page.last = documents[matched.found.count - 1].sequence }
            page.passed = matched.found.compactMap(\.self)
            return page
        }
        page.examined = documents.count
        // What the filter hides is not matched: how long that takes, and what it costs, would tell the client about it. What passes is matched completely,
        // however many steps that takes.
        let passed = try await judged(documents, by: filter, &page.failure)
        let matched = try await matched(passed, kept, turn: .max)
        (page.passed, page.budget) = (matched.found.compactMap(\.self), matched.budget)
        return page
    }

    /// The documents in the client's channels. Matching comes later, because a selector would block the database's readers for as long as it
    /// takes.
    private func read(since: SequenceNumber, _ kept: FirstPlaces) async throws -> (documents: [FoundRevision], last: SequenceNumber?) {
        let (collection, peer, ids) = (call.collection, call.peer.channelPeer, ids)
        var held = 0
        try await call.requireAdmission()
        let read = try await call.answer.reading(2 * CouchLimits.pageBytes) {
            let read = try await call.database.read { transaction in
                let access = try peer.map { try transaction.channelAccess(collection, of: $0) }
                let rows = try transaction.changes(
                    collection, since: since, limit: CouchLimits.pageRows, includeBodies: true, ids: ids)
                var documents: [FoundRevision] = []
                for row in rows where !row.isDeleted {
                    if let access, try !transaction.isVisible(collection, row.id, row.revision, to: access) { continue }
                    documents.append(FoundRevision(row, tree: nil))
                }
                return (documents: documents, last: rows.last?.sequence)
            }
            held = kept.bytes + 2 * read.documents.reduce(0) { $0 + $1.body.count }
            return (read, held)
        }
        // The client can do nothing to release this memory.
        call.answer.hold(held, isOwed: false)
        return read
    }

    /// For each document its position if it matches, otherwise nil. A document without a field of the sort is not part of the result, as with
    /// an index.
    private func matched(
        _ documents: [FoundRevision], _ kept: FirstPlaces, turn: Int
    ) async throws -> (found: [FirstPlaces.Place?], budget: SelectorBudget) {
        let (question, roots) = (question, roots)
        return try await SelectorMatching.each(documents, budget, turn: turn, call.host.environment) { found, budget in
            let fields = DocumentFields(found.id, found.revision, isDeleted: false, body: found.body)
            let key = try budget.leavingOut { budget -> [UInt8]? in
                guard let document = try fields.document(with: roots), try question.selector.matches(document, &budget) else { return nil }
                return CollationKey.of(question.sort.paths, in: document)
            }
            guard let key else { return nil }
            let place = IndexEntry(key: key, id: found.id)
            return kept.mayTake(place) ? FirstPlaces.Place(entry: place, sequence: found.sequence) : nil
        }
    }

    /// The documents that the listener's filter passes, as changed by it.
    private func judged(_ documents: [FoundRevision], by filter: any DocumentFilter, _ failure: inout PolicyFailure?) async throws -> [FoundRevision] {
        let questions = documents.map { PolicyDocument(id: $0.id, revision: $0.revision, isDeleted: false, body: $0.body) }
        var passed: [FoundRevision] = []
        for (var document, verdict) in zip(documents, await filter.allVerdicts(questions, call.context(.push))) {
            switch verdict {
            case .reject: continue
            case .failed(let why):
                failure = failure ?? why
                continue
            case .pass: break
            case .replace(let body): document.body = body
            }
            passed.append(document)
        }
        return passed
    }
}

/// The first of many positions in an order, as many as memory allows.
struct FirstPlaces: Sendable {
    struct Place: Sendable {
        var entry: IndexEntry
        var sequence: SequenceNumber
    }

    private let isDescending: Bool
    private let after: IndexEntry?
    private var room: Int
    private var places: [Place] = []
    /// Positions after this one are no longer needed.
    private var end: IndexEntry?
    private(set) var bytes = 0

    init(isDescending: Bool, after: IndexEntry?, room: Int) { (self.isDescending, self.after, self.room) = (isDescending, after, max(room, 1)) }

    private func precedes(_ a: IndexEntry, _ b: IndexEntry) -> Bool {
        let (first, second) = isDescending ? (b, a) : (a, b)
        return first.key == second.key ? first.id < second.id : first.key.lexicographicallyPrecedes(second.key)
    }

    func mayTake(_ entry: IndexEntry) -> Bool {
        if let after, !precedes(after, entry) { return false }
        if let end, !precedes(entry, end) { return false }
        return true
    }

    mutating func add(_ place: Place) {
        guard mayTake(place.entry) else { return }
        places.append(place)
        bytes += Self.size(place)
        if places.count >= 2 * room + CouchLimits.pageRows || bytes > CouchLimits.sortBytes { cut() }
    }

    private static func size(_ place: Place) -> Int { 96 + place.entry.key.count + place.entry.id.text.utf8.count }

    /// Keeps the foremost positions; fewer if keys are large.
    private mutating func cut() {
        sort()
        if bytes > CouchLimits.sortBytes { room = max(1, min(room, places.count / 2)) }
        guard places.count > room else { return }
        places.removeSubrange(room...)
        bytes = places.reduce(0) { $0 + Self.size($1) }
        end = places.last.map(\.entry)
    }

    /// A document that changes during the pass is seen again at the end, possibly at a different position.
    private mutating func sort() {
        var newest: [DocumentID: SequenceNumber] = [:]
        for place in places { newest[place.entry.id] = max(newest[place.entry.id] ?? 0, place.sequence) }
        places.removeAll { newest[$0.entry.id] != $0.sequence }
        var sorted = places
        sorted.sort { precedes($0.entry, $1.entry) }
        places = sorted
    }

    /// - Returns: the positions, and whether there are none after them.
    mutating func finish() -> (places: [IndexEntry], isWhole: Bool) {
        sort()
        if places.count > room {
            places.removeSubrange(room...)
            end = places.last.map(\.entry)
        }
        return (places.map(\.entry), end == nil)
    }
}
