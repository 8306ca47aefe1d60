import Documents
import DocumentStore
import HTTPServer
import Interfaces
import Replication
import Selectors

/// One row of a feed.
struct ChangesRow: Sendable {
    var place: String
    var revisions: [RevisionID]
    var document: FoundRevision

    /// Its size in memory in addition to the document's body.
    fileprivate var frameBytes: Int {
        let texts = document.id.text.utf8.count + document.revision.memorySize + revisions.reduce(0) { $0 + $1.memorySize }
        return MemoryLayout<Self>.stride + texts + (document.tree?.memorySize ?? 0)
    }

    var bytes: Int { frameBytes + document.body.count }
}

extension RevisionID {
    /// The size in memory of a revision in a list.
    var memorySize: Int { MemoryLayout<Self>.stride + text.utf8.count + 48 }
}

/// A page of a feed.
struct ChangesPage: Sendable {
    var rows: [ChangesRow] = []
    /// Where the next page begins.
    var place: ChannelPlace
    /// There is nothing more at the moment.
    var isEnd = false
    /// The filter that the client named failed on the next document: the feed stops before it, so that the client's checkpoint does not move past
    /// it. The answer ends there, and the next one, which has no rows, is an error.
    var isHeld = false
    var newest: SequenceNumber

    /// How many rows may be left, for progress bars.
    var pending: SequenceNumber { max(newest > place.sequence ? newest - place.sequence : 0, isHeld ? 1 : 0) }
}

/// Reads a collection's feed for a client: documents outside its channels, and those that the filters reject, are not part of it.
struct ChangesReading: Sendable {
    let call: CouchCall
    let question: ChangesQuestion

    private var needsBodies: Bool { question.includesDocuments || question.filter != nil || question.selector != nil || call.peer.pushFilter != nil }

    /// The position at which the feed begins.
    func start() async throws -> ChannelPlace {
        try await call.host.access.note(call.peer, call.collection)
        let collection = call.collection
        let newest = try await call.database.read { try $0.lastSequence(collection) }
        guard let since = question.since else { return ChannelPlace(newest) }
        return max(since.sequence, since.event.map { $0 - 1 } ?? 0) > newest ? ChannelPlace() : since
    }

    /// - Parameter kept: bytes from previous pages that the answer keeps holding.
    /// - Throws: ``SelectorError`` if a selector is too expensive.
    func page(from place: ChannelPlace, limit: Int, beside kept: Int = 0) async throws -> ChangesPage {
        guard let selector = question.selector else { return try await judged(from: place, limit: limit, beside: kept) }
        // The client has received the previous page, so its memory is released while others have their turn.
        call.answer.hold(kept)
        return try await call.answer.matching {
            var page = try await judged(from: place, limit: limit, beside: kept)
            let matched = try await SelectorMatching.each(page.rows, SelectorBudget(), turn: .max, call.host.environment) { row, budget in
                // A document that takes too much to be matched is better one too many than one that the client never learns of.
                try budget.leavingOut { try selector.means(row.document, &$0) } ?? true
            }
            page.rows = zip(page.rows, matched.found).filter(\.1).map(\.0)
            return page
        }
    }

    /// The rows that the filters accept.
    private func judged(from place: ChannelPlace, limit: Int, beside kept: Int) async throws -> ChangesPage {
        let (read, starts) = try await counted(from: place, limit: min(limit, CouchLimits.pageRows), beside: kept)
        var page = read
        var isKept = [Bool](repeating: true, count: page.rows.count)
        var questions: [PolicyDocument] {
            page.rows.map { row in
                PolicyDocument(id: row.document.id, revision: row.document.revision, isDeleted: row.document.isDeleted, body: row.document.body)
            }
        }
        if let filter = call.peer.pushFilter {
            let verdicts = try await call.peer.kept.verdicts(
                of: questions, filter, call.context(.push), call.database, call.collection, listsFailures: true)
            for (index, verdict) in verdicts.enumerated() {
                switch verdict {
                case .pass: continue
                case .replace(let body): page.rows[index].document.body = body
                // A document on which the filter fails appears again, later in the feed, once the filter works.
                case .reject, .failed: isKept[index] = false
                }
            }
        }
        if let filter = question.filter {
            // The client's filter is not asked about documents that the listener's filter holds back.
            let (asked, all) = (page.rows.indices.filter { isKept[$0] }, questions)
            let verdicts = await filter.allVerdicts(asked.map { all[$0] }, call.context(.push))
            for (index, verdict) in zip(asked, verdicts) {
                switch verdict {
                case .pass: continue
                case .replace(let body): page.rows[index].document.body = body
                case .reject: isKept[index] = false
                case .failed(let failure):
                    call.host.logger.warning(
                        "a feed has stopped: \(failure.kind): \(failure.message)",
                        metadata: ["plugin": "\(failure.plugin)", "document": "\(page.rows[index].document.id)"])
                    (page.place, page.isEnd, page.isHeld) = (starts[index], false, true)
                    page.rows.removeSubrange(index...)
                    isKept.removeSubrange(index...)
                }
                if page.isHeld { break }
            }
        }
        page.rows = zip(page.rows, isKept).filter(\.1).map(\.0)
        return page
    }

