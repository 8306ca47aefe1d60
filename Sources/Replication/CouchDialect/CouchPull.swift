import Documents
import DocumentStore
import Encodings
import Environment
import Interfaces
import NIOCore

/// A revision that the engine wants, from a row that the peer announced.
struct WantedRevision: Sendable {
    var row: OfferedRow
    /// Its ancestors that are here.
    var ancestors: [Version]
    /// Where the feed page with the row starts.
    var since: String
}

/// Pull: what becomes of the documents that arrive.
extension CouchDialect {
    func tooLarge(_ wanted: WantedRevision) -> ReplicationError {
        var error = ReplicationError(
            domain: .http, code: 413,
            message: "document \(wanted.row.id) has more than \(CouchBounds.answerBytes) bytes (couch_answer_bytes), or values of more than \(CouchBounds.treeBytes) (couch_tree_bytes), or is more than limits.memory (\(memory.limit) bytes) leaves for one answer")
        error.exceedsLocalSize = true
        return error
    }

    /// - Parameter length: the length of the answer, if the peer sent it.
    func tooLong(_ wanted: WantedRevision, _ length: Int?) -> ReplicationError {
        guard documentBytes < CouchBounds.answerBytes, length ?? 0 <= CouchBounds.answerBytes else { return tooLarge(wanted) }
        let needed = MemoryBudget.setting(forDocument: length ?? limits.maximumDocumentBytes)
        var error = ReplicationError(
            domain: .http, code: 413,
            message: "document \(wanted.row.id) has \(length.map { "\($0) bytes, " } ?? "")more than the \(documentBytes) bytes that this agent's limits.memory (\(memory.limit)) "
                + "leaves for one document; set limits: { memory: \(MemoryBudget.settingText(needed)) } here\(length == nil ? ", which is enough for any," : ",") or more: "
                + "it is requested again by itself from the agent's next start on")
        (error.exceedsLocalSize, error.neededMemory) = (true, needed)
        return error
    }

    func unreadable(_ wanted: WantedRevision, _ flaw: JSONError) -> ReplicationError {
        ReplicationError(domain: .http, code: 400, message: "document \(wanted.row.id): \(flaw)")
    }

    func refuse(_ wanted: WantedRevision, _ error: ReplicationError, isFinal: Bool = true) {
        tell([.pull(slot: 0, .arrivalRefused(wanted.row.sequence, wanted.row.id, error, isFinal: isFinal))])
    }

    /// The engine's event for its arrival, with the peer's other leaves.
    private func arrival(_ document: FoundDocument, _ wanted: WantedRevision) -> PullEvent {
        let event = document.arrival(wanted.row.sequence, limits)
        let known = state.withLock { $0.branches[document.id] }
        guard case .arrived(var received) = event else { return event }
        if let known {
            // One set shared by all: with a set each, a thousand leaves would take a million entries.
            let others = known.row.contains(where: known.isOver) ? known.row.filter { !known.isOver($0) } : known.row
            received.branches = PeerBranches(isLoser: known.isLoser(document.revision), others: others, ended: known.ended.isDisjoint(with: document.history) ? known.ended : known.ended.subtracting(document.history))
        }
        if document.endsOnlyBranch(wanted.row) {
            var branches = received.branches ?? PeerBranches(isLoser: true)
            (branches.isLoser, branches.deletion) = (true, wanted.row.isDeletion ? .leaf : .otherLeaf)
            received.branches = branches
        }
        return .arrived(received)
    }

    /// The event for a row for which the peer sent no usable document.
    private func missingDocumentEvent(_ wanted: WantedRevision, _ found: FoundRevision) -> PullEvent {
        let id = wanted.row.id
        switch found {
        case .missing(_, _, let error):
            let failure = ReplicationError(document: id, error: peer.withoutSecrets(error), reason: "it was not given out")
            return .arrivalRefused(wanted.row.sequence, id, failure, isFinal: !failure.isTransient)
        case .bad(_, _, let why):
            return .arrivalRefused(wanted.row.sequence, id, ReplicationError(domain: .http, code: 400, message: "document \(id): \(why)"), isFinal: true)
        case .document, .unreadable: return notAnswered(wanted)
        }
    }

