import Documents
import DocumentStore
import Encodings
import Interfaces

/// Conflicts: the peer keeps every branch. A branch that lost here is ended there as well, so that all peers arrive at the same result.
///
/// A branch is ended only if the peer has the winner and the winner is greater by the peer's own order of leaves. So the greatest live leaf remains,
/// whatever several peers decide at the same time. If that is not the winner here, since it was decided before it was known which branches the peer has, or
/// since others decided as well, the branch is taken up again here.
extension CouchDialect {
    func decided(_ slot: Int, _ outcomes: [ConflictDecider.Outcome]) {
        state.withLock { state in
            // For conflicts left over from an earlier connection, the peer's rows were seen then.
            for outcome in outcomes where state.branches[outcome.id] != nil || state.canRememberMore(feedMemory.share) {
                for revision in outcome.branches where state.branches[outcome.id]?.leaves[revision] == nil {
                    state.branches[outcome.id, default: Branches()].leaves[revision] = .here
                }
            }
        }
        endLosers(of: outcomes.map(\.id))
    }

    /// Looks for branches that may be ended now, or that have to be taken up again.
    ///
    /// - Parameter isReview: they are in the peer's rows, as they were before. Only what the peer may prefer to the winner here is looked at.
    func endLosers(of ids: some Sequence<DocumentID>, isReview: Bool = false) {
        let free = state.withLock { state -> Set<DocumentID> in
            guard !state.branches.isEmpty else { return [] }
            let seen = Set(ids).filter { state.branches[$0]?.leaves.values.contains { $0 == .here || $0 == .lost } ?? false }
            let free = seen.subtracting(state.ending)
            // Otherwise one look could end a branch while another takes it up again.
            for id in seen where !free.contains(id) { state.endedNext[id] = isReview && state.endedNext[id] ?? true }
            state.ending.formUnion(free)
            if !free.isEmpty { state.writes += 1 }
            return free
        }
        guard !free.isEmpty else { return }
        run { dialect in
            let decisions = try await dialect.decisions(about: free.sorted(), isReview: isReview)
            for decision in decisions { try await dialect.endAllLosers(of: decision) }
            let next = dialect.state.withLock { state in
                state.ending.subtract(free)
                defer { for id in free { state.endedNext[id] = nil } }
                return state.endedNext.filter { free.contains($0.key) }
            }
            for isReview in [false, true] { dialect.endLosers(of: next.filter { $0.value == isReview }.keys, isReview: isReview) }
        } finally: { $0.writes -= 1 }
    }

    /// These revisions arrived and are stored.
    func stored(_ slot: Int, _ revisions: [StorableRevision], _ outcomes: [StoreOutcome]) {
        state.withLock { state in
            guard !state.branches.isEmpty else { return }
            for (each, outcome) in zip(revisions, outcomes) {
                if case .stored = outcome { state.branches[each.revision.id]?.leaves[each.revision.revision] = .here }
            }
        }
    }

    /// Whether it lost here since it was requested, or was created here.
    func isOver(_ document: FoundDocument) -> Bool { state.withLock { $0.branches[document.id]?.isOver(document.revision) ?? false } }

    /// Whether a deleted leaf ends a branch that is here.
    ///
    /// - Parameter hasLiveBranch: the peer has another leaf, so the last one here is not ended.
    func endsBranch(_ document: FoundDocument, hasLiveBranch: Bool) async throws -> Bool {
        guard let collection = database.collection(collection), let tree = try await database.read({ try $0.tree(collection, document.id) }),
            let leaf = document.history.first(where: { tree.contains($0) }), tree.isLeaf(leaf), tree.isDeleted(leaf) == false
        else { return false }
        return !hasLiveBranch || tree.leaves.contains { !$0.isDeleted && $0.revision != leaf }
    }

    /// Records which leaves of these documents are deleted, before any of them is processed: the winner is the greatest live one, and has to follow
    /// those that ended.
    func noteDeletions(_ found: [FoundRevision]) async throws {
        let several = state.withLock { state -> [(DocumentID, Set<RevisionID>)] in
            for case .document(let document) in found where document.isDeleted {
                state.branches[document.id]?.deleted.insert(document.revision)
                if let parent = document.history.first { state.branches[document.id]?.ended.insert(parent) }
            }
            guard !state.branches.isEmpty else { return [] }
            return found.compactMap { each in
                guard case .document(let document) = each, let row = state.branches[document.id]?.row, row.count > 1 else { return nil }
                return (document.id, row)
            }
        }
        guard !several.isEmpty, let collection = database.collection(collection) else { return }
        let deleted = try await database.read { transaction in
            try several.map { id, row in
                let tree = try transaction.tree(collection, id)
                return (id, row.filter { tree?.isDeleted($0) == true })
            }
        }
        state.withLock { state in for (id, leaves) in deleted { state.branches[id]?.deleted.formUnion(leaves) } }
    }

