import Documents
import DocumentStore
import Interfaces

/// Deltas: how the session sends and receives a body if both sides have an earlier revision. The machines do not know about them.
struct DeltaDriver {
    let driver: SessionDriver

    /// What the peer may have of a collection, besides what was transferred on this connection.
    ///
    /// - Parameter view: set for a peer limited to channels, if the question is about current revisions.
    private func access(_ link: CollectionLink, _ view: PeerView? = nil) -> BaseLookUp.Access {
        if let view { return .visible(view) }
        if driver.channelPeer != nil { return .nothing }
        if !driver.isPassive, !driver.pushesAsActive { return link.remote.map { .remote($0) } ?? .nothing }
        guard let filter = link.pushFilter else { return .everything }
        return .judged(filter, driver.policyContext(link.collection.name, .push))
    }

    private func remembersExchanged(_ link: CollectionLink) -> Bool {
        guard driver.dialect.takesDeltas || driver.isPassive && driver.naming != .trees else { return false }
        if driver.channelPeer == nil, link.pushFilter == nil, driver.isPassive || driver.pushesAsActive { return false }
        if case .everything = access(link) { return false } else { return true }
    }

    // MARK: - Sending

    /// Sends a revision, as a delta if that is shorter.
    func send(_ document: OutgoingDocument, _ link: CollectionLink) {
        guard driver.dialect.sendsDeltas(link.slot), !document.sendsFullBody, document.base != nil, !document.isDeleted, document.visibility == .visible,
            document.body.count >= driver.limits.minimumDeltaBytes
        else { return sendWhole(document, link) }
        link.deltas.requested += 1
        driver.touch(link)
        guard document.body.count <= driver.limits.maximumDeltaBodyBytes else {
            link.deltas.unfit += 1
            return sendWhole(document, link)
        }
        link.outgoingDeltas.append(document)
        makeDeltas(link)
    }

    private func sendWhole(_ document: OutgoingDocument, _ link: CollectionLink) { put(document, nil, link) }

    private func put(_ document: OutgoingDocument, _ delta: [UInt8]?, _ link: CollectionLink) {
        driver.blobs.files.inFlight.add(document.blobs, InFlightRevision(slot: link.slot, generation: link.generation, id: document.id))
        if document.visibility == .visible, !document.isDeleted, remembersExchanged(link) { link.exchanged.add(document.id, document.version) }
        guard document.hasBlobs, delta == nil, driver.dialect.traits.listsBlobsInBodies, document.body.count > DriverBounds.smallBodyBytes else {
            return driver.outgoing.append(.init(slot: link.slot, generation: link.generation, document: document, delta: delta))
        }
        // Adding the names of its blobs requires reading all of it, so it is not done on the event loop.
        let (slot, generation, memory, knowsBlobs) = (link.slot, link.generation, driver.memory, driver.dialect.knowsBlobs(link.slot))
        driver.ask(atLength: true) { () async -> OutgoingDocument in
            let reservation = await memory.reserve(min(JSONTreeSize.bytes(of: document.body), memory.workLimit))
            return withExtendedLifetime(reservation) { document.withAttachments(whereListed: knowsBlobs) }
        } then: { driver, document in
            let link = driver.links[slot]
            if link.generation == generation, link.push != nil {
                driver.outgoing.append(.init(slot: slot, generation: generation, document: document, delta: Optional.none))
            }
        }
    }

    private func makeDeltas(_ link: CollectionLink) {
        guard let documents = link.outgoingDeltas.begin(limit: driver.limits.insertionBatchRows) else { return }
        let (slot, generation) = (link.slot, link.generation)
        let questions = documents.map { document in
            let base = document.base ?? document.version
            return BaseLookUp.Question(id: document.id, base: base, isExchanged: link.exchanged.holds(document.id, base))
        }
        let lookUp = BaseLookUp(database: driver.database, collection: link.collection, access: access(link))
        prepare(questions, others: documents.map { .body($0.body) }, lookUp) { driver, result in
            let link = driver.links[slot]
            guard link.generation == generation, link.push != nil else { return }
            switch result {
            case .success(let batch): driver.deltas.make(batch, lookUp, link)
            case .failure(let error): driver.deltas.made(.failure(error), link.outgoingDeltas.first(questions.count), link)
            }
        }
    }

