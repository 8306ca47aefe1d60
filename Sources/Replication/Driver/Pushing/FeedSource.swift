import Documents
import DocumentStore

/// The source of a push's documents: what to read, in the store's terms. Runs on the store's threads.
struct FeedSource: Sendable {
    let collection: Collection
    /// The store's id for the peer; nil if nothing is remembered about it.
    var remote: RemoteID?
    /// The store's notes on the peer are trusted for documents after this sequence. If the peer may have lost data, or it is unknown how far both
    /// sides are, that is where this session started.
    var trustsBehind: SequenceNumber = 0
    /// Documents in conflict are skipped until they are decided.
    var skipsConflicts: Bool
    /// Tombstones in the backlog are skipped up to this sequence, the newest at the first read; nil before it. The peer may have been sent documents
    /// that were deleted later.
    var activeOnlyThrough: SequenceNumber? = 0
    /// Tombstones of documents that the peer is not known to have are skipped.
    var skipsDeletions = false
    /// Only these documents; nil for all.
    var documentIDs: [DocumentID]?
    /// Larger bodies, in bytes, are left out; nil: none.
    var largestBody: Int?
    /// How the peer names revisions.
    var naming = RevisionNaming.trees
    /// Nil if the peer may see everything.
    var channels: ChannelQuestion?
    /// For a deleted document, the peer is sent each tombstone, the current one last: it may have the branch that another one ended, and may already
    /// have the current one. Not set if it may not learn of every branch.
    var reportsTombstones = false
    /// A revision of the peer's that lost a decision here is its only one, and what won is to follow it there.
    var followsLosers = false
    /// Decides of which removals from channels the peer is notified, and in which form.
    var tells: @Sendable (OutgoingDocument) -> OutgoingDocument? = { $0 }

    /// Reads the next part of the feed: documents that the peer may need, whoever they came from. What the store knows the peer to have is left out.
    ///
    /// - Parameters:
    ///   - limit: maximum number of rows to read.
    ///   - maxBytes: limit for bodies, in bytes; the row that exceeds it is the last one.
    ///   - isBacklog: the peer has not been told yet that it has caught up.
    ///   - historyLimit: maximum number of ancestors to name.
    func read(
        _ transaction: ReadTransaction, from position: FeedPosition, limit: Int, maxBytes: Int = StoreLimits.maxBodyBytesPerRead, isBacklog: Bool,
        historyLimit: Int
    ) throws(StoreError) -> FeedPage {
        if let channels, let place = position.channels {
            return try readChannels(transaction, channels, place, limit, maxBytes, isBacklog, historyLimit)
        }
        let changes = try transaction.changes(
            collection, since: position.sequence, limit: limit, includeBodies: true, ids: documentIDs, remote: remote, maxBytes: maxBytes)
        var page = FeedPage(next: position, isEnd: changes.isEmpty, newest: try transaction.lastSequence(collection))
        if changes.isEmpty { page.next.sequence = max(position.sequence, page.newest) }
        for change in changes {
            page.next.sequence = change.sequence
            let known = change.sequence > trustsBehind ? change.remoteRevision : nil
            if let known, known == change.revision {
                page.known.append(.init(id: change.id, sequence: change.sequence, version: try name(of: known, change)))
                continue
            }
            if (isBacklog && change.isDeleted && change.sequence <= activeOnlyThrough ?? .max) || (skipsConflicts && change.hasConflict)
                || (skipsDeletions && change.isDeleted && change.remoteRevision == nil)
            {
                continue
            }
            if let document = try document(transaction, change, peerVersion: known, page.newest, historyLimit) { page.documents.append(document) }
        }
        return page
    }

    private func readChannels(
        _ transaction: ReadTransaction, _ channels: ChannelQuestion, _ place: ChannelPlace, _ limit: Int, _ maxBytes: Int,
        _ isBacklog: Bool, _ historyLimit: Int
    ) throws(StoreError) -> FeedPage {
        var question = channels
        question.activeOnlyThrough = isBacklog ? activeOnlyThrough ?? .max : 0
        let found = try transaction.channelChanges(collection, from: place, question, limit: limit, maxBytes: maxBytes)
        var page = FeedPage(
            next: FeedPosition(found.place.sequence, channels: found.place), isEnd: found.isEnd, isBlocked: found.isBlocked,
            newest: found.newest)
        for row in found.rows.lazy.map({ $0.withheld() }) {
            guard var document = try document(transaction, row.change, peerVersion: nil, found.newest, historyLimit) else { continue }
            document.sequence = row.sequence
            document.visibility = row.visibility
            document.event = row.event
            if let told = tells(document) { page.documents.append(told) }
        }
        return page
    }