    /// What was dropped of a document, and what won.
    private struct Decision: Sendable {
        var id: DocumentID
        var winner: RevisionTree.Leaf
        var dropped: [RevisionID]
        /// Nothing is ended.
        var isReview: Bool
    }

    private func decisions(about ids: [DocumentID], isReview: Bool) async throws -> [Decision] {
        guard let collection = database.collection(collection) else { return [] }
        let trees = try await database.read { transaction in try ids.map { try transaction.tree(collection, $0) } }
        var decisions: [Decision] = []
        for case (let id, let tree?) in zip(ids, trees) {
            // Not the end of a losing branch: its parent would be taken for an ancestor of the winner, and survive at the peer.
            guard let winner = tree.current else { continue }
            let (dropped, isInRow) = state.withLock { state in
                let known = state.branches[id] ?? Branches()
                let dropped = known.leaves.filter { leaf, standing in
                    guard standing == .here || standing == .lost, leaf != winner.revision, !tree.isAncestor(leaf, of: winner.revision) else { return false }
                    // A leaf that is still a branch here will have its turn; a deleted one has already ended.
                    return !tree.isLeaf(leaf) && (!isReview || known.row.contains(leaf))
                }.keys.sorted()
                return (dropped, known.row.contains(winner.revision))
            }
            guard let greatest = dropped.last, !isReview || !isInRow || winner.revision < greatest else { continue }
            decisions.append(Decision(id: id, winner: winner, dropped: dropped, isReview: isReview))
        }
        return try await theirs(decisions)
    }

    /// Of these decisions, those whose winner the peer has, with the dropped branches that it has. The others have their turn when the winner is
    /// pushed: without it, the peer would be left with nothing.
    private func theirs(_ decisions: [Decision]) async throws -> [Decision] {
        guard !decisions.isEmpty else { return [] }
        var question = JSONObject()
        question.members = decisions.map { decision in
            .init(key: decision.id.text, value: .array((decision.dropped + [decision.winner.revision]).map { .string($0.text) }))
        }
        // The answer may contain each of the names, and also every other leaf that exists there.
        let most = CouchBounds.answerBytes(rows: decisions.count + decisions.reduce(CouchBounds.leaves) { $0 + $1.dropped.count } / 100)
        var came = try await ask(PeerRequest("POST", "/_revs_diff", json: .object(question), atMost: most))
        if exceedsBounds(&came, isOne: decisions.count == 1) {
            // Too many leaves to process.
            guard decisions.count > 1 else { return [] }
            let half = decisions.count / 2
            return try await theirs(Array(decisions[..<half])) + theirs(Array(decisions[half...]))
        }
        guard came.isGood else { throw ReplicationError(came, to: "POST /_revs_diff") }
        let answer = try await reading(came, "POST /_revs_diff") { $0 }.asObject ?? JSONObject()
        return decisions.compactMap { decision in
            let missing = Set((answer[decision.id.text]?["missing"]?.asArray ?? []).compactMap(\.asString))
            guard !missing.contains(decision.winner.revision.text) else {
                markLost(decision)
                return nil
            }
            var decision = decision
            decision.dropped.removeAll { missing.contains($0.text) }
            return decision.dropped.isEmpty ? nil : decision
        }
    }

    /// Dropped branches need not be fetched any more.
    private func markLost(_ decision: Decision) {
        state.withLock { state in for leaf in decision.dropped { state.branches[decision.id]?.leaves[leaf] = .lost } }
    }

    /// The greatest first, several at a time.
    private func endAllLosers(of decision: Decision) async throws {
        var (part, left) = (decision, decision.dropped[...])
        while !left.isEmpty {
            part.dropped = Array(left.suffix(CouchBounds.ended))
            left = left.dropLast(CouchBounds.ended)
            guard try await endLosers(of: part) else { return }
        }
    }