    /// Includes bodies and revision trees only if there is memory for them.
    private func counted(from place: ChannelPlace, limit: Int, beside kept: Int) async throws -> (ChangesPage, [ChannelPlace]) {
        // The client has received the previous page.
        call.answer.hold(kept)
        try await call.requireAdmission()
        guard needsBodies || question.allLeaves else {
            let found = try await read(from: place, limit: limit)
            call.answer.hold(kept + found.0.rows.reduce(0) { $0 + $1.bytes })
            return found
        }
        if let found = try await fewCounted(from: place, limit: limit, beside: kept) { return found }
        return try await call.answer.reading(2 * CouchLimits.pageBytes) {
            let found = try await read(from: place, limit: limit)
            return (found, kept + 2 * found.0.rows.reduce(0) { $0 + $1.bytes })
        }
    }

    /// A page, or, while there is no memory for one, the few small rows that come first; nil if these have to wait for memory.
    private func fewCounted(from place: ChannelPlace, limit: Int, beside kept: Int) async throws -> (ChangesPage, [ChannelPlace])? {
        // Of the others it is expensive to find out in advance how large they are.
        guard question.ids == nil, !question.isEmpty, call.peer.channelPeer == nil else { return nil }
        return try await call.answer.reading(2 * CouchLimits.pageBytes, orFew: true) { bytes -> ((ChangesPage, [ChannelPlace])?, bytes: Int) in
            var limit = limit
            if bytes < 2 * CouchLimits.pageBytes {
                guard let few = try await fewRows(after: place, limit: limit, bytes: bytes / 2) else { return (nil, kept) }
                limit = min(limit, few)
            }
            let found = try await read(from: place, limit: limit)
            return (found, kept + 2 * found.0.rows.reduce(0) { $0 + $1.bytes })
        }
    }

    /// How many of the next rows are no larger than this together; nil if the first one is.
    private func fewRows(after place: ChannelPlace, limit: Int, bytes: Int) async throws -> Int? {
        let (collection, needsBodies) = (call.collection, needsBodies)
        return try await call.database.read { transaction -> Int? in
            let rows = try transaction.changes(
                collection, since: place.sequence, limit: min(limit, CouchLimits.fewRows), includeBodies: false, maxBytes: bytes)
            var (count, sum) = (0, 0)
            for row in rows {
                sum += Self.bytesPerRow + row.treeMemorySize + (needsBodies ? row.bodySize : 0)
                guard sum <= bytes else { break }
                count += 1
            }
            return rows.isEmpty ? 1 : count == 0 ? nil : count
        }
    }

    /// What a row with short names takes up beside its document.
    private static let bytesPerRow = 256

