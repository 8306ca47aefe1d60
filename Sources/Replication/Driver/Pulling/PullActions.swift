import Documents
import DocumentStore
import Encodings
import Environment
import Interfaces
import NIOCore

/// Carries out the actions of a pull by means of the store, policies, the dialect and timers, and returns the results to it.
struct PullActions {
    let driver: SessionDriver

    func perform(_ action: PullAction, _ link: CollectionLink) {
        switch action {
        case .readList(let list): driver.lists.readList(list, link)
        case .findMissing(let offers, let named): findMissing(offers, named: named, link)
        case .checkProposals(let proposals): checkProposals(proposals, link)
        case .answerChanges(let handle, let answers): driver.dialect.answer(handle, changes: answers)
        case .answerProposals(let handle, let answers, let namesCurrent):
            driver.dialect.answer(handle, proposals: answers, namesCurrent: namesCurrent, refusal: driver.pushRefusalReason)
        case .refuseList(let handle, let error): driver.dialect.refuse(handle, error.replyToPeer)
        case .check(let batch, let revisions): check(batch, revisions, link)
        case .fetchBlobs(let fetch, let revision): driver.blobs.need(fetch, revision, link)
        case .fetchAttachments(let fetch, let revision): fetchAttachments(fetch, revision, link)
        case .releaseBlobs(let refused, let staying): driver.blobs.release(refused, staying: staying, link)
        case .judge(let batch, let revisions): judge(batch, revisions, link)
        case .keep(let batch, let held): keep(batch, held, link)
        case .assign(let batch, let revisions): assign(batch, revisions, link)
        case .store(let batch, let revisions, let conflicts, let settlesHeld): driver.writing.store(batch, revisions, conflicts, settlesHeld: settlesHeld, link)
        case .applyRemovals(let removals) where !driver.isPassive && link.push != nil: driver.tell(link, push: .removalsArrived(removals))
        case .applyRemovals(let removals): driver.removals.applyRemovals(removals, link)
        case .settle(let handle, let settlement): driver.dialect.settle(handle, settlement)
        case .decide(let ids): decide(ids, link)
        case .readHeld(let after): readHeld(after: after, link)
        case .readConflicts(let after): readConflicts(after: after, link)
        case .noteNotTaken(let refused): note(refused, link)
        case .forgetNotTaken(let ids): forget(ids, link)
        case .notifyPush(let revisions, let listed, let peerHad, let here):
            if link.push != nil { driver.tell(link, push: .pulled(revisions, listed: listed, peerHad: peerHad, here: here)) }
        case .notifyPushOfAlreadyHere(let revisions): if link.push != nil { driver.tell(link, push: .alreadyHere(revisions)) }
        case .notifyPushOfRefusal(let revisions): if link.push != nil { driver.tell(link, push: .refusedInFavourOf(revisions)) }
        case .notifyPushOfDecision(let ids): if link.push != nil { driver.tell(link, push: .decided(ids)) }
        case .startFlushTimer: startFlushTimer(link)
        case .pauseDecision(let id, let seconds): notePause(id, seconds: seconds, link)
        case .startPauseTimer(let seconds): startPauseTimer(seconds: seconds, link)
        case .reconnectLater: driver.reconnecting.reconnectLater()
        case .checkForSpace(let bytes): driver.reconnecting.checkForSpace(bytes, link)
        case .reconnectNow: driver.reconnecting.requestReconnect("reconnecting: there is room again for documents that did not fit")
        case .report(let event): report(event, link)
        case .warn(let message): driver.logger.warning("\(message)", metadata: ["peer": "\(driver.transport.peerDescription)"])
        case .fail(let error): driver.fail(error)
        }
    }

    private func findMissing(_ offers: [RevisionOffer], named: [DocumentID], _ link: CollectionLink) {
        let (slot, collection) = (link.slot, link.collection)
        driver.observer.offered?(collection.name, named)
        if offers.isEmpty { return driver.tell(link, pull: .missing([])) }
        let (remote, isBounded) = (link.remote, link.remote != nil && !link.mayNameAll)
        // The store may not have recorded yet what the peer acknowledged. CouchDB-like peers may have several revisions.
        let acknowledged = offers.map { link.push?.acknowledged.version(of: $0.id) }
        let hasOne = driver.dialect.traits.peerHasOne
        driver.removals.endOrphans(offers.map(\.id), link)
        announced(offers, link)
        let (skipsDeletions, naming) = (link.pull.settings.skipsDeletions, driver.naming)
        driver.read {
            try $0.missing(collection, offers, skipsDeletions: skipsDeletions, from: remote, hasOne: hasOne, onlyKnown: isBounded, naming: naming)
        } then: { driver, needs in
            let marks = driver.links[slot].marks
            let needs = zip(zip(needs, offers), acknowledged).map { ($0.0.believing(marks.isCredible($0.1.id))).knowing($1, hasOne) }
            // So that the store knows it by the time the requested revisions are stored.
            if zip(needs, acknowledged).contains(where: { $0.isNeeded && $1 != nil }) { driver.tell(driver.links[slot], push: .recordNow) }
            driver.tell(driver.links[slot], pull: .missing(needs))
        } failed: { $0.tell($0.links[slot], pull: .listFailed($1)) }
    }

