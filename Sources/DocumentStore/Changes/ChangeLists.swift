import Documents
import SQLite

extension ReadTransaction {
    /// Current revisions in order of sequence.
    /// - Parameters:
    ///   - since: only rows with greater sequences.
    ///   - limit: number of rows wanted; at most `StoreLimits.maxRowsPerRead` are returned, and fewer if bodies and stored trees exceed `maxBytes`.
    ///     An empty result means there are no more.
    ///   - includeDeleted: include tombstones.
    ///   - ids: only these documents.
    ///   - remote: fills `ChangeRow.remoteRevision`.
    public final func changes(
        _ collection: Collection, since: SequenceNumber, limit: Int, includeBodies: Bool,
        includeDeleted: Bool = true, ids: [DocumentID]? = nil, remote: RemoteID? = nil, maxBytes: Int = StoreLimits.maxBodyBytesPerRead
    ) throws(StoreError) -> [ChangeRow] {
        let limit = min(limit, StoreLimits.maxRowsPerRead)
        guard limit > 0, let since = Int64(exactly: since) else { return [] }
        let tables = try tables(collection)
        if let ids {
            return try changes(
                tables, of: ids, since: since, limit: limit, includeBodies: includeBodies,
                includeDeleted: includeDeleted, remote: remote, maxBytes: maxBytes)
        }
        let statement = try tables.statement(includeBodies ? .changesWithBodies : .changes)
        statement.bind(1, since)
        // Skipped tombstones do not count, so the limit is applied here.
        statement.bind(2, includeDeleted ? Int64(limit) : -1)
        defer { statement.reset() }
        var rows: [ChangeRow] = []
        rows.reserveCapacity(min(limit, 1000))
        var bytes = 0
        while try session.step(statement) {
            let flags = statement.integer(3)
            if !includeDeleted && flags & DocumentFlags.deleted != 0 { continue }
            rows.append(try changeRow(statement, flags, includeBodies, remote))
            bytes += rows[rows.count - 1].heldBytes
            if rows.count == limit || bytes >= maxBytes { break }
        }
        return rows
    }

    /// The same for a few documents: each is looked up, then they are sorted.
    private func changes(
        _ tables: CollectionTables, of ids: [DocumentID], since: Int64, limit: Int, includeBodies: Bool,
        includeDeleted: Bool, remote: RemoteID?, maxBytes: Int
    ) throws(StoreError) -> [ChangeRow] {
        let find = try tables.find()
        var sequences: [Int64] = []
        for id in ids {
            let sequence = try tables.index.seek(id, find).sequence
            guard sequence > 0 else { continue }
            defer { find.reset() }
            if sequence > since && (includeDeleted || find.integer(2) & DocumentFlags.deleted == 0) {
                sequences.append(sequence)
            }
        }
        sequences.sort()
        let statement = try tables.statement(includeBodies ? .changesWithBodies : .changes)
        defer { statement.reset() }
        var rows: [ChangeRow] = []
        var bytes = 0
        var previous: Int64 = 0
        for sequence in sequences where sequence != previous {
            previous = sequence
            statement.reset()
            statement.bind(1, sequence - 1)
            statement.bind(2, 1)
            guard try session.step(statement) else { continue }
            rows.append(try changeRow(statement, statement.integer(3), includeBodies, remote))
            bytes += rows[rows.count - 1].heldBytes
            if rows.count == limit || bytes >= maxBytes { break }
        }
        return rows
    }