    /// The peer does not answer about a row: it may only lag behind, so the row is requested again, and no checkpoint passes it.
    private func notAnswered(_ wanted: WantedRevision) -> PullEvent {
        let id = wanted.row.id
        let failure = ReplicationError(
            domain: .http, code: 502, message: "the peer was asked for document \(id), which its _changes has, and answered with neither it nor a reason")
        return .arrivalRefused(wanted.row.sequence, id, failure, isFinal: false)
    }

    /// The peer does not have revisions that it announced. Those that its feed no longer names were replaced or purged, or are no longer accessible
    /// to us. Those still named have not reached every node of its cluster: they are requested again, and no checkpoint passes them.
    func giveUp(_ gone: [WantedRevision]) async throws {
        for (since, wanted) in Dictionary(grouping: gone, by: \.since) {
            let named: [DocumentID: Set<RevisionID>]
            do { named = try await self.named(Set(wanted.map(\.row.id)), since: since) } catch let error as ReplicationError where error.isShortOfMemory {
                for each in wanted { refuse(each, error, isFinal: false) }
                continue
            }
            tell(wanted.map { each -> DialectEvent in
                guard named[each.row.id]?.contains(each.row.revision) == true else { return .pull(slot: 0, .withdrawn(each.row.sequence)) }
                let failure = ReplicationError(
                    domain: .http, code: 502,
                    message: "the peer says that it has no revision \(each.row.revision) of document \(each.row.id), which its _changes has; is a node of its cluster behind?")
                return .pull(slot: 0, .arrivalRefused(each.row.sequence, each.row.id, failure, isFinal: false))
            })
        }
    }

    /// The revisions of these documents that the peer's feed names after this position, provided that the same nodes answer.
    private func named(_ ids: Set<DocumentID>, since: String) async throws -> [DocumentID: Set<RevisionID>] {
        let path = "/_changes?style=all_docs&since=\(PercentEncoding.encode(since))&filter=_doc_ids"
        let request = PeerRequest("POST", path, json: ["doc_ids": .array(ids.map { .string($0.text) })], atMost: answerBytes(isOne: ids.count == 1))
        var named: [DocumentID: Set<RevisionID>] = [:]
        do {
            var answer = try await ask(request)
            if exceedsBounds(&answer, isOne: ids.count == 1) {
                // It has so many leaves by now that its next row fails by name.
                guard ids.count > 1 else { return [:] }
                let sorted = ids.sorted()
                for half in [sorted[..<(ids.count / 2)], sorted[(ids.count / 2)...]] { named.merge(try await self.named(Set(half), since: since)) { $1 } }
                return named
            }
            for entry in try await page(answer, to: request, since: since).entries {
                if let id = entry.id { named[id, default: []].formUnion(entry.leaves) }
            }
        } catch let error as ReplicationError where error.domain == .http && (400..<500).contains(error.code) && !error.isTransient {
            // If the peer cannot be asked this, its first answer is trusted.
            return [:]
        }
        return named
    }

