import Documents
import DocumentStore
import HTTPServer
import Interfaces
import Replication
import Selectors

/// Looks at all documents of a collection, or at some, and finds the first of those that a selector means, in the order of their ids or of a
/// sort. The store has no such order: each pass keeps as many places as may be held, and another pass finds the next.
struct FindScan {
    private let call: CouchCall
    private let question: FindQuestion
    private let ids: [DocumentID]?
    private let roots: [String]
    /// Documents that the client may see and that were looked at.
    private(set) var examined = 0
    /// Why a document is left out.
    private(set) var failure: PolicyFailure?

    init(call: CouchCall, question: FindQuestion, ids: [DocumentID]?) {
        (self.call, self.question, self.ids) = (call, question, ids)
        roots = question.selector.roots + question.sort.paths.map { $0.names[0] }
    }

    /// The next places behind `after`.
    mutating func next(after: IndexEntry?, limit: Int) async throws -> (places: [IndexEntry], isWhole: Bool) {
        var kept = FirstPlaces(isDescending: question.sort.isDescending, after: after, room: min(limit, CouchLimits.sortRows))
        var since: SequenceNumber = 0
        while true {
            let page = try await page(since: since, kept)
            for candidate in try await judged(page.candidates) { kept.add(candidate) }
            examined += page.examined
            // What is held is the agent's own, not owed by the client.
            call.answer.hold(kept.bytes, isOwed: false)
            guard let last = page.last else { break }
            since = last
        }
        return kept.finish()
    }

    private struct Candidate: Sendable {
        var found: FoundRevision
        var place: IndexEntry
    }

    private struct Page: Sendable {
        var candidates: [Candidate] = []
        var examined = 0
        /// Nil behind the last.
        var last: SequenceNumber?
    }

    /// Documents whose bodies come from a filter are asked for their fields when they have come.
    private var isChanged: Bool { call.peer.pushFilter?.changesBodies ?? false }

    private func page(since: SequenceNumber, _ kept: FirstPlaces) async throws -> Page {
        let (collection, peer, ids) = (call.collection, call.peer.channelPeer, ids)
        let (needsBodies, isChanged, bound) = (call.peer.pushFilter != nil, isChanged, kept)
        let reading = (question, roots)
        return try await call.answer.reading(2 * CouchLimits.pageBytes) {
            let page = try await call.database.read { transaction in
                let access = try peer.map { try transaction.channelAccess(collection, of: $0) }
                let rows = try transaction.changes(
                    collection, since: since, limit: CouchLimits.pageRows, includeBodies: true, ids: ids)
                var page = Page()
                for row in rows where !row.isDeleted {
                    if let access, try !transaction.isVisible(collection, row.id, row.revision, to: access) { continue }
                    page.examined += 1
                    var found = FoundRevision(row, tree: nil)
                    if isChanged {
                        page.candidates.append(Candidate(found: found, place: IndexEntry(key: [], id: row.id)))
                    } else if let place = try Self.place(of: found, reading.0, reading.1), bound.mayTake(place) {
                        if !needsBodies { found.body = [] }
                        page.candidates.append(Candidate(found: found, place: place))
                    }
                }
                page.last = rows.last?.sequence
                return page
            }
            return (page, kept.bytes + 2 * page.candidates.reduce(0) { $0 + $1.found.body.count })
        }
    }

    /// Where a document stands that is meant; nil for others. One without a field of the sort is not part of the answer, as with an index.
    private static func place(of found: FoundRevision, _ question: FindQuestion, _ roots: [String]) throws -> IndexEntry? {
        let fields = DocumentFields(found.id, found.revision, isDeleted: false, body: found.body)
        guard let document = fields.document(with: roots), try question.selector.matches(document),
            let key = CollationKey.of(question.sort.paths, in: document)
        else { return nil }
        return IndexEntry(key: key, id: found.id)
    }

    private mutating func judged(_ candidates: [Candidate]) async throws -> [FirstPlaces.Place] {
        func kept(_ candidate: Candidate) -> FirstPlaces.Place { .init(entry: candidate.place, sequence: candidate.found.sequence) }
        guard let filter = call.peer.pushFilter else { return candidates.map(kept) }
        let questions = candidates.map {
            PolicyDocument(id: $0.found.id, revision: $0.found.revision, isDeleted: false, body: $0.found.body)
        }
        var passed: [FirstPlaces.Place] = []
        for (candidate, verdict) in zip(candidates, await filter.allVerdicts(questions, call.context(.push))) {
            switch verdict {
            case .reject: continue
            case .failed(let failure): self.failure = self.failure ?? failure
            case .pass, .replace:
                guard isChanged else {
                    passed.append(kept(candidate))
                    continue
                }
                var found = candidate.found
                if case .replace(let body) = verdict { found.body = body }
                guard let place = try Self.place(of: found, question, roots) else { continue }
                passed.append(.init(entry: place, sequence: found.sequence))
            }
        }
        return passed
    }
}

/// The first of many places in an order, as many as there is room for.
struct FirstPlaces: Sendable {
    struct Place: Sendable {
        var entry: IndexEntry
        var sequence: SequenceNumber
    }

    private let isDescending: Bool
    private let after: IndexEntry?
    private var room: Int
    private var places: [Place] = []
    /// Nothing behind it is wanted any more.
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

    /// Keeps those in front; of large keys fewer.
    private mutating func cut() {
        sort()
        if bytes > CouchLimits.sortBytes { room = max(1, min(room, places.count / 2)) }
        guard places.count > room else { return }
        places.removeSubrange(room...)
        bytes = places.reduce(0) { $0 + Self.size($1) }
        end = places.last.map(\.entry)
    }

    /// A document that changes during the pass comes again at its end, maybe at another place.
    private mutating func sort() {
        var newest: [DocumentID: SequenceNumber] = [:]
        for place in places { newest[place.entry.id] = max(newest[place.entry.id] ?? 0, place.sequence) }
        places.removeAll { newest[$0.entry.id] != $0.sequence }
        var sorted = places
        sorted.sort { precedes($0.entry, $1.entry) }
        places = sorted
    }

    /// - Returns: whether nothing lies behind them.
    mutating func finish() -> (places: [IndexEntry], isWhole: Bool) {
        sort()
        if places.count > room {
            places.removeSubrange(room...)
            end = places.last.map(\.entry)
        }
        return (places.map(\.entry), end == nil)
    }
}
