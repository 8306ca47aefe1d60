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

    /// What it takes in memory beside the document's body, in bytes.
    fileprivate var frameBytes: Int {
        let texts = document.id.text.utf8.count + document.revision.memorySize + revisions.reduce(0) { $0 + $1.memorySize }
        return MemoryLayout<Self>.stride + texts + (document.tree?.memorySize ?? 0)
    }

    var bytes: Int { frameBytes + document.body.count }
}

extension RevisionID {
    /// What one of a list takes in memory, in bytes.
    var memorySize: Int { MemoryLayout<Self>.stride + text.utf8.count + 48 }
}

/// A part of a feed.
struct ChangesPage: Sendable {
    var rows: [ChangesRow] = []
    /// Where the next one begins.
    var place: ChannelPlace
    /// Nothing more is there now.
    var isEnd = false
    /// The filter that the client named failed on the next document: the feed stands still before it, so that the client's checkpoint does not
    /// pass it. The answer ends there, and the next one, which has nothing to begin with, is an error.
    var isHeld = false
    var newest: SequenceNumber

    /// Rows that may be left, for progress bars.
    var pending: SequenceNumber { max(newest > place.sequence ? newest - place.sequence : 0, isHeld ? 1 : 0) }
}

/// Reads the feed of a collection for a client: what its channels do not hold and the filters do not let pass is not part of it.
struct ChangesReading: Sendable {
    let call: CouchCall
    let question: ChangesQuestion

    private var needsBodies: Bool { question.includesDocuments || question.filter != nil || question.selector != nil || call.peer.pushFilter != nil }

    /// Where the feed begins.
    func start() async throws -> ChannelPlace {
        try await call.host.access.note(call.peer, call.collection)
        let collection = call.collection
        let newest = try await call.database.read { try $0.lastSequence(collection) }
        guard let since = question.since else { return ChannelPlace(newest) }
        return max(since.sequence, since.event.map { $0 - 1 } ?? 0) > newest ? ChannelPlace() : since
    }

    /// - Parameter kept: bytes that the answer goes on holding of pages before.
    /// - Throws: ``SelectorError`` where a selector costs too much.
    func page(from place: ChannelPlace, limit: Int, beside kept: Int = 0) async throws -> ChangesPage {
        guard let selector = question.selector else { return try await judged(from: place, limit: limit, beside: kept) }
        // The page before was taken by the client, and is not held while others have their turn.
        call.answer.hold(kept)
        return try await call.answer.matching {
            var page = try await judged(from: place, limit: limit, beside: kept)
            let matched = try await SelectorMatching.each(page.rows, SelectorBudget(), turn: .max, call.host.environment) { row, budget in
                try selector.means(row.document, &budget)
            }
            page.rows = zip(page.rows, matched.found).filter(\.1).map(\.0)
            return page
        }
    }

    /// What the filters let pass.
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
                // What it fails on is told of again, further on, when it does not fail any more.
                case .reject, .failed: isKept[index] = false
                }
            }
        }
        if let filter = question.filter {
            // What the listener's own filter keeps back is nothing to ask the client's about.
            let (asked, all) = (page.rows.indices.filter { isKept[$0] }, questions)
            let verdicts = await filter.allVerdicts(asked.map { all[$0] }, call.context(.push))
            for (index, verdict) in zip(asked, verdicts) {
                switch verdict {
                case .pass: continue
                case .replace(let body): page.rows[index].document.body = body
                case .reject: isKept[index] = false
                case .failed(let failure):
                    call.host.logger.warning(
                        "a feed stands still: \(failure.kind): \(failure.message)",
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

    /// With bodies and trees only while there is room for them.
    private func counted(from place: ChannelPlace, limit: Int, beside kept: Int) async throws -> (ChangesPage, [ChannelPlace]) {
        // The page before was taken by the client.
        call.answer.hold(kept)
        try await call.requireAdmission()
        guard needsBodies || question.allLeaves else {
            let found = try await read(from: place, limit: limit)
            call.answer.hold(kept + found.0.rows.reduce(0) { $0 + $1.bytes })
            return found
        }
        return try await call.answer.reading(2 * CouchLimits.pageBytes) {
            let found = try await read(from: place, limit: limit)
            return (found, kept + 2 * found.0.rows.reduce(0) { $0 + $1.bytes })
        }
    }

    /// With the place right before each row.
    private func read(from place: ChannelPlace, limit: Int) async throws -> (ChangesPage, [ChannelPlace]) {
        let (collection, question, needsBodies) = (call.collection, question, needsBodies)
        let (peer, waits) = (call.peer.channelPeer, call.peer.syncFunction != nil)
        if question.isEmpty {
            let newest = try await call.database.read { try $0.lastSequence(collection) }
            return (ChangesPage(place: ChannelPlace(newest), isEnd: true, newest: newest), [])
        }
        // Of most documents nothing but their leaves is told.
        let keepsTrees = question.includesDocuments && question.form.needsTree
        return try await call.database.read { transaction in
            if let peer {
                // Who chooses channels is bound by them: that a document left them is no end of it.
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
                            row.news == .visible && row.isFirsthand
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

    /// The current revision. A filter is asked about no other.
    private func found(_ change: ChangeRow, _ tree: RevisionTree?, isBound: Bool) -> FoundRevision {
        var found = FoundRevision(change, tree: tree)
        if isBound || call.peer.pushFilter != nil { found.hideBranches() }
        return found
    }

    /// What a client hears of a document that may read all of them.
    private func leaves(_ change: ChangeRow, _ tree: RevisionTree?) -> [RevisionID] {
        // Of other branches a client bound by a filter, which is asked about the current one, hears that they ended, and nothing else.
        let isFiltered = call.peer.pushFilter != nil
        let others = tree?.leaves.filter { $0.revision != change.revision && ($0.isDeleted || !isFiltered) } ?? []
        return [change.revision] + (question.allLeaves ? others.map(\.revision) : [])
    }

    /// What a client hears of a document that is bound to channels.
    private static func told(_ row: ChannelPage.Row, _ tree: RevisionTree?) -> [RevisionID] {
        let current = row.change.revision
        guard row.news != .visible else { return [current] + (row.isFirsthand ? tree?.endedLeaves(beside: current) ?? [] : []) }
        // That a document left the client's channels is not told: it may have it, and nothing newer. But it may not live on there as what others
        // deleted when it left.
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
    /// As JSON, for `since` of a later request.
    var json: String {
        guard let event else { return "\(sequence)" }
        // An event that is done is one of which every document was looked at.
        return "\"\(event):\(inEvent ?? event)\""
    }
}
