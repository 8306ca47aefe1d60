import Documents
import DocumentStore
import HTTPServer
import Interfaces
import Selectors

/// How a query is executed: with an index, with the ids that it names, or by examining every document.
struct FindPlan: Sendable {
    enum Way: Sendable {
        /// In the order of the index.
        case index(FieldIndex, IndexRange)
        case ids([DocumentID])
        case scan
    }

    struct Candidate: Sendable {
        var index: FieldIndex
        /// Why the index cannot be used; nil if it could be.
        var obstacle: String?
    }

    private(set) var way = Way.scan
    private(set) var warnings: [String] = []
    private(set) var candidates: [Candidate] = []

    /// The index's number, for bookmarks.
    var indexNumber: Int64 {
        if case .index(let index, _) = way { return index.number }
        return 0
    }

    /// - Throws: ``HTTPError`` 400.
    init(_ question: FindQuestion, _ call: CouchCall) async throws {
        let collection = call.collection
        let indexes = try await call.database.read { try $0.fieldIndexes(collection) }
        if indexes.contains(where: { !$0.isReady }) { IndexRoutes.tend(call) }
        // If a filter changes bodies, indexes do not contain what the client sees.
        let isChanged = call.peer.pushFilter?.changesBodies ?? false
        var usable: [(index: FieldIndex, use: IndexUse)] = []
        for index in indexes {
            let isNamed = question.wanted?.fits(index) ?? false
            switch IndexUse.of(index.definition, question.selector, question.sort, isNamed: isNamed) {
            case .failure(let obstacle): candidates.append(Candidate(index: index, obstacle: obstacle.rawValue))
            case .success where isChanged: candidates.append(Candidate(index: index, obstacle: "filter_changes_documents"))
            case .success where !index.isReady: candidates.append(Candidate(index: index, obstacle: "being_built"))
            case .success(let use):
                candidates.append(Candidate(index: index))
                usable.append((index, use))
            }
        }
        try choose(question, usable)
    }

    private mutating func choose(_ question: FindQuestion, _ usable: [(index: FieldIndex, use: IndexUse)]) throws {
        if let bookmark = question.bookmark {
            // A page continues where the previous one ended, in the same order.
            if bookmark.index == 0 { return scan(question) }
            guard let same = usable.first(where: { $0.index.number == bookmark.index }) else {
                throw CouchError.query("invalid_bookmark", "Invalid bookmark value: the index that it belongs to is not there any more: begin without it")
            }
            way = .index(same.index, same.use.range)
            return
        }
        let wanted = usable.filter { question.wanted?.fits($0.index) ?? false }
        if let named = question.wanted, wanted.isEmpty {
            let text = [named.design, named.name].compactMap(\.self).joined(separator: ", ")
            guard question.allowsFallback else {
                throw CouchError.query("invalid_index", "\(text) specified by `use_index` could not be found or it is not suitable.")
            }
            warnings.append("\(text) was not used because it does not exist or is not a valid index for this query.")
        }
        let best = (wanted.isEmpty ? usable : wanted).min { Self.precedes($0, $1) }
        if let best {
            way = .index(best.index, best.use.range)
        } else {
            scan(question)
            if case .scan = way, !question.allowsFallback {
                throw CouchError.query("no_usable_index", "No index exists for this query, and allow_fallback is false.")
            }
        }
    }

    /// The most selective index, then the one with fewer fields, then by name.
    private static func precedes(_ a: (index: FieldIndex, use: IndexUse), _ b: (index: FieldIndex, use: IndexUse)) -> Bool {
        if a.use.weight != b.use.weight { return a.use.weight > b.use.weight }
        let (x, y) = (a.index.definition.order.paths.count, b.index.definition.order.paths.count)
        return x != y ? x < y : a.index.number < b.index.number
    }

    private mutating func scan(_ question: FindQuestion) {
        if let ids = question.selector.ids(limit: CouchLimits.findIDs) {
            way = .ids(ids.compactMap { try? DocumentID($0) })
            return
        }
        way = .scan
        warnings.append(
            question.sort.paths.isEmpty
                ? "No matching index found, create an index to optimize query time."
                : "No matching index found for this sort, create an index to optimize query time.")
    }

    /// In the form used by `_explain` and `GET _index`.
    var index: JSONValue {
        if case .index(let index, _) = way { return IndexRoutes.shown(index) }
        return IndexRoutes.allDocuments
    }
}