    private func check(_ batch: BatchID, _ revisions: [ReceivedRevision], _ link: CollectionLink) {
        let slot = link.slot
        let unusualKeys = driver.database.unusualKeys
        let (unchecked, memory) = (UncheckedRevisions(revisions), driver.memory)
        link.unchecked[batch] = unchecked
        driver.ask(atLength: true) { [owner = driver.owner] in
            await RevisionChecking.check(unchecked, unusualKeys: unusualKeys, memory) { bytes, reservation in
                owner?.later { $0.accounts.found(names: bytes, in: reservation) }
            }
        } then: { driver, outcomes in
            let link = driver.links[slot]
            link.unchecked[batch] = nil
            driver.accounts.namesAreCounted(unchecked.namedBytes)
            driver.tell(link, pull: .insertion(.checked(batch, outcomes)))
        }
    }

    private func fetchAttachments(_ fetch: FetchID, _ revision: CheckedRevision, _ link: CollectionLink) {
        do throws(ReplicationError) { try driver.dialect.fetchAttachments(fetch, revision) } catch {
            driver.tell(link, pull: .insertion(.attachmentsFetched(fetch, .failure(error))))
        }
    }

    private func keep(_ batch: BatchID, _ held: [HeldRevision], _ link: CollectionLink) {
        guard let remote = link.remote else { return driver.tell(link, pull: .insertion(.kept(batch))) }
        let (slot, collection) = (link.slot, link.collection)
        driver.write { try HeldRevisions.keep(held, remote, collection, $0) } then: { driver, _ in
            let link = driver.links[slot]
            driver.tell(link, pull: .insertion(.kept(batch)))
        } failed: { $0.tell($0.links[slot], pull: .insertion(.failed(batch, $1))) }
    }

    private func decide(_ ids: [DocumentID], _ link: CollectionLink) {
        guard let decider = link.resolver else { return }
        let slot = link.slot
        let asked = decider.resolver?.version
        let doubtful = Set(ids.filter { !link.marks.isCredible($0) })
        driver.attempt { try await decider.decide(ids, doubtful: doubtful) } then: { driver, outcomes in
            driver.tell(driver.links[slot], pull: .decided(outcomes))
            driver.dialect.decided(slot, outcomes.filter(\.isDecided))
            // A version that came into force in the meantime has already reviewed the pending conflicts, without these.
            if decider.resolver?.version != asked, outcomes.contains(where: { $0.failure != nil }) {
                driver.tell(driver.links[slot], pull: .resolverChanged)
            }
        }
    }

    private func readHeld(after: DocumentID?, _ link: CollectionLink) {
        guard let remote = link.remote else { return }
        let (slot, collection) = (link.slot, link.collection)
        // For a peer that may have lost data, all are judged again, and are marked as such on the list.
        let isSound = link.marks.areCredible
        let current = isSound ? link.pullFilter.map { ($0.pluginName, $0.version) } : nil
        driver.read {
            try HeldRevisions.page(collection, remote, after: after, unlessJudgedBy: current, mayBeLostAtPeer: !isSound, $0)
        } then: { $0.tell($0.links[slot], pull: .heldRead($1)) }
    }

    private func readConflicts(after: DocumentID?, _ link: CollectionLink) {
        guard let decider = link.resolver else { return }
        let slot = link.slot
        driver.read { try decider.conflicted($0, after: after, limit: DriverBounds.documentsPerPage) } then: {
            $0.tell($0.links[slot], pull: .conflictsRead($1))
        }
    }

    private func startFlushTimer(_ link: CollectionLink) {
        let slot = link.slot
        driver.later(milliseconds: driver.limits.insertionDelayMilliseconds) { $0.tell($0.links[slot], pull: .insertion(.flushIsDue)) }
    }

    private func notePause(_ id: DocumentID, seconds: Int, _ link: CollectionLink) {
        let collection = link.collection
        let why = "decided in \(seconds) s, because its results are undone again and again: resolvers contradict each other, or make a new value each time; or two "
            + "remotes of this database each insist on a revision of their own"
        driver.logger.warning("the conflict of \(id) in \(collection.name) is \(why)", metadata: ["peer": "\(driver.transport.peerDescription)"])
        driver.write { try $0.setPendingConflict(collection, id, error: why, plugin: "", version: "") } then: { _, _ in } failed: { $0.log($1) }
    }

    private func startPauseTimer(seconds: Int, _ link: CollectionLink) {
        let slot = link.slot
        driver.later(milliseconds: seconds * 1_000) { $0.tell($0.links[slot], pull: .pausesElapsed) }
    }

    private func report(_ event: DocumentEvent, _ link: CollectionLink) {
        if let error = event.error, error.exceedsLocalSize { noteTooLarge(event.id, needed: error.neededMemory, link) }
        driver.reports.report(event)
    }