    /// Matches the answers with the requests: the peer may have newer revisions by now, or none.
    ///
    /// - Parameter claim: the memory of the documents, kept while their attachments are fetched.
    func take(_ found: [FoundRevision], for wanted: [WantedRevision], keeping claim: MemoryBudget.Claim?) async throws {
        try await noteDeletions(found)
        var open: [DocumentID: [WantedRevision]] = Dictionary(grouping: wanted, by: \.row.id)
        var events: [DialectEvent] = []
        var attached: [(FoundDocument, WantedRevision)] = []
        // The generation of documents that arrived without having been requested.
        var unasked: [DocumentID: UInt64] = [:]
        // Errors that name a revision other than the requested one are matched with the remaining requests at the end.
        var late: [FoundRevision] = []
        var gone: [WantedRevision] = []
        // Documents of which the peer may prefer another branch than the one here.
        var unclear: Set<DocumentID> = []
        func leaveOut(_ row: WantedRevision, _ found: FoundRevision) {
            if found.isGone { gone.append(row) } else { events.append(.pull(slot: 0, missingDocumentEvent(row, found))) }
        }
        func asked(_ id: DocumentID, _ isIt: (RevisionID) -> Bool) -> WantedRevision? {
            guard let index = open[id]?.firstIndex(where: { isIt($0.row.revision) }) else { return nil }
            return open[id]?.remove(at: index)
        }
        for each in found {
            switch each {
            case .document(let document):
                let row = asked(document.id) { $0 == document.revision } ?? asked(document.id) { document.history.contains($0) }
                guard let row else {
                    unasked[document.id] = max(unasked[document.id] ?? 0, document.revision.generation)
                    continue
                }
                if isOver(document) {
                    events.append(.pull(slot: 0, .withdrawn(row.row.sequence)))
                    unclear.insert(document.id)
                } else if document.endsOnlyBranch(row.row), try await !endsBranch(document, hasLiveBranch: !row.row.isDeletion) {
                    // Others ended a branch that is not here, or is the only one here: the winner has, or gets, a row of its own, unless it was dropped here.
                    events.append(.pull(slot: 0, .withdrawn(row.row.sequence)))
                    unclear.insert(document.id)
                } else if document.attachments.isEmpty {
                    events.append(.pull(slot: 0, arrival(document, row)))
                } else if filtersBeforeAttachments, !document.bringsAttachments {
                    events.append(.pull(slot: 0, arrivalBeforeAttachments(document, row)))
                } else {
                    attached.append((document, row))
                }
            case .missing(let id, let revision, _), .bad(let id, let revision, _):
                if let row = asked(id, { $0 == revision }) { leaveOut(row, each) } else { late.append(each) }
            case .unreadable(let why): events.append(.warn("a revision of _bulk_get was refused: \(why)"))
            }
        }
        for each in late {
            guard let id = each.id, let row = asked(id, { _ in true }) else { continue }
            leaveOut(row, each)
        }
        for (_, row) in attached { open[row.row.id]?.removeAll { $0.row.sequence == row.row.sequence } }
        for row in wanted where open[row.row.id]?.contains(where: { $0.row.sequence == row.row.sequence }) == true {
            if found.contains(where: { $0.brings(row.row.id, row.row.revision) }) {
                events.append(.pull(slot: 0, .withdrawn(row.row.sequence)))
            } else if unasked[row.row.id].map({ $0 > row.row.revision.generation }) ?? false {
                // Replaced by a revision with a row of its own, unless the feed still names this one.
                gone.append(row)
            } else {
                events.append(.pull(slot: 0, notAnswered(row)))
            }
        }
        tell(events)
        endLosers(of: unclear, isReview: true)
        if !gone.isEmpty { try await giveUp(gone) }
        for (document, row) in attached { tell([.pull(slot: 0, try await fetchAttachments(of: document, row, keeping: claim))]) }
    }

    /// The document as its peer has it: the filter decides whether its attachments are requested.
    private func arrivalBeforeAttachments(_ document: FoundDocument, _ wanted: WantedRevision) -> PullEvent {
        guard case .arrived(var received) = arrival(document, wanted) else { return arrival(document, wanted) }
        (received.attachments, received.hasShownBlobs) = (.due, false)
        return .arrived(received)
    }

    /// Fetches the attachments of a document.
    ///
    /// - Returns: the engine's event for its arrival. If the attachments cannot be obtained, the document is held because of them, and others
    ///   continue.
    func fetchAttachments(of document: FoundDocument, _ wanted: WantedRevision, keeping claim: MemoryBudget.Claim? = nil) async throws -> PullEvent {
        do {
            return arrival(try await keeping(claim) { try await self.withAttachments(document, wanted.ancestors, arrived: { claim?.advance(by: $0) }) }, wanted)
        } catch let refusal as MemoryBudget.ClaimRefusal {
            // The document's own memory is needed: it is requested again, and what has arrived of its attachments is kept.
            if refusal == .tooSlow { state.withLock { $0.hasSlowAttachments = true } }
            return .arrivalRefused(wanted.row.sequence, document.id, outOfMemory(refusal, "the attachments of \(document.id)"), isFinal: false)
        } catch {
            let failure = try failure(of: error)
            if failure.isOutOfSpace {
                return .outOfSpace(wanted.row.sequence, document.id, failure, bytes: document.largestAttachment)
            }
            if failure.isTransient { return .arrivalRefused(wanted.row.sequence, document.id, failure, isFinal: false) }
            let event = arrival(document, wanted)
            guard case .arrived(var received) = event else { return event }
            (received.attachments, received.hasShownBlobs) = (.failed(failure), false)
            return .arrived(received)
        }
    }
}