    private func make(_ batch: DeltaBatch, _ lookUp: BaseLookUp, _ link: CollectionLink) {
        let documents = link.outgoingDeltas.first(batch.questions.count)
        guard batch.memory != nil else { return made(.success(documents.map { _ in .withoutMemory }), documents, link) }
        let (slot, generation) = (link.slot, link.generation)
        let (knowsBlobs, limits) = (driver.dialect.knowsBlobs(slot), driver.limits)
        driver.ask(atLength: true) { () async -> Result<[DeltaOutcome], any Error> in
            do {
                let answers = try await lookUp.bases(batch.questions)
                return .success(zip(documents, answers).map { DeltaOutcome($0, $1, knowsBlobs: knowsBlobs, limits: limits) })
            } catch { return .failure(error) }
        } then: { driver, result in
            let link = driver.links[slot]
            // From then on they are accounted for as messages of the connection.
            driver.accounts.keepUntilCounted(batch.memory)
            if link.generation == generation, link.push != nil { driver.deltas.made(result, documents, link) }
        }
    }

    private func made(_ result: Result<[DeltaOutcome], any Error>, _ documents: [OutgoingDocument], _ link: CollectionLink) {
        switch result {
        case .success(let outcomes):
            for (document, outcome) in zip(documents, outcomes) { send(document, outcome, link) }
        case .failure(let error):
            driver.logger.error("the bases of deltas cannot be read: \(error)")
            for document in documents { sendWhole(document, link) }
        }
        link.outgoingDeltas.end(documents.count)
        driver.touch(link)
        makeDeltas(link)
    }

    /// Determines what to do in one go, and has memory reserved for it. While waiting for that, no more is held than the connection holds anyway.
    private func prepare(
        _ questions: [BaseLookUp.Question], others: [DeltaBatch.Other], _ lookUp: BaseLookUp,
        then: @escaping @Sendable (SessionDriver, Result<DeltaBatch, any Error>) -> Void
    ) {
        let (memory, limits) = (driver.memory, driver.limits)
        driver.ask(atLength: true) { () async -> Result<DeltaBatch, any Error> in
            do { return .success(try await DeltaBatch(questions, others: others, lookUp, memory, limits)) } catch { return .failure(error) }
        } then: { then($0, $1) }
    }

    private func send(_ document: OutgoingDocument, _ outcome: DeltaOutcome, _ link: CollectionLink) {
        switch outcome {
        case .delta(let delta):
            link.deltas.sent += 1
            link.deltasInFlight[document.id] = document.body.count - delta.count
            return put(document, delta, link)
        case .withoutBase: link.deltas.withoutBase += 1
        case .notOpen: link.deltas.notOpen += 1
        case .notSmaller: link.deltas.notSmaller += 1
        case .unfit: link.deltas.unfit += 1
        case .withoutMemory: link.deltas.withoutMemory += 1
        }
        sendWhole(document, link)
    }

    /// The peer answered a revision of ours.
    /// - Returns: whether the peer could not use a delta, and is being sent the whole body.
    func resendWholeIfRefused(_ id: DocumentID, _ error: ReplicationError?, _ link: CollectionLink) -> Bool {
        guard !link.deltasInFlight.isEmpty, let saved = link.deltasInFlight.removeValue(forKey: id) else { return false }
        driver.touch(link)
        guard let error else {
            link.deltas.bytesSaved += UInt64(max(0, saved))
            return false
        }
        // Sync Gateway answers 404 for a base that it lacks.
        guard error.domain == .http, error.code == 422 || error.code == 404, case .sent(var document)? = link.push?.ledger.phase(of: id) else {
            return false
        }
        link.deltas.refused += 1
        (document.sendsFullBody, document.freshness) = (true, .overtakenByPeer)
        driver.outgoingChecks.send(document, link)
        return true
    }

    // MARK: - Receiving

    /// Takes a revision that arrived as a delta: it is expanded to a body, and then treated like any other.
    func takeDelta(_ revision: ReceivedRevision, _ link: CollectionLink) {
        link.deltas.received += 1
        link.incomingDeltas.append(revision)
        driver.touch(link)
    }

    /// Continues with waiting deltas, once most of the earlier results are stored.
    func applyDeltas(_ link: CollectionLink) {
        let asksStore = isForStoreToTake(link)
        guard link.pull.bufferedBytes < driver.limits.insertionBatchBytes,
            let revisions = link.incomingDeltas.begin(limit: driver.limits.insertionBatchRows, except: { asksStore ? link.pull.onTheWay(of: $0) : [] })
        else { return }
        guard driver.channelPeer != nil else { return apply(revisions, link, access(link)) }
        let slot = link.slot
        driver.service.view(link) { driver, view in
            driver.deltas.apply(revisions, driver.links[slot], driver.deltas.access(driver.links[slot], view))
        } failed: { driver, error in
            driver.deltas.accept(.failure(error), revisions, driver.links[slot])
        }
    }

    /// Whether the outcome for a revision that is in conflict here, or already stored, follows from the document's tree, whatever its body is: then its
    /// delta is not applied. False if a filter or a sync function may decide otherwise, or if the peer must not learn what is here.
    private func isForStoreToTake(_ link: CollectionLink) -> Bool {
        link.pull.refusesConflictsAlone && driver.channelPeer == nil && link.pushFilter == nil
    }