    /// Includes the position just before each row.
    private func read(from place: ChannelPlace, limit: Int) async throws -> (ChangesPage, [ChannelPlace]) {
        let (collection, question, needsBodies) = (call.collection, question, needsBodies)
        let (peer, waits) = (call.peer.channelPeer, call.peer.syncFunction != nil)
        if question.isEmpty {
            let newest = try await call.database.read { try $0.lastSequence(collection) }
            return (ChangesPage(place: ChannelPlace(newest), isEnd: true, newest: newest), [])
        }
        // For most documents only the leaves are sent.
        let keepsTrees = question.includesDocuments && question.form.needsTree
        return try await call.database.read { transaction in
            if let peer {
                // A client that selects channels is treated like one restricted to them: a document leaving these channels has not ended.
                let isBound = try question.channels != nil || !transaction.channelAccess(collection, of: peer).hasEverything
                let asked = ChannelQuestion(peer: peer, channels: question.channels, ids: question.ids.map(Set.init), waitsForRoutes: waits)
                let part = try transaction.channelChanges(collection, from: place, asked, limit: limit)
                var page = ChangesPage(place: part.place, isEnd: part.isEnd || part.isBlocked, newest: part.newest)
                var starts: [ChannelPlace] = []
                var before = place
                var bytes = 0
                for row in part.rows {
                    if bytes >= CouchLimits.pageBytes {
                        (page.place, page.isEnd) = (before, false)
                        break
                    }
                    let text = row.event.map { "\"\($0):\(row.sequence)\"" } ?? "\(row.sequence)"
                    let isRead = row.change.hasTree && (question.allLeaves || keepsTrees && !isBound)
                    let whole = try transaction.unlessDamaged(collection) { () throws(StoreError) -> RevisionTree? in
                        if question.includesDocuments, let damage = FoundRevision(row.change, tree: nil).damage { throw damage }
                        return isRead ? try row.change.revisionTree() : nil
                    }
                    guard let tree = whole else {
                        before = ChannelPlace(behind: row.sequence, in: row.event)
                        continue
                    }
                    let revisions = isBound ? Self.told(row, tree) : leaves(row.change, tree)
                    if let first = revisions.first {
                        starts.append(before)
                        let document =
                            row.visibility == .visible && row.isFirsthand
                            ? found(row.change, keepsTrees ? tree : nil, isBound: isBound)
                            : FoundRevision(ended: first, of: row.change.id, at: row.sequence, in: nil)
                        let told = ChangesRow(place: text, revisions: revisions, document: document)
                        bytes += told.bytes
                        page.rows.append(told)
                    }
                    before = ChannelPlace(behind: row.sequence, in: row.event)
                }
                return (page, starts)
            }
            let newest = try transaction.lastSequence(collection)
            let rows = try transaction.changes(collection, since: place.sequence, limit: limit, includeBodies: needsBodies, ids: question.ids)
            var page = ChangesPage(place: place, newest: newest)
            var starts: [ChannelPlace] = []
            var bytes = 0
            for row in rows where bytes < CouchLimits.pageBytes {
                let isRead = row.hasTree && (question.allLeaves || keepsTrees)
                let whole = try transaction.unlessDamaged(collection) { () throws(StoreError) -> RevisionTree? in
                    if question.includesDocuments, let damage = FoundRevision(row, tree: nil).damage { throw damage }
                    return isRead ? try row.revisionTree() : nil
                }
                guard let tree = whole else {
                    page.place = ChannelPlace(row.sequence)
                    continue
                }
                starts.append(page.place)
                page.place = ChannelPlace(row.sequence)
                let told = ChangesRow(
                    place: "\(row.sequence)", revisions: leaves(row, tree), document: found(row, keepsTrees ? tree : nil, isBound: false))
                bytes += told.bytes
                page.rows.append(told)
            }
            if rows.isEmpty {
                page.place = ChannelPlace(max(newest, place.sequence))
                page.isEnd = true
            }
            return (page, starts)
        }
    }

    /// The current revision, which is the only one that filters are asked about.
    private func found(_ change: ChangeRow, _ tree: RevisionTree?, isBound: Bool) -> FoundRevision {
        var found = FoundRevision(change, tree: tree)
        if isBound || call.peer.pushFilter != nil { found.hideBranches() }
        return found
    }

    /// The revisions to report of a document, for a client that may read everything.
    private func leaves(_ change: ChangeRow, _ tree: RevisionTree?) -> [RevisionID] {
        // Filters are asked only about the current revision, so a filtered client learns only that other branches have ended.
        let isFiltered = call.peer.pushFilter != nil
        let others = tree?.leaves.filter { $0.revision != change.revision && ($0.isDeleted || !isFiltered) } ?? []
        return [change.revision] + (question.allLeaves ? others.map(\.revision) : [])
    }

    /// The revisions to report of a document, for a client restricted to channels.
    private static func told(_ row: ChannelPage.Row, _ tree: RevisionTree?) -> [RevisionID] {
        let current = row.change.revision
        guard row.visibility != .visible else { return [current] + (row.isFirsthand ? tree?.endedLeaves(beside: current) ?? [] : []) }
        // That a document left the client's channels is not reported: the client may keep what it has, but gets nothing newer. But it must not keep
        // a branch as its winner that others deleted at that time.
        return row.isFirsthand ? tree?.endedWinners(before: current) ?? [] : []
    }
}

extension FoundRevision {
    init(_ row: ChangeRow, tree: RevisionTree?) {
        self.init(
            id: row.id, revision: row.revision, isDeleted: row.isDeleted, body: row.body ?? Array("{}".utf8), sequence: row.sequence, tree: tree,
            hasBlobs: row.hasBlobs)
    }
}

extension ChannelPlace {
    /// As JSON, for the `since` of a later request.
    var json: String {
        guard let event else { return "\(sequence)" }
        // A completed event is one for which every document was examined.
        return "\"\(event):\(inEvent ?? event)\""
    }
}
