import Documents
import DocumentStore
import HTTPServer
import Interfaces
import Replication

/// A revision that the client may read.
struct FoundRevision: Sendable {
    var id: DocumentID
    var revision: RevisionID
    var isDeleted: Bool
    var body: [UInt8]
    var sequence: SequenceNumber
    /// The document's revision tree, if more than the current revision is known: only the branches that the client may see.
    var tree: RevisionTree?
    /// Whether some revision of the document has blobs.
    var hasBlobs: Bool
    /// Ancestors whose bodies are still stored, if these were requested.
    var kept: Set<RevisionID> = []
}

/// Which revisions of a document are requested.
enum WantedRevisions: Sendable {
    case current
    /// With `latest`, the leaves that descend from them.
    case named([RevisionID], latest: Bool)
    case leaves
}

/// The result for one document, limited to what the client may see.
struct FoundDocument: Sendable {
    var id: DocumentID
    var revisions: [FoundRevision] = []
    var missing: [RevisionID] = []
    /// The revisions that the client named.
    var asked: [RevisionID] = []
    /// Nil if there is none for the client.
    var current: RevisionID?
    var isDeleted = false
    /// A filter failed on the document, which is left out.
    var failure: PolicyFailure?
    /// The stored document cannot be read, and is left out.
    var isDamaged = false
    /// The size of its revision trees in bytes.
    var treeBytes = 0

    /// The size of its contents.
    var bytes: Int { treeBytes + revisions.reduce(0) { $0 + $1.body.count } }
}

/// Reads documents for a client: documents outside its channels, and those that the listener's push filter rejects, do not exist for it.
struct DocumentReading: Sendable {
    let call: CouchCall
    /// A filter from the request itself, asked after the listener's.
    var further: (any DocumentFilter)?
    /// Whether documents on which a filter fails are left out of a list; otherwise the answer is 503.
    var omitsFailures = false

    struct Question: Sendable {
        var id: DocumentID
        var wanted: WantedRevisions = .current
        /// Whether to find out which ancestors are still stored.
        var withKept = false
    }

    /// Determines the client's channels, once per request.
    func prepare() async throws { try await call.host.access.note(call.peer, call.collection) }

    /// - Parameter evenDamaged: for a caller that will replace or delete the document.
    /// - Throws: ``HTTPError`` 500 if the document is damaged.
    func one(
        _ id: DocumentID, _ wanted: WantedRevisions = .current, withTree: Bool = false, withKept: Bool = false, evenDamaged: Bool = false
    ) async throws -> FoundDocument {
        try await prepare()
        let question = Question(id: id, wanted: wanted, withKept: withKept)
        let document = try await page([question][...], withTrees: withTree || withKept).first ?? FoundDocument(id: id)
        // The store has logged the reason.
        if document.isDamaged, !evenDamaged { throw CouchError.from(.documentDamaged(id: id, detail: "")) }
        return document
    }

    /// Some of the first documents: at least one, and as many as may be held at once.
    ///
    /// - Parameter kept: bytes from previous pages that the answer keeps holding.
    func page(_ questions: ArraySlice<Question>, withTrees: Bool, withBodies: Bool = true, beside kept: Int = 0) async throws -> [FoundDocument] {
        let (collection, peer) = (call.collection, call.peer.channelPeer)
        let isFiltered = call.peer.pushFilter != nil
        let needsBodies = withBodies || isFiltered
        // The client has received the previous page.
        call.answer.hold(kept)
        try await call.requireAdmission()
        var needed: Int?
        while true {
            // While there is no memory for a whole page, small documents come at once, a few at a time.
            let page = try await call.answer.reading(2 * (needed ?? CouchLimits.pageBytes), orFew: needed == nil) { bytes -> (Page, bytes: Int) in
                let room = bytes / 2
                let read = try await call.database.read { transaction in
                    let access = try peer.map { try transaction.channelAccess(collection, of: $0) }
                    var found: [FoundDocument] = []
                    var bytes = 0
                    for question in questions where bytes < CouchLimits.pageBytes && found.count < CouchLimits.pageRows {
                        var document = FoundDocument(id: question.id)
                        do throws(StoreError) {
                            let size = try Self.size(question, collection, transaction, withTrees: withTrees, withBodies: needsBodies)
                            if bytes + size > room {
                                if found.isEmpty { return Page.needs(size) }
                                break
                            }
                            document = try Self.read(question, collection, access, transaction, withTrees: withTrees, withBodies: needsBodies)
                        } catch {
                            guard transaction.setAside(collection, error) else { throw error }
                            // It is unknown whether the client may read the document, so a restricted client must not learn that it exists.
                            document = FoundDocument(damaged: question, isTold: !isFiltered && access?.hasEverything ?? true)
                        }
                        if withBodies, let damage = document.revisions.lazy.compactMap(\.damage).first {
                            transaction.setAside(collection, damage)
                            let (current, isDeleted) = (document.current, document.isDeleted)
                            document = FoundDocument(damaged: question, isTold: !isFiltered)
                            if !isFiltered { (document.current, document.isDeleted) = (current, isDeleted) }
                        }
                        bytes += document.bytes
                        found.append(document)
                    }
                    return Page.found(found)
                }
                guard case .found(let found) = read else { return (read, kept) }
                // Counted twice: as read and as written.
                return (read, kept + 2 * found.reduce(0) { $0 + $1.bytes })
            }
            try Task.checkCancellation()
            switch page {
            case .found(let documents): return try await judged(try await droppingMissingBlobs(documents))
            case .needs(let bytes): needed = bytes
            }
        }
    }