    /// - Returns: false if the peer prefers another branch to the winner here, or does not have it: then there is nothing to end.
    private func endLosers(of decision: Decision) async throws -> Bool {
        let (id, winner, dropped) = (decision.id, decision.winner, decision.dropped)
        let open = PercentEncoding.encode(JSONValue.array((dropped + [winner.revision]).map { .string($0.text) }).text)
        let path = "/\(PercentEncoding.encode(id.text))?revs=true&latest=true&att_encoding_info=true&open_revs=\(open)"
        var answer = try await ask(PeerRequest("GET", path, json: nil))
        defer { withExtendedLifetime(answer) {} }
        if answer.status == 404 { return false }
        guard answer.isGood else { throw ReplicationError(answer, to: "GET \(path)") }
        if exceedsBounds(&answer, isOne: dropped.count == 1) {
            guard dropped.count > 1 else { return true }
            var half = decision
            for part in [dropped[(dropped.count / 2)...], dropped[..<(dropped.count / 2)]] {
                half.dropped = Array(part)
                guard try await endLosers(of: half) else { return false }
            }
            return true
        }
        var found: [FoundDocument] = []
        try await reading(answer, "GET \(path)") { for case .document(let document) in ($0.asArray ?? []).map({ FoundRevision($0) }) { found.append(document) } }
        // A branch that has grown since is new, not a loser.
        let losers = found.filter { !$0.isDeleted && dropped.contains($0.revision) }
        let won = found.filter { $0.revision == winner.revision || $0.history.contains(winner.revision) }
        if !won.isEmpty, let greatest = losers.max(by: { $0.revision < $1.revision }) {
            let live = won.filter { !$0.isDeleted }.map(\.revision)
            let isEnded = !won.contains { $0.isDeleted == winner.isDeleted }
            if isEnded || !winner.isDeleted, live.allSatisfy({ $0 < greatest.revision }) {
                try await resumeBranch(greatest, beside: losers.map(\.revision) + live, ended: isEnded ? [winner.revision] : [])
                return false
            }
        }
        markLost(decision)
        guard pushes, !won.isEmpty, !decision.isReview else { return true }
        for loser in losers { try await end(loser) }
        return true
    }

    /// The peer's winner is a branch that was dropped here: it is taken up again. If the winner here has ended there, it takes its place; otherwise, and if
    /// that was edited here, it is for a new decision to say what becomes of the two. That one comes on top of the greater revision.
    private func resumeBranch(_ document: FoundDocument, beside leaves: [RevisionID], ended: Set<RevisionID>) async throws {
        let row = OfferedRow(sequence: RemoteSequence(json: "0"), id: document.id, revision: document.revision)
        switch try await fetchAttachments(of: document, WantedRevision(row: row, ancestors: [], since: "0")) {
        case .arrived(var received):
            received.sequence = nil
            received.branches = PeerBranches(isLoser: false, others: Set(leaves).subtracting([document.revision]), ended: ended, isResumed: true)
            // If it is ended after all, it is by others.
            state.withLock { $0.branches[document.id]?.leaves[RevisionTree.end(of: document.revision)] = nil }
            tell([.pull(slot: 0, .arrived(received))])
        case .arrivalRefused(_, let id, let error, isFinal: true): tell([.pull(slot: 0, .arrivalRefused(nil, id, error, isFinal: true))])
        case .arrivalRefused(_, _, let error, isFinal: false), .outOfSpace(_, _, let error, _): throw error
        default: break
        }
    }

    /// Ends a branch with the same tombstone that everybody else would create for it.
    private func end(_ document: FoundDocument) async throws {
        let tombstone = RevisionTree.end(of: document.revision)
        var outgoing = OutgoingDocument(sequence: 0, id: document.id, version: tombstone)
        outgoing.isDeleted = true
        outgoing.history = [document.revision] + document.history
        let docs = JSONValue.array([try JSONValue(parsing: outgoing.couchText(Array("{}".utf8), attachments: nil))])
        // Before the tombstone is there: the peer's feed may be faster than its answer.
        state.withLock { $0.branches[document.id]?.leaves[tombstone] = .end }
        tell([.pull(slot: 0, .pushed(document.id, tombstone))])
        let refused = try await askJSON("POST", "/_bulk_docs", ["new_edits": false, "docs": docs], rows: 1).asArray ?? []
        if let error = refused.first?["error"]?.asString {
            tell([.warn("the peer does not let the losing branch \(document.revision) of document \(document.id) end: \(peer.withoutSecrets(error).prefix(100))")])
        }
    }
}

extension FoundDocument {
    /// A deletion that differs from the document's deletion in the peer's row: of one of several leaves, or made after the row.
    func endsOnlyBranch(_ row: OfferedRow) -> Bool { isDeleted && (!row.isDeletion || row.sequence.isOfBranch || revision != row.revision) }
}