    /// Must precede the checkpoint that passes it: the writer works in order.
    private func noteTooLarge(_ id: DocumentID, needed: Int?, _ link: CollectionLink) {
        guard let remote = link.remote else { return }
        let (bounds, collection) = (TooLargeDocuments.Bounds(driver.memory, driver.limits), link.collection)
        // The pull itself may already be past the document.
        let since = link.checkpoint?.saved.remote ?? link.pulledFrom
        driver.write { try TooLargeDocuments.note(id, bounds, needed: needed, since: since, remote, collection, $0) } then: { _, _ in }
    }

    /// What the version in force answered before a revision's blobs were fetched counts; it is asked about the others.
    private func judge(_ batch: BatchID, _ revisions: [CheckedRevision], _ link: CollectionLink) {
        let slot = link.slot
        guard let filter = link.pullFilter else { return }
        let (plugin, version) = (filter.pluginName, filter.version)
        let known = revisions.map { $0.answer?.wasJudgedBy(plugin, version) == true ? $0.answer?.verdict : nil }
        let open = zip(revisions, known).filter { $0.1 == nil }.map(\.0)
        if open.isEmpty {
            return driver.tell(link, pull: .insertion(.judged(batch, known.compactMap { $0 }, plugin: plugin, version: version)))
        }
        let context = driver.policyContext(link.collection.name, .pull)
        let questions = open.map { PolicyDocument(id: $0.id, revision: $0.revision, isDeleted: $0.isDeleted, body: ($0.asReceived ?? $0).body) }
        driver.ask { await filter.verdicts(questions, context) } then: { driver, verdicts in
            var next = verdicts.makeIterator()
            let all = known.map { $0 ?? next.next() ?? filter.missingVerdict }
            driver.pulls.letNamesPass(all, revisions, driver.links[slot]) {
                $0.tell($0.links[slot], pull: .insertion(.judged(batch, $1, plugin: plugin, version: version)))
            }
        }
    }

    /// A revision that is here already, and that the peer knows by another version, is not kept out: only its name is new. Without that name, this
    /// side would offer its own to the peer, which would refuse it, for ever.
    private func letNamesPass(
        _ verdicts: [FilterVerdict], _ revisions: [CheckedRevision], _ link: CollectionLink, then: @escaping @Sendable (SessionDriver, [FilterVerdict]) -> Void
    ) {
        let renamed = zip(revisions, verdicts).compactMap { revision, verdict in
            verdict.passes ? nil : revision.vector?.place.map { (id: revision.id, revision: $0.revision) }
        }
        // Whoever may not see everything is not told which revisions are here.
        guard !renamed.isEmpty, !driver.isPassive || driver.channelPeer == nil && link.pushFilter == nil else { return then(driver, verdicts) }
        let collection = link.collection
        driver.read { transaction in
            Set(try renamed.filter { try transaction.row(collection, $0.id)?.revision == $0.revision }.map(\.id))
        } then: { driver, here in
            then(driver, zip(revisions, verdicts).map { here.contains($0.id) && !$1.passes ? .pass : $1 })
        }
    }

    private func assign(_ batch: BatchID, _ revisions: [CheckedRevision], _ link: CollectionLink) {
        guard case .passive(let passive) = driver.role, let function = link.syncFunction else { return }
        let slot = link.slot
        let asking = SyncAsking(
            database: driver.database, collection: link.collection, function: function, principal: passive.principal,
            peer: ChannelPeer(user: passive.principal.name, listener: passive.listener),
            context: driver.policyContext(link.collection.name, .pull), setsAccess: driver.channelPeer != nil && !link.hasSetAccess)
        driver.writing.senderView(of: revisions, link) { driver, sender in
            var asking = asking
            asking.sender = sender
            driver.ask { [asking] in await asking.judge(revisions) } then: { driver, result in
                switch result {
                case .success(let judgements):
                    driver.links[slot].hasSetAccess = true
                    driver.tell(driver.links[slot], pull: .insertion(.assigned(batch, judgements)))
                case .failure(let error): driver.writing.notStored(batch, revisions.count, slot, error)
                }
            }
        } failed: { $0.writing.notStored(batch, revisions.count, slot, $1) }
    }

    private func checkProposals(_ proposals: [Proposal], _ link: CollectionLink) {
        if proposals.isEmpty { return driver.tell(link, pull: .proposalsChecked([])) }
        var proposals = proposals
        for index in proposals.indices where proposals[index].parent == nil {
            proposals[index].missesDeletion = link.push?.fetchedDeletions.take(proposals[index].id) ?? false
        }
        let (slot, collection, naming, asked) = (link.slot, link.collection, driver.naming, proposals)
        guard driver.channelPeer != nil || link.pushFilter != nil else {
            return driver.read { try $0.checkProposals(collection, asked, naming: naming) } then: { $0.tell($0.links[slot], pull: .proposalsChecked($1)) } failed: {
                $0.tell($0.links[slot], pull: .listFailed($1))
            }
        }
        driver.service.view(link) { driver, view in
            driver.attempt { try await view.check(asked) } then: { $0.tell($0.links[slot], pull: .proposalsChecked($1)) } failed: {
                $0.tell($0.links[slot], pull: .listFailed($1))
            }
        } failed: { $0.tell($0.links[slot], pull: .listFailed($1)) }
    }
}