    /// A replaced body may refer to blobs that have been collected; then the revision counts as gone, too.
    private func droppingMissingBlobs(_ documents: [FoundDocument]) async throws -> [FoundDocument] {
        var documents = documents
        for index in documents.indices {
            for found in documents[index].revisions where found.hasBlobs && found.tree?.leaves.contains(where: { $0.revision == found.revision }) == false {
                let named = ((try? BlobReferences.find(in: found.body)) ?? []).map(\.digest)
                guard try await call.database.blobs.perform({ blobs in named.contains { blobs.size($0) == nil } }) else { continue }
                documents[index].revisions.removeAll { $0.revision == found.revision }
                documents[index].missing.append(found.revision)
            }
        }
        return documents
    }

    private enum Page: Sendable {
        case found([FoundDocument])
        /// The first document alone has this many bytes: it is read when there is memory for them.
        case needs(Int)
    }

    /// The minimum size of the requested bodies and revision tree.
    private static func size(
        _ question: Question, _ collection: Collection, _ transaction: ReadTransaction, withTrees: Bool, withBodies: Bool
    ) throws(StoreError) -> Int {
        guard let row = try transaction.changes(collection, since: 0, limit: 1, includeBodies: false, ids: [question.id]).first else { return 0 }
        let bodySize = withBodies ? row.bodySize : 0
        guard row.hasTree, !question.wanted.isCurrent else { return bodySize + (withTrees ? row.treeMemorySize : 0) }
        var size = bodySize + row.treeMemorySize
        guard withBodies else { return size }
        let tree = try row.revisionTree()
        let revisions: [RevisionID] =
            switch question.wanted {
            case .current: []
            case .leaves: tree.leaves.map(\.revision)
            case .named(let revisions, let latest): latest ? revisions + tree.leaves.map(\.revision) : revisions
            }
        for revision in Set(revisions) where revision != row.revision {
            size += try transaction.deltaBaseSize(collection, question.id, revision) ?? 0
        }
        return size
    }

    private static func read(
        _ question: Question, _ collection: Collection, _ access: ChannelAccess?, _ transaction: ReadTransaction, withTrees: Bool, withBodies: Bool
    ) throws(StoreError) -> FoundDocument {
        let id = question.id
        var document = FoundDocument(id: id)
        if case .named(let revisions, _) = question.wanted { (document.missing, document.asked) = (revisions, revisions) }
        guard var row = try transaction.changes(collection, since: 0, limit: 1, includeBodies: withBodies, ids: [id]).first else { return document }
        // For a document that left the client's channels before its last change, the client learns only that it is deleted.
        var (sequence, isFirsthand) = (row.sequence, true)
        let bound = access.flatMap { $0.hasEverything ? nil : $0 }
        if let bound, try !transaction.isVisible(collection, id, row.revision, to: bound) {
            // A tombstone is in no channel. The feed reports it to clients from whose channels the document was removed, so they must be able to
            // fetch it.
            guard let departure = try transaction.departure(collection, id, row.revision, from: bound) else { return document }
            sequence = departure.sequence
            isFirsthand = departure.wasHeld && departure.sequence == row.sequence
            guard row.isDeleted else { return isFirsthand ? try ended(question, row, document) : document }
            // Its contents are only for clients whose channels include it.
            if row.body != nil { row.body = Array("{}".utf8) }
            row.hasBlobs = false
        }
        document.current = row.revision
        document.isDeleted = row.isDeleted
        func revision(_ revision: RevisionID, _ isDeleted: Bool, _ body: [UInt8]?, _ tree: RevisionTree?) {
            document.revisions.append(
                isFirsthand
                    ? FoundRevision(
                        id: id, revision: revision, isDeleted: isDeleted, body: body ?? [], sequence: sequence, tree: tree, hasBlobs: row.hasBlobs)
                    : FoundRevision(ended: revision, of: id, at: sequence, in: tree))
        }
        // Channels are assigned to current revisions, so a client restricted to channels learns of another branch only when that has ended.
        let tree: RevisionTree? =
            if row.hasTree, withTrees || !question.wanted.isCurrent { try row.revisionTree() } else { nil }
        document.treeBytes = tree?.memorySize ?? 0
        switch question.wanted {
        case .current: revision(row.revision, row.isDeleted, row.body, tree)
        case .leaves:
            for leaf in tree?.leaves ?? [] where leaf.revision != row.revision && bound == nil {
                revision(leaf.revision, leaf.isDeleted, try transaction.body(collection, id, leaf.revision), tree)
            }
            revision(row.revision, row.isDeleted, row.body, tree)
        case .named(let revisions, let latest):
            document.missing = []
            for wanted in revisions {
                if wanted == row.revision || latest && tree?.isAncestor(wanted, of: row.revision) == true {
                    if !document.revisions.contains(where: { $0.revision == row.revision }) {
                        revision(row.revision, row.isDeleted, row.body, tree)
                    }
                } else if bound == nil, let tree, tree.contains(wanted) {
                    let leaves = latest ? tree.leaves.map(\.revision).filter { $0 == wanted || tree.isAncestor(wanted, of: $0) } : [wanted]
                    for each in leaves where !document.revisions.contains(where: { $0.revision == each }) {
                        // Replaced bodies are kept for a while.
                        if let body = try transaction.deltaBase(collection, id, each) ?? (tree.isEnd(each) ? Array("{}".utf8) : nil) {
                            revision(each, tree.isDeleted(each) ?? false, body, tree)
                        } else {
                            document.missing.append(each)
                        }
                    }
                } else {
                    document.missing.append(wanted)
                }
            }
            if bound != nil, isFirsthand, let tree { addEnded(tree.endedLeaves(beside: row.revision), tree, latest: latest, row, &document) }
        }
        if bound != nil { document.hideBranches(but: isFirsthand ? tree?.endedLeaves(beside: row.revision) ?? [] : []) }
        if question.withKept, bound == nil, let tree {
            for index in document.revisions.indices {
                for ancestor in tree.ancestors(of: document.revisions[index].revision)
                where try transaction.deltaBaseSize(collection, id, ancestor) != nil { document.revisions[index].kept.insert(ancestor) }
            }
        }
        return document
    }