    /// Reads individual documents in their current state. Documents that are gone are left out, as are those that wait for a decision, which will
    /// change them.
    ///
    /// - Parameters:
    ///   - wanted: the documents, with the revision that the peer holds if more is known about that than the store has recorded.
    ///   - maxBytes: limit for bodies and histories; the document that exceeds it is the last one.
    /// - Returns: also, how many of the wanted documents were processed.
    func read(
        _ transaction: ReadTransaction, _ wanted: [(DocumentID, Version?)], maxBytes: Int = StoreLimits.maxBodyBytesPerRead, historyLimit: Int
    ) throws(StoreError) -> (documents: [OutgoingDocument], count: Int) {
        var documents: [OutgoingDocument] = []
        var (count, bytes) = (0, 0)
        let newest = try transaction.lastSequence(collection)
        for (id, known) in wanted where bytes < maxBytes {
            count += 1
            let found: ChangeRow?
            if let channels {
                found = try transaction.visibleChange(collection, id, channels)
            } else if documentIDs?.contains(id) ?? true {
                found = try transaction.changes(collection, since: 0, limit: 1, includeBodies: true, ids: [id], remote: remote).first
            } else {
                found = nil
            }
            guard let change = found, !(skipsConflicts && change.hasConflict) else { continue }
            var peerVersion = change.sequence > trustsBehind ? change.remoteRevision : nil
            if let known {
                if let named = try transaction.revision(named: known, collection, id) {
                    peerVersion = named
                } else if remote == nil {
                    peerVersion = known
                } else if try covers(transaction, id, change.revision, known) {
                    peerVersion = known
                }
            }
            if let document = try document(transaction, change, peerVersion: peerVersion, newest, historyLimit) {
                documents.append(document)
                bytes += document.heldBytes
            }
        }
        return (documents, count)
    }

    /// Documents that the push filter kept back, and that another version of it has not judged yet.
    func readKeptBack(
        _ transaction: ReadTransaction, after: DocumentID?, unlessJudgedBy current: (plugin: String, version: String)?, historyLimit: Int
    ) throws(StoreError) -> KeptBackPage {
        guard let remote else { return KeptBackPage(next: nil, isAny: false) }
        let size = DriverBounds.documentsPerPage
        let list = try transaction.exclusions(collection, remote: remote, direction: .push, after: after, limit: size)
        var page = KeptBackPage(next: nil, isAny: !list.isEmpty)
        var bytes = 0
        for kept in list {
            if bytes >= StoreLimits.maxBodyBytesPerRead { break }
            page.next = kept.id
            if kept.kind == .rejected, let current, kept.plugin == current.plugin, kept.version == current.version { continue }
            guard let found = try read(transaction, [(kept.id, nil)], historyLimit: historyLimit).documents.first, found.peerVersion != found.version else {
                page.settled.append(kept.id)
                continue
            }
            page.documents.append(found)
            bytes += found.heldBytes
        }
        if list.count < size, page.next == list.last?.id { page.next = nil }
        return page
    }

    /// Of these kept-back documents, the ones whose current revision the peer has, or of which nothing is left.
    func settled(_ transaction: ReadTransaction, _ ids: [DocumentID]) throws(StoreError) -> [DocumentID] {
        guard let remote else { return [] }
        var settled: [DocumentID] = []
        for id in ids where try transaction.exclusion(collection, remote: remote, direction: .push, id: id) != nil {
            guard let row = try transaction.row(collection, id, remote: remote), row.remoteRevision != row.revision else {
                settled.append(id)
                continue
            }
        }
        return settled
    }