    @inline(__always)
    private func changeRow(
        _ statement: Statement, _ flags: Int64, _ includeBodies: Bool, _ remote: RemoteID?
    ) throws(StoreError) -> ChangeRow {
        let revision = RevisionID(stored: statement.text(2))
        let id = DocumentID(stored: statement.text(1))
        var remoteRevision: RevisionID?
        if let remote {
            remoteRevision = remotes(statement, 5).revision(remote, current: revision)
        }
        let body = includeBodies ? statement.blob(6) : nil
        return ChangeRow(
            sequence: SequenceNumber(statement.integer(0)),
            id: id,
            revision: revision,
            isDeleted: flags & DocumentFlags.deleted != 0,
            hasConflict: flags & DocumentFlags.conflicted != 0,
            hasBlobs: flags & DocumentFlags.blobs != 0,
            bodySize: body?.count ?? Int(statement.integer(6)),
            body: body,
            remoteRevision: remoteRevision,
            tree: statement.blobIfPresent(4)
        )
    }

    // MARK: offers and proposals from a peer

    /// For a peer's `changes`: which of the revisions are wanted, and what we hold of those documents. A revision counts as held if it is anywhere in
    /// the tree. It also counts as held if a remote is known to have it (or it is an echo of what we sent) and it may be an ancestor that was pruned
    /// here; otherwise it belongs to a branch that a decision dropped and that the peer continued, so it is wanted again.
    ///
    /// - Parameters:
    ///   - skipsDeletions: deletions of documents that are not here are not wanted.
    ///   - peer: the peer that offers them, if the store remembers it.
    ///   - hasOne: the peer has one revision of each document: what it offers is its current one.
    ///   - isBounded: the peer must not learn which revisions we hold besides those that it is known to have.
    ///   - naming: how the peer names revisions.
    public final func missing(
        _ collection: Collection, _ offers: [RevisionOffer], maxAncestors: Int = 10, skipsDeletions: Bool = false,
        from peer: RemoteID? = nil, hasOne: Bool = true, onlyKnown isBounded: Bool = false, naming: RevisionNaming = .trees
    ) throws(StoreError) -> [RevisionNeed] {
        let tables = try tables(collection)
        let find = try tables.find()
        var needs: [RevisionNeed] = []
        needs.reserveCapacity(offers.count)
        var trees = ListedTrees()
        for offer in offers {
            let place = try tables.index.seek(offer.id, find)
            guard place.sequence > 0 else {
                needs.append(skipsDeletions && offer.isDeletion ? .have : .need(ancestors: [], known: peer == nil ? .unknown : .none))
                continue
            }
            defer { find.reset() }
            if columnEquals(find, 1, offer.revision) {
                needs.append(.have)
                continue
            }
            let row = try row(find, place, offer.id)
            switch naming {
            case .trees: needs.append(try need(collection, offer, row, &trees, maxAncestors, peer, hasOne, isBounded))
            case .vectors, .versionsOnly: needs.append(try need(collection, offer, row, &trees, peer, hasOne, isBounded, naming))
            }
        }
        return needs
    }

    private func need(
        _ collection: Collection, _ offer: RevisionOffer, _ row: Row, _ trees: inout ListedTrees, _ maxAncestors: Int, _ peer: RemoteID?, _ hasOne: Bool,
        _ isBounded: Bool
    ) throws(StoreError) -> RevisionNeed {
        let revision = offer.revision
        let isKnown = offer.isEcho || row.remotes.entries.contains { $0.revision == revision }
        // The ancestors that may be named: the remote's revision and its ancestors, or everything.
        let known = peer.flatMap { row.remotes.revision($0, current: row.revision) }
        let state = peer == nil ? PeerRevision.unknown : PeerRevision(known)
        let namesCurrent = !isBounded || known == row.revision
        guard row.tree != nil else {
            if isKnown, revision.generation < row.revision.generation { return .haveEarlier }
            return .need(ancestors: namesCurrent && row.revision.generation < revision.generation ? [row.revision] : [], known: state)
        }
        let tree: RevisionTree
        do throws(StoreError) { tree = try trees.tree(of: row, offer.id, collection, self) } catch {
            // What the peer had is unknown; the revision that arrives may repair the document.
            guard case .documentDamaged = error else { throw error }
            return .need(ancestors: namesCurrent && row.revision.generation < revision.generation ? [row.revision] : [], known: state)
        }
        let hasTurned = hasOne && peer.map { row.isLeft(by: $0, for: revision, in: tree) } == true
        // A branch that ended here as the losing side is one that the peer continued.
        let isHere = tree.contains(revision) && !(hasOne && tree.endOfBranch(of: revision) != nil)
        if !hasTurned, isHere || isKnown && !tree.contains(revision) && tree.mayHavePruned(revision) { return .haveEarlier }
        // The current revision first: its body is certainly stored, so it is the best delta base.
        var ancestors: [RevisionID] = []
        // A branch that ended here may go on at the peer below what is current. The peer's history goes back to that if no ancestor on the branch is named.
        let branches = tree.contains(revision) && !row.isDeleted ? [] : tree.leaves.map(\.revision)
        let ends = !isBounded ? [row.revision] + branches : [known].compactMap(\.self)
        for leaf in ends {
            for candidate in [leaf] + tree.ancestors(of: leaf, limit: maxAncestors) {
                guard ancestors.count < maxAncestors else { return .need(ancestors: ancestors, known: state) }
                if candidate.generation < revision.generation && !ancestors.contains(candidate) {
                    ancestors.append(candidate)
                }
            }
        }
        return .need(ancestors: ancestors, known: state)
    }

