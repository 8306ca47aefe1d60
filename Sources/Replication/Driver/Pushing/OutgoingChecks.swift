import Documents
import DocumentStore
import Environment
import Interfaces

/// Sends revisions that the peer wants, if the peer may still have them.
struct OutgoingChecks {
    let driver: SessionDriver

    /// Sends a revision that the peer wants, if the peer may still have it.
    func send(_ document: OutgoingDocument, _ link: CollectionLink) {
        if let most = driver.limits.largestGivenBody, document.bodySize > most { return sendNothing(of: document, link) }
        guard document.visibility == .visible, driver.channelPeer != nil || mayHaveChanged(document) || needsFilterRecheck(document, link) else {
            return driver.deltas.send(document, link)
        }
        link.leaving.append(document)
        checkNext(link)
    }

    /// There is no memory to send it: the peer is informed, and this side's operator can change that.
    private func sendNothing(of document: OutgoingDocument, _ link: CollectionLink) {
        let error = ReplicationError(unsent: document.bodySize, memory: driver.memory.limit)
        stay(document, .exceedsMemory(bytes: document.bodySize, memory: driver.memory.limit), .unsent(document.id, error), link)
    }

    /// Whether it passed a filter that is no longer in force. The end of a branch is not filtered: the document follows it.
    private func needsFilterRecheck(_ document: OutgoingDocument, _ link: CollectionLink) -> Bool {
        guard let filter = link.pushFilter, !document.isEndOfBranch else { return false }
        return document.judgedBy != filter.version
    }

    /// Whether another revision may be in its place by now. The end of a branch is not the current revision in any case.
    private func mayHaveChanged(_ document: OutgoingDocument) -> Bool { !document.isEndOfBranch && document.freshness != .current }

    /// A peer that has a later revision, by another way, no longer knows the one that lies this many generations before it, and would take it for our
    /// decision. Half of what Couchbase Lite keeps by default (`maxRevTreeDepth`).
    private static let generationsPeersKeep: UInt64 = 10

    /// What becomes of a revision in whose place there is another one by now.
    private static func check(
        _ own: RevisionID, of document: OutgoingDocument, behind current: RevisionID, _ transaction: ReadTransaction, _ collection: Collection
    ) throws -> PreSendReview.Check {
        // Version vectors have no history that could be too short.
        guard document.vector != nil || current.generation < own.generation + generationsPeersKeep else { return .farBehind }
        do throws(StoreError) {
            // If the document has gone over to another branch, the peer would take this one for our decision, against what it may have from others.
            let tree = try transaction.tree(collection, document.id)
            return tree?.isAncestor(own, of: current) ?? false ? .sendable : .changed
        } catch {
            guard case .documentDamaged = error else { throw error }
            return .sendable
        }
    }