    /// How our revision of a document relates to the one that the peer named.
    func compare(
        _ transaction: ReadTransaction, _ id: DocumentID, _ version: Version, with current: Version, historyLimit: Int = DocumentLimits.historyRevisions
    ) throws(StoreError) -> Comparison {
        let stored: RevisionTree?
        do throws(StoreError) { stored = try transaction.tree(collection, id) } catch {
            guard case .documentDamaged = error else { throw error }
            return .unknown
        }
        guard let tree = stored else { return .older }
        if naming != .trees {
            let row = try transaction.row(collection, id, remote: remote)
            let comparison = compareVectors(tree, version, with: current, row, historyLimit)
            // The peer has another version for it: compare by revision id, which both sides have.
            guard naming == .vectors, case .unknown = comparison, let ours = tree.revision(named: version), let theirs = row?.remoteRevision,
                tree.isAncestor(theirs, of: ours)
            else { return comparison }
            return .newer(history: [theirs])
        }
        // The end of a branch was offered to a peer that had already left it, or the peer's revision became current here in the meantime.
        if version != current, try transaction.row(collection, id)?.revision == current { return .same(current) }
        // It has changed since: the later revision is offered in its turn, and only that one's history is complete.
        guard tree.isLeaf(version) else { return .older }
        let ancestors = tree.ancestors(of: version)
        if let at = ancestors.firstIndex(of: current) { return .newer(history: Array(ancestors[...at])) }
        if tree.ancestors(of: current).contains(version) { return .older }
        if try transaction.pendingConflict(collection, id) != nil { return .branches }
        if areTombstones(tree, version, current) { return .same(current) }
        if goesOn(tree, version, beside: current) {
            let above = ancestors.prefix { tree.isDeleted($0) == false }
            // It was never deleted here: created anew at the peer, it keeps its id.
            guard above.count < ancestors.count else { return .goesOn(beside: current, sinceDeletion: []) }
            // Without what both have in common: the peer would take it for an edit of what it has deleted.
            return .goesOn(beside: current, sinceDeletion: above.prefix { !tree.isAncestor($0, of: current) })
        }
        return end(tree, of: current, beside: version).map { .ended($0) } ?? .unknown
    }

    /// Like `compare`, with the names used by a peer with version vectors.
    private func compareVectors(_ tree: RevisionTree, _ version: Version, with current: Version, _ row: ChangeRow?, _ historyLimit: Int) -> Comparison {
        guard let ours = tree.revision(named: version) else { return .older }
        // The peer may know it by the version that stands for its id.
        if version != current, let newest = row?.revision, tree.name(of: newest, naming) == current || tree.revision(named: current) == newest {
            return .same(current)
        }
        guard tree.isLeaf(ours) else { return .older }
        if let newest = row?.revision, newest != ours, covers(tree, newest, current) { return .covered(current) }
        if let theirs = tree.revision(named: current) {
            // By the name it had before it got a version here.
            if theirs == ours { return .same(current) }
            let ancestors = tree.ancestors(of: ours)
            let at = ancestors.firstIndex(of: theirs)
            // The history of a revision id is read as revision ids, even if an ancestor has a version.
            if let at, tree.vector(of: ours) == nil, naming == .vectors { return .newer(history: Array(ancestors[...at])) }
            // It may have got a version here since; the peer knows it by the name it sent.
            if let at { return .newer(history: ancestors[..<at].map { tree.name(of: $0, naming) } + [current]) }
            if tree.ancestors(of: theirs).contains(ours) { return .older }
        }
        // Our vector covers the peer's version, whose revision was pruned here or never arrived.
        if tree.vector(of: ours)?.knows(current.version ?? VectorVersion(standingFor: current)) == true { return .newer(history: [current]) }
        let theirs = tree.revision(named: current)
        if let theirs, row?.hasConflict != true, goesOn(tree, ours, beside: theirs) { return .goesOn(beside: current) }
        if row?.hasConflict != true {
            // A deletion may have a later name here, which another peer gave to it.
            let known = row?.remoteRevision.flatMap { known in current.version.flatMap { tree.vector(of: known)?.knows($0) } == true ? known : nil }
            if let theirs = theirs ?? known, areTombstones(tree, ours, theirs) { return .same(current) }
        }
        if tree.leaves.contains(where: { $0.revision != ours && tree.name(of: $0.revision, naming) == current }) { return .branches }
        return theirs.flatMap { end(tree, of: $0, beside: ours) }.map { .ended($0.named(tree, naming, historyLimit)) } ?? .unknown
    }

    /// Whether the peer's version is not here, and is covered by those of this revision.
    private func covers(_ tree: RevisionTree, _ revision: Version, _ theirs: Version) -> Bool {
        guard let version = theirs.version, tree.revision(named: theirs) == nil else { return false }
        return tree.vector(of: revision)?.knows(version) == true
    }

    private func covers(_ transaction: ReadTransaction, _ id: DocumentID, _ revision: Version, _ theirs: Version) throws(StoreError) -> Bool {
        guard theirs.version != nil else { return false }
        do throws(StoreError) { return try transaction.tree(collection, id).map { covers($0, revision, theirs) } ?? false } catch {
            guard case .documentDamaged = error else { throw error }
            return false
        }
    }