    /// What a client may read of a document that left its channels with its last change: the tombstones of the branches that it had.
    private static func ended(_ question: Question, _ row: ChangeRow, _ document: FoundDocument) throws(StoreError) -> FoundDocument {
        guard case .named(_, let latest) = question.wanted, row.hasTree else { return document }
        var document = document
        let tree = try row.revisionTree()
        addEnded(tree.endedWinners(before: row.revision), tree, latest: latest, row, &document)
        return document
    }

    /// Adds tombstones in place of requested revisions that are not visible; with `latest`, also those that ended them.
    private static func addEnded(
        _ ended: [RevisionID], _ tree: RevisionTree, latest: Bool, _ row: ChangeRow, _ document: inout FoundDocument
    ) {
        document.missing.removeAll { wanted in
            let leaves = ended.filter { $0 == wanted || latest && tree.isAncestor(wanted, of: $0) }
            for leaf in leaves where !document.revisions.contains(where: { $0.revision == leaf }) {
                let end = FoundRevision(ended: leaf, of: document.id, at: row.sequence, in: tree)
                document.treeBytes += end.tree?.memorySize ?? 0
                document.revisions.append(end)
            }
            return !leaves.isEmpty
        }
    }

    /// - Throws: ``HTTPError`` 503 if a filter fails: a document that could not be judged is neither shown nor reported as missing. A list continues
    ///   without it, and contains a warning.
    private func judged(_ documents: [FoundDocument]) async throws -> [FoundDocument] {
        var documents = documents
        for filter in [call.peer.pushFilter, further].compactMap(\.self) {
            let revisions = documents.flatMap(\.revisions)
            let questions = revisions.map { PolicyDocument(id: $0.id, revision: $0.revision, isDeleted: $0.isDeleted, body: $0.body) }
            var verdicts = await filter.allVerdicts(questions, call.context(.push)).makeIterator()
            for index in documents.indices {
                var passed: [FoundRevision] = []
                for var revision in documents[index].revisions {
                    switch verdicts.next() ?? .reject {
                    case .pass: passed.append(revision)
                    case .replace(let body):
                        revision.body = body
                        passed.append(revision)
                    case .reject:
                        // Only revisions named by the client are mentioned: with the id of any other, it could change the document.
                        if documents[index].asked.contains(revision.revision) { documents[index].missing.append(revision.revision) }
                        if revision.revision == documents[index].current { documents[index].current = nil }
                    case .failed(let failure):
                        guard omitsFailures else { throw Self.undecided(failure) }
                        documents[index].failure = failure
                        documents[index].current = nil
                    }
                }
                if passed.isEmpty { documents[index].missing = documents[index].asked }
                documents[index].revisions = passed
                documents[index].hideBranches()
            }
        }
        return documents
    }

    static func undecided(_ failure: PolicyFailure) -> HTTPError {
        HTTPError(503, "the agent that has the document cannot decide at the moment whether it may be read: \(failure.kind) of its plugin \(failure.plugin)", headers: ["Retry-After": "1"])
    }

    /// The warning in an answer that is incomplete because a filter failed.
    static func warning(_ failure: PolicyFailure) -> String {
        "not all documents are here: \(failure.kind) of the plugin \(failure.plugin), which decides what may be read"
    }
}

extension WantedRevisions {
    fileprivate var isCurrent: Bool {
        if case .current = self { return true }
        return false
    }
}