    /// The same for a peer with version vectors. At most one revision is named: the current one, as the best delta base.
    private func need(
        _ collection: Collection, _ offer: RevisionOffer, _ row: Row, _ trees: inout ListedTrees, _ peer: RemoteID?, _ hasOne: Bool, _ isBounded: Bool,
        _ naming: RevisionNaming
    ) throws(StoreError) -> RevisionNeed {
        let known = peer.flatMap { row.remotes.revision($0, current: row.revision) }
        let state = peer == nil ? PeerRevision.unknown : PeerRevision(known)
        let namesCurrent = !isBounded || known == row.revision
        let tree: RevisionTree
        do throws(StoreError) { tree = try trees.tree(of: row, offer.id, collection, self) } catch {
            guard case .documentDamaged = error else { throw error }
            return .need(ancestors: [], known: state)
        }
        let here = tree.revision(named: offer.revision)
        // Of several tombstones that the peer reports one after the other, an earlier one had replaced this one here. Or it continues a branch that lost
        // here, by revision ids, of which no vector tells it.
        if hasOne, peer != nil, let here, row.isDeleted || tree.isDeleted(here) == false, tree.isGivenUp(here, for: row.revision) {
            return .need(ancestors: [], known: state)
        }
        if let version = offer.revision.version {
            if let here {
                // The peer has returned to our revision, and it knows best: what we took for its current revision no longer is.
                if hasOne, let peer, row.isLeft(by: peer, for: here, in: tree) { return .need(ancestors: [], known: state) }
                return here == row.revision ? .have : .haveEarlier
            }
            if tree.leaves.contains(where: { tree.vector(of: $0.revision)?.knows(version) == true }) { return .haveEarlier }
        } else {
            let isKnown = offer.isEcho || row.remotes.entries.contains { $0.revision == offer.revision }
            if here == row.revision { return .have }
            if here != nil || isKnown && tree.mayHavePruned(offer.revision) { return .haveEarlier }
        }
        return .need(ancestors: namesCurrent ? [tree.name(of: row.revision, naming)] : [], known: state)
    }

    /// For a peer's `proposeChanges` (replication.md section 5): which revisions may be sent. Any proposal for a document that does not exist here is
    /// accepted, as in Sync Gateway.
    public final func checkProposals(
        _ collection: Collection, _ rows: [Proposal], naming: RevisionNaming = .trees
    ) throws(StoreError) -> [ProposalVerdict] {
        let tables = try tables(collection)
        let find = try tables.find()
        var verdicts: [ProposalVerdict] = []
        verdicts.reserveCapacity(rows.count)
        var trees = ListedTrees()
        for row in rows {
            let place = try tables.index.seek(row.id, find)
            guard place.sequence > 0 else {
                verdicts.append(.accept)
                continue
            }
            defer { find.reset() }
            switch naming {
            case .trees:
                verdicts.append(
                    try verdict(row, find) { () throws(StoreError) in try trees.tree(of: self.row(find, place, row.id), row.id, collection, self) })
            case .vectors, .versionsOnly: verdicts.append(try verdict(row, self.row(find, place, row.id), &trees, collection, naming))
            }
        }
        return verdicts
    }