    /// Both are known deletions: it makes no difference which of them is current. A peer that was told of the ends of all its branches has one of those.
    private func areTombstones(_ tree: RevisionTree, _ ours: Version, _ theirs: Version) -> Bool {
        tree.isTombstone(ours) && (tree.isTombstone(theirs) || tree.leaves.contains { $0.isDeleted && RevisionTree.end(of: $0.revision) == theirs })
    }

    /// Ours is what is read beside theirs, which is a known deletion, and nothing is left to decide between the two: ours was created on top of another
    /// tombstone, or theirs ended a branch.
    private func goesOn(_ tree: RevisionTree, _ ours: Version, beside theirs: Version) -> Bool { tree.isDeleted(ours) == false && tree.isTombstone(theirs) }

    /// How a branch other than ours ended here; nil if the revision is on ours, or its branch continues.
    private func end(_ tree: RevisionTree, of revision: Version, beside ours: Version) -> BranchEnd? {
        if revision == ours || tree.isAncestor(revision, of: ours) { return nil }
        for leaf in tree.leaves where leaf.isDeleted && leaf.revision != ours {
            var end = leaf.revision
            if tree.isEnd(end) {
                // Ended by a decision for another branch: the peer's revision arrives again, and is decided then. But if what was given up is a deletion,
                // nothing is to be decided: the peer has to learn of that one.
                guard tree.endsTombstone(end), let tombstone = tree.parent(of: end) else { continue }
                end = tombstone
            }
            let ancestors = tree.ancestors(of: end)
            if let at = ancestors.firstIndex(of: revision) { return BranchEnd(version: end, history: Array(ancestors[...at])) }
        }
        return nil
    }

    /// The next tombstone other than ours to send to the peer, in ascending order; branches ended by decisions follow from the decisions' results.
    ///
    /// - Parameter told: the last one sent.
    private func tombstone(_ tree: RevisionTree, after told: Version?, beside ours: Version, _ historyLimit: Int) -> BranchEnd? {
        // While a conflict waits for its decision, a live branch may exist alongside the deletion that is read.
        let others = tree.leaves.reversed().filter { $0.isDeleted && $0.revision != ours && !tree.isEnd($0.revision) }.map(\.revision)
        let next = told == nil ? 0 : told.flatMap { others.firstIndex(of: $0) }.map { $0 + 1 }
        guard let next, next < others.count else { return nil }
        return BranchEnd(version: others[next], history: tree.ancestors(of: others[next], limit: historyLimit))
    }

    /// Blobs that the peer has shown or may have in any case, when it sends another revision of the document: those of the current revision, if the
    /// peer is known to hold that, and those of a few other documents for which the same is true.
    ///
    /// - Parameters:
    ///   - wanted: the blobs that the revision names; other documents are examined only for the first of these.
    ///   - limit: maximum size of a body in bytes; larger ones are not examined.
    func knownBlobs(_ transaction: ReadTransaction, _ id: DocumentID, _ wanted: [BlobDigest], limit: Int) throws(StoreError) -> Set<BlobDigest> {
        var known = try knownBlobs(transaction, id, limit: limit)
        var looked: Set<DocumentID> = [id]
        for digest in wanted.prefix(DriverBounds.blobsLookedFor) where !known.contains(digest) && looked.count <= DriverBounds.documentsExamined {
            for other in try transaction.documents(collection, naming: digest, limit: DriverBounds.documentsPerBlob) {
                guard !known.contains(digest), looked.count <= DriverBounds.documentsExamined, looked.insert(other).inserted else { continue }
                known.formUnion(try knownBlobs(transaction, other, limit: limit))
            }
        }
        return known
    }

    private func knownBlobs(_ transaction: ReadTransaction, _ id: DocumentID, limit: Int) throws(StoreError) -> Set<BlobDigest> {
        let row = try transaction.row(collection, id, remote: remote)
        guard let row, row.hasBlobs, row.remoteRevision == row.revision, row.bodySize <= limit else { return [] }
        let body = try transaction.row(collection, id, withBody: true)?.body ?? []
        return Set(((try? BlobReferences.find(in: body)) ?? []).map(\.digest))
    }