    private func checkNext(_ link: CollectionLink) {
        guard let documents = link.leaving.next() else { return }
        let (slot, generation, collection, peer) = (link.slot, link.generation, link.collection, driver.channelPeer)
        let questions = documents.map { (document: $0, needsFilterRecheck: needsFilterRecheck($0, link), mayHaveChanged: mayHaveChanged($0)) }
        driver.read { transaction in
            let access = try peer.map { try transaction.channelAccess(collection, of: $0) }
            return try questions.map { document, needsFilterRecheck, mayHaveChanged -> PreSendReview.Check in
                guard let row = try transaction.row(collection, document.id, withBody: needsFilterRecheck) else { return .hidden }
                // If it has changed since, the newer revision decides.
                if let access, try !transaction.isVisible(collection, document.id, row.revision, to: access) { return .hidden }
                guard needsFilterRecheck || mayHaveChanged else { return .sendable }
                // It may have got another name by now.
                let own = row.sequence == document.sequence ? row.revision : try transaction.revision(named: document.version, collection, document.id)
                if own != row.revision {
                    guard let own, !needsFilterRecheck, document.freshness != .overtakenByPeer else { return .changed }
                    return try Self.check(own, of: document, behind: row.revision, transaction, collection)
                }
                guard needsFilterRecheck else { return .sendable }
                return .doubted(
                    PolicyDocument(id: document.id, revision: document.version, isDeleted: document.isDeleted, body: row.body ?? []))
            }
        } then: { driver, checks in
            let link = driver.links[slot]
            guard link.generation == generation, link.push != nil else { return }
            let doubted: [PolicyDocument] = checks.compactMap { if case .doubted(let question) = $0 { question } else { nil } }
            guard let filter = link.pushFilter, !doubted.isEmpty else { return driver.outgoingChecks.finish(documents, checks, [], by: "", link) }
            // The peer is informed that these will not come, and moves on: to be offered again later, even those on which the filter fails go on the
            // list.
            driver.pushes.judge(doubted, by: filter, link, listsFailures: true) { driver, verdicts, version in
                let link = driver.links[slot]
                guard link.generation == generation, link.push != nil else { return }
                driver.outgoingChecks.finish(documents, checks, verdicts, by: version, link)
            }
        }
    }

    /// - Parameter verdicts: the filter's verdicts, one for each revision in doubt.
    private func finish(
        _ documents: [OutgoingDocument], _ checks: [PreSendReview.Check], _ verdicts: [FilterVerdict], by version: String, _ link: CollectionLink
    ) {
        var next = verdicts.makeIterator()
        for (document, check) in zip(documents, checks) {
            switch check {
            case .sendable: driver.deltas.send(document, link)
            // A tombstone is also sent to peers that had the document; it says no more than that it is deleted.
            case .hidden where document.isDeleted: driver.deltas.send(document.withoutBody(), link)
            case .hidden: stay(document, .notVisible, .withdrawn(document.id), link)
            case .farBehind where !link.leaving.dropOnce(document.id): driver.deltas.send(document, link)
            case .changed, .farBehind: stay(document, .superseded, .withdrawn(document.id), link)
            case .doubted(let question): settle(document, question, next.next() ?? .reject, by: version, link)
            }
        }
        link.leaving.checked()
        checkNext(link)
    }

    private func settle(
        _ document: OutgoingDocument, _ question: PolicyDocument, _ verdict: FilterVerdict, by version: String, _ link: CollectionLink
    ) {
        // The filter was replaced once more.
        if link.pushFilter?.version != version { return link.leaving.append(document) }
        var document = document
        document.judgedBy = version
        switch verdict {
        case .pass:
            // The previous filter may have changed the body.
            document.replaceBody(question.body)
            driver.deltas.send(document, link)
        case .replace(let body):
            document.replaceBody(body)
            driver.deltas.send(document, link)
        case .reject: stay(document, .notVisible, .keptBack(document.id, nil, by: version), link)
        case .failed(let failure): stay(document, .notVisible, .keptBack(document.id, failure, by: version), link)
        }
    }

    /// The revision is not sent. A side that only proposed it need not say so.
    private func stay(_ document: OutgoingDocument, _ reason: Withdrawal, _ event: PushEvent, _ link: CollectionLink) {
        if link.push?.settings.style == .announce { driver.dialect.withdraw(link.slot, document, reason) }
        driver.tell(link, push: event)
    }
}

extension ReplicationError {
    /// A document that is too large to be sent within `limits.memory`.
    init(unsent bytes: Int, memory: Int) {
        self.init(
            domain: .http, code: 503, message: "it has \(bytes) bytes, for which this agent's limits.memory (\(memory)) has no room while a peer pulls it",
            remedy: "set limits: { memory: \(MemoryBudget.settingText(forDocument: bytes)) } here, or more, and restart the agent, or have the document made smaller")
        (exceedsLocalSize, neededMemory) = (true, MemoryBudget.setting(forDocument: bytes))
    }
}