    private func verdict(
        _ proposal: Proposal, _ find: Statement, _ readTree: () throws(StoreError) -> RevisionTree
    ) throws(StoreError) -> ProposalVerdict {
        if columnEquals(find, 1, proposal.revision) { return .have }
        if let parent = proposal.parent {
            if columnEquals(find, 1, parent) { return .accept }
            let current = RevisionID(stored: find.text(1))
            do throws(StoreError) {
                let tree = try readTree()
                if tree.isStandIn(current, for: parent) || tree.isNobodysDeletion(current) { return .accept }
            } catch {
                guard case .documentDamaged = error else { throw error }
            }
        } else if find.integer(2) & DocumentFlags.deleted != 0, !proposal.missesDeletion {
            do throws(StoreError) {
                // A branch that ended here is nothing new: accepted silently, it would live on at its sender, which has not learned of its end.
                let tree = try readTree()
                if !tree.contains(proposal.revision) || tree.isNobodysDeletion(RevisionID(stored: find.text(1))) { return .accept }
            } catch {
                // The proposed revision may repair it.
                guard case .documentDamaged = error else { throw error }
                return .accept
            }
        }
        return .conflict(current: RevisionID(stored: find.text(1)))
    }

    /// Like Sync Gateway's `CheckProposedVersion` (replication.md section 7).
    private func verdict(
        _ proposal: Proposal, _ row: Row, _ trees: inout ListedTrees, _ collection: Collection, _ naming: RevisionNaming
    ) throws(StoreError) -> ProposalVerdict {
        let tree: RevisionTree
        do throws(StoreError) { tree = try trees.tree(of: row, proposal.id, collection, self) } catch {
            // The proposed revision may repair it.
            guard case .documentDamaged = error else { throw error }
            return .accept
        }
        let current = tree.name(of: row.revision, naming)
        if proposal.revision == current || proposal.revision == row.revision { return .have }
        if tree.isNobodysDeletion(row.revision) { return .accept }
        if let parent = proposal.parent {
            if parent == current || parent == row.revision || tree.isStandIn(row.revision, for: parent) { return .accept }
        } else if row.isDeleted, !proposal.missesDeletion, tree.revision(named: proposal.revision) == nil,
            proposal.revision.version.map({ tree.vector(of: row.revision)?.knows($0) != true }) ?? true {
            return .accept
        }
        // The sender learns of the deletion, and has nothing more to contribute: its revision is another deletion, or ended here.
        if row.isDeleted, let here = tree.revision(named: proposal.revision), proposal.parent == nil || tree.isTombstone(here) {
            return .conflict(current: current)
        }
        if let version = proposal.revision.version {
            if let vector = proposal.vector, tree.place(of: vector, current: row.revision) == .below(row.revision) { return .accept }
            if let vector = tree.vector(of: row.revision) {
                // A sender that does not know of the deletion does not know either that its revision is older: it would keep that.
                if vector.knows(version) { return row.isDeleted && proposal.parent == nil ? .conflict(current: current) : .haveNewer }
                if version.isLater(than: vector.current) { return .accept }
            }
        }
        return .conflict(current: current)
    }

    @inline(__always)
    private func columnEquals(_ statement: Statement, _ column: Int32, _ revision: RevisionID) -> Bool {
        statement.withText(column) { stored in
            revision.text.utf8.count == stored.count && revision.text.utf8.elementsEqual(stored)
        }
    }
}