    /// Nil for a damaged document: it is set aside, and the feed continues after it.
    private func document(
        _ transaction: ReadTransaction, _ change: ChangeRow, peerVersion: Version?, _ newest: SequenceNumber, _ historyLimit: Int
    ) throws(StoreError) -> OutgoingDocument? {
        do throws(StoreError) {
            let body = change.body ?? []
            var document = OutgoingDocument(
                sequence: change.sequence, id: change.id, version: change.revision, isDeleted: change.isDeleted,
                blobs: change.hasBlobs ? ((try? BlobReferences.find(in: body)) ?? []).map(\.digest) : [], body: body, peerVersion: peerVersion)
            document.newestWhenRead = newest
            if let largestBody, body.count > largestBody { document.leaveOutBody() }
            if change.hasTree {
                let tree = try change.revisionTree()
                // Nobody has to learn of it.
                if tree.isNobodysDeletion(change.revision) { return nil }
                document.history = history(tree, of: change.revision, downTo: peerVersion, historyLimit, depth: transaction.historyDepth)
                document.hasOtherBranches = tree.hasSeveralLeaves
                if document.hasOtherBranches, let peerVersion { document.peerBranchEnd = end(tree, of: peerVersion, beside: change.revision) }
                if document.hasOtherBranches, change.isDeleted, reportsTombstones {
                    document.peerBranchEnd = tombstone(tree, after: peerVersion, beside: change.revision, historyLimit)
                }
                if followsLosers, document.peerBranchEnd == nil, let peerVersion, naming == .trees, !document.history.contains(peerVersion),
                    let joined = history(tree, of: change.revision, following: peerVersion, historyLimit, depth: transaction.historyDepth)
                {
                    (document.history, document.followsLoser) = (joined, true)
                }
                if naming != .trees { document.takeNames(tree, naming, historyLimit) }
            } else if naming == .versionsOnly {
                document.takeNames(try change.revisionTree(), naming, historyLimit)
            }
            document.noteHistory()
            return document
        } catch {
            guard transaction.setAside(collection, error) else { throw error }
            return nil
        }
    }

    private func name(of revision: Version, _ change: ChangeRow) throws(StoreError) -> Version {
        guard naming != .trees, change.hasTree else { return revision.named(naming) }
        do throws(StoreError) { return try change.revisionTree().name(of: revision, naming) } catch {
            guard case .documentDamaged = error else { throw error }
            return revision
        }
    }

    /// Ancestors, back to the revision that the peer holds.
    ///
    /// - Parameter depth: how many revisions a pruned history has at least.
    private func history(_ tree: RevisionTree, of version: Version, downTo peerVersion: Version?, _ limit: Int, depth: Int) -> [Version] {
        let history = tree.history(of: version, limit: limit, until: peerVersion.map { [$0] } ?? [])
        guard let peerVersion, !history.isEmpty, !history.contains(peerVersion) else { return history }
        // An ancestor of the same generation takes its place, so the peer holds another branch.
        guard !tree.contains(peerVersion), version.generation > peerVersion.generation,
            !tree.ancestors(of: version).contains(where: { $0.generation == peerVersion.generation })
        else { return history }
        // The document changed so often that the revision which the peer acknowledged was pruned here. It is an ancestor nevertheless, and peers
        // accept the gap, as in any pruned history. Older revisions, kept for other peers, are of less use to this one.
        let above = history.prefix { $0.generation > peerVersion.generation }
        // But not in a history that is too short to have been pruned: what lies between never came here.
        let hasGap = above.last.map { $0.generation > peerVersion.generation + 1 } ?? false
        return hasGap && above.count + 2 < depth ? Array(above) : above + [peerVersion]
    }

    /// Ancestors for a peer whose revision lost a decision here, back to that one, as if the document had gone on from it. The peer takes nothing else, and
    /// it need not know the branch that won: that may be of another peer, with which it does not replicate. So both get the same revision, each as the
    /// successor of its own.
    ///
    /// - Returns: nil if it has not lost, or would have to be followed by an earlier generation.
    private func history(_ tree: RevisionTree, of version: Version, following loser: Version, _ limit: Int, depth: Int) -> [Version]? {
        guard version.generation > loser.generation, hasLost(loser, tree) else { return nil }
        let above = tree.history(of: version, limit: limit, until: []).prefix { $0.generation > loser.generation }
        let hasGap = (above.last ?? version).generation > loser.generation + 1
        return hasGap && above.count + 2 < min(depth, limit) ? nil : above + [loser]
    }

    /// Its branch ended here, or left nothing behind.
    private func hasLost(_ revision: Version, _ tree: RevisionTree) -> Bool {
        guard tree.contains(revision) else { return true }
        guard tree.isDeleted(revision) == false, let end = tree.endOfBranch(of: revision) else { return false }
        return !tree.endsTombstone(end)
    }
}