    private func apply(_ revisions: [ReceivedRevision], _ link: CollectionLink, _ access: BaseLookUp.Access) {
        let (slot, asksStore) = (link.slot, isForStoreToTake(link))
        let lookUp = BaseLookUp(database: driver.database, collection: link.collection, access: access)
        let questions = revisions.map { revision in
            let base = revision.deltaSource ?? revision.revision
            return BaseLookUp.Question(
                id: revision.id, base: base, isExchanged: link.exchanged.holds(revision.id, base),
                incoming: asksStore && !revision.isDeleted ? IncomingRevision(bodiless: revision) : nil, deltaBytes: revision.body.readableBytes)
        }
        prepare(questions, others: revisions.map { .delta($0.body) }, lookUp) { driver, result in
            let link = driver.links[slot]
            switch result {
            case .success(let batch): driver.deltas.apply(batch, lookUp, link)
            case .failure(let error): driver.deltas.accept(.failure(error), link.incomingDeltas.first(questions.count), link)
            }
        }
    }

    private func apply(_ batch: DeltaBatch, _ lookUp: BaseLookUp, _ link: CollectionLink) {
        let (slot, limits) = (link.slot, driver.limits)
        let revisions = link.incomingDeltas.first(batch.questions.count)
        guard batch.memory != nil else {
            let applied = zip(revisions, batch.questions).map { revision, question -> AppliedDelta in
                question.outcome.map { .bodiless(revision, $0) } ?? .refused(revision, Self.noMemory(revision, driver.memory.limit))
            }
            return accept(.success(applied), revisions, link)
        }
        driver.ask(atLength: true) { () async -> Result<[AppliedDelta], any Error> in
            do {
                var answers = try await lookUp.bases(batch.questions)
                var applied: [AppliedDelta] = []
                for (index, revision) in revisions.enumerated() {
                    // Nothing else holds the base: it is released as soon as the body has been made from it.
                    let answer = answers[index]
                    answers[index] = .absent
                    applied.append(AppliedDelta(revision, answer, limits: limits))
                }
                return .success(applied)
            } catch { return .failure(error) }
        } then: { driver, result in
            // From then on they are accounted for as what the session has yet to store.
            driver.accounts.keepUntilCounted(batch.memory)
            driver.deltas.accept(result, revisions, driver.links[slot])
        }
    }

    private static func noMemory(_ revision: ReceivedRevision, _ limit: Int) -> MessageError {
        .needsWhole("no memory for a delta within limits.memory (\(limit)), send document \(revision.id) in full")
    }

    private func accept(_ result: Result<[AppliedDelta], any Error>, _ revisions: [ReceivedRevision], _ link: CollectionLink) {
        switch result {
        case .success(let applied):
            for each in applied { accept(each, link) }
            link.incomingDeltas.end(applied.count)
        case .failure(let error):
            driver.logger.error("the bases of deltas cannot be read: \(error)")
            for revision in revisions { refuse(revision, .needsWhole("send document \(revision.id) in full"), link) }
            link.incomingDeltas.end(revisions.count)
        }
        driver.touch(link)
    }

    private func accept(_ applied: AppliedDelta, _ link: CollectionLink) {
        switch applied {
        case .whole(let revision, let saved):
            link.deltas.applied += 1
            link.deltas.bytesSaved += UInt64(saved)
            driver.tell(link, pull: .arrived(revision))
        case .refused(let revision, let error): refuse(revision, error, link)
        case .bodiless(let revision, let outcome): driver.tell(link, pull: .arrivedBodiless(revision, outcome))
        }
    }

    /// The whole body follows, so the row is not settled yet; unless the peer wants no answer.
    private func refuse(_ revision: ReceivedRevision, _ error: MessageError, _ link: CollectionLink) {
        link.deltas.failed += 1
        if let handle = revision.replyTo { return driver.dialect.refuse(handle, error) }
        driver.tell(link, pull: .arrivalRefused(revision.sequence, revision.id, ReplicationError(error), isFinal: false))
    }

    /// Revisions from the peer that are stored with the bodies it sent.
    func noteExchanged(_ revisions: [StorableRevision], _ outcomes: [StoreOutcome], _ link: CollectionLink) {
        guard remembersExchanged(link) else { return }
        for (index, outcome) in zip(revisions.indices, outcomes) {
            switch outcome {
            // If the revision was here before, the peer may have known no more than its id.
            case .stored(.inserted), .stored(.insertedConflict):
                link.exchanged.add(revisions[index].revision.id, revisions[index].revision.revision)
            case .stored, .failed, .moved: break
            }
        }
    }
}
