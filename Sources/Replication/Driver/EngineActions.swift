import Documents
import DocumentStore
import Encodings
import Environment
import Interfaces
import NIOCore

/// What the machines ask for is done here: by the store, policies, the dialect and timers. What comes of it goes back to them.
extension ReplicationSession {
    // MARK: - Push

    func perform(_ action: PushAction, _ link: CollectionLink) {
        // What happens to each document comes first: the others need more.
        switch action {
        case .send(let document): letLeave(document, link)
        case .withdraw(let document): dialect.withdraw(link.slot, document, .wasDropped)
        case .report(let event): report(event)
        case .tellPull(let id, let version): tell(link, pull: .pushed(id, version))
        case .takeAway(let removals): takeAway(removals, link)
        case .watchRemovals(let seconds): watchRemovals(seconds, link)
        case .fail(let error): fail(error)
        default: performOnStore(action, link)
        }
    }

    private func performOnStore(_ action: PushAction, _ link: CollectionLink) {
        let (slot, generation) = (link.slot, link.generation)
        let source = link.source
        let historyLimit = dialect.maximumHistory(slot)
        switch action {
        case .read(let position, let limit, let isBacklog):
            let memory = memory
            read {
                try source.read(
                    $0, from: position, limit: limit, maxBytes: Self.pageBytes(memory), isBacklog: isBacklog, historyLimit: historyLimit)
            } then: { $0.tell(slot, generation, push: .read($1)) }
        case .readAgain(let due):
            let (ids, memory) = (due.map(\.0), memory)
            read { try source.read($0, due, maxBytes: Self.pageBytes(memory), historyLimit: historyLimit) } then: {
                $0.tell(slot, generation, push: .readAgain(Array(ids.prefix($1.count)), $1.documents))
            }
        case .readKeptBack(let after):
            let current = link.pushFilter.map { ($0.pluginName, $0.version) }
            read {
                try source.readKeptBack($0, after: after, unlessJudgedBy: current, historyLimit: historyLimit)
            } then: { $0.tell(slot, generation, push: .keptBackRead($1)) }
        case .judge(let documents): judge(documents, link)
        case .list(let kept) where kept.first?.refusal != nil: listRefused(kept, link)
        case .list(let kept):
            guard let remote = link.remote else { return tell(link, push: .listed(kept.map(\.document.id))) }
            let exclusions = kept.map { Exclusion($0, remote, link.pushFilter) }
            write { transaction in
                let rows = exclusions.map { row in
                    var row = row
                    row.revision = row.revision.map { transaction.listName(of: $0, source.collection, row.id) }
                    return row
                }
                try transaction.exclude(source.collection, rows)
            } then: { session, _ in
                session.tell(slot, generation, push: .listed(exclusions.map(\.id)))
            }
        case .unlist(let ids):
            guard let remote = link.remote else { return }
            let refusals = link.refusals
            write {
                try $0.unexclude(source.collection, remote: remote, direction: .push, ids: ids)
                refusals.forget()
            } then: { _, _ in }
        case .unlistSettled(let ids):
            guard let remote = link.remote else { return }
            let refusals = link.refusals
            write {
                let settled = try source.settled($0, ids)
                if settled.isEmpty { return }
                try $0.unexclude(source.collection, remote: remote, direction: .push, ids: settled)
                refusals.forget()
            } then: { _, _ in }
        case .offer(let list, let documents): dialect.offer(slot, list, documents)
        case .compare(let questions):
            read { transaction in
                try questions.map { ($0.0.id, try source.compare(transaction, $0.0.id, $0.0.version, with: $0.1, historyLimit: historyLimit)) }
            } then: { $0.tell(slot, generation, push: .compared($1)) }
        case .announceCaughtUp: dialect.announceCaughtUp(slot)
        case .note(let batch):
            guard let remote = link.remote else { return tell(link, push: .noted(batch)) }
            link.marks.note(batch.marks.lazy.map(\.id))
            let refusals = link.refusals
            write {
                try $0.markRemote(remote, source.collection, batch)
                if batch.endsExclusions { refusals.forget() }
            } then: { session, _ in
                session.tell(slot, generation, push: .noted(batch))
            }
        case .startRetryTimer(let seconds):
            later(milliseconds: seconds * 1_000) { $0.tell(slot, generation, push: .retryIsDue) }
        case .startRefusedTimer(let attempts, let seconds):
            later(milliseconds: seconds * 1_000) { $0.tell(slot, generation, push: .refusedAreDue(attempts: attempts)) }
        case .awaitTime(let id, let time): awaitTime(of: id, time, link)
        case .send, .withdraw, .report, .tellPull, .takeAway, .watchRemovals, .fail: break
        }
    }

    /// Tells the push that asked, unless another subscription has taken its place.
    func tell(_ slot: Int, _ generation: Int, push event: PushEvent) {
        let link = links[slot]
        if link.generation == generation { tell(link, push: event) }
    }

    private func judge(_ documents: [OutgoingDocument], _ link: CollectionLink) {
        guard let filter = link.pushFilter else { return tell(link, push: .judged(documents.map { _ in .pass })) }
        let (slot, generation) = (link.slot, link.generation)
        let questions = documents.map { PolicyDocument(id: $0.id, revision: $0.version, isDeleted: $0.isDeleted, body: $0.body) }
        // What it fails on stays open in the peer's checkpoint.
        judge(questions, by: filter, link, listsFailures: false) { $0.tell(slot, generation, push: .judged($1, by: $2)) }
    }

    /// Asks a push filter. What it keeps from a peer that pulls is on the listener's list by the time of the answer.
    ///
    /// - Parameter then: gets the verdicts, and the version that gave them: read before, so that most likely an earlier one answered, were it
    ///   replaced meanwhile.
    func judge(
        _ questions: [PolicyDocument], by filter: any DocumentFilter, _ link: CollectionLink, listsFailures: Bool,
        then: @escaping @Sendable (isolated ReplicationSession, [FilterVerdict], String) -> Void
    ) {
        let (context, version) = (policyContext(link.collection.name, .push), filter.version)
        guard case .passive(let passive) = role else {
            return ask { await filter.verdicts(questions, context) } then: { then($0, $1, version) }
        }
        let (kept, database, collection) = (passive.kept, database, link.collection)
        ask { () async -> Result<[FilterVerdict], any Error> in
            do {
                return .success(try await kept.verdicts(of: questions, filter, context, database, collection, listsFailures: listsFailures))
            } catch { return .failure(error) }
        } then: { session, result in
            switch result {
            case .success(let verdicts): then(session, verdicts, version)
            case .failure(let error): session.fail(error)
            }
        }
    }

    // MARK: - Pull

    func perform(_ action: PullAction, _ link: CollectionLink) {
        let slot = link.slot
        let collection = link.collection
        switch action {
        case .readList(let list): read(list, link)
        case .findMissing(let offers):
            if offers.isEmpty { return tell(link, pull: .missing([])) }
            let (remote, isBounded) = (link.remote, link.remote != nil && !link.mayNameAll)
            // The store may not know yet what the peer acknowledged. Peers of CouchDB's kind may have several.
            let acknowledged = offers.map { link.push?.acknowledged.version(of: $0.id) }
            let hasOne = couch == nil
            endOrphans(offers.map(\.id), link)
            let (skipsDeletions, naming) = (link.pull.settings.skipsDeletions, naming)
            read {
                try $0.missing(collection, offers, skipsDeletions: skipsDeletions, from: remote, hasOne: hasOne, onlyKnown: isBounded, naming: naming)
            } then: { session, needs in
                let marks = session.links[slot].marks
                let needs = zip(zip(needs, offers), acknowledged).map { ($0.0.believing(marks.isBelieved($0.1.id))).knowing($1, hasOne) }
                // Known to the store when what is asked for comes to it.
                if zip(needs, acknowledged).contains(where: { $0 != .have && $1 != nil }) { session.tell(session.links[slot], push: .noteNow) }
                session.tell(session.links[slot], pull: .missing(needs))
            } failed: { $0.tell($0.links[slot], pull: .listFailed($1)) }
        case .checkProposals(let proposals):
            if proposals.isEmpty { return tell(link, pull: .proposalsChecked([])) }
            check(proposals, link)
        case .answerChanges(let handle, let answers): dialect.answer(handle, changes: answers)
        case .answerProposals(let handle, let answers, let namesCurrent):
            dialect.answer(handle, proposals: answers, namesCurrent: namesCurrent)
        case .refuseList(let handle, let error): dialect.refuse(handle, error)
        case .check(let batch, let revisions):
            let unusualKeys = database.unusualKeys
            let (unchecked, memory) = (UncheckedRevisions(revisions), memory)
            link.unchecked[batch] = unchecked
            ask(atLength: true) { await RevisionChecking.check(unchecked, unusualKeys: unusualKeys, memory) } then: { session, outcomes in
                let link = session.links[slot]
                link.unchecked[batch] = nil
                session.tell(link, pull: .insertion(.checked(batch, outcomes)))
            }
        case .fetchBlobs(let fetch, let revision):
            need(fetch, revision, link)
        case .judge(let batch, let revisions): judge(batch, revisions, link)
        case .keep(let batch, let held):
            guard let remote = link.remote else { return tell(link, pull: .insertion(.kept(batch))) }
            write { try HeldRevisions.keep(held, remote, collection, $0) } then: { session, _ in
                let link = session.links[slot]
                session.tell(link, pull: .insertion(.kept(batch)))
            } failed: { $0.tell($0.links[slot], pull: .insertion(.failed(batch, $1))) }
        case .assign(let batch, let revisions): assign(batch, revisions, link)
        case .store(let batch, let revisions, let conflicts, let settlesHeld): store(batch, revisions, conflicts, settlesHeld: settlesHeld, link)
        case .takeAway(let removals) where !isPassive && link.push != nil: tell(link, push: .takenAway(removals))
        case .takeAway(let removals): takeAway(removals, link)
        case .settle(let handle, let settlement): dialect.settle(handle, settlement)
        case .decide(let ids):
            guard let decider = link.resolver else { return }
            let asked = decider.resolver?.version
            ask { () async -> Result<[ConflictDecider.Outcome], any Error> in
                do { return .success(try await decider.decide(ids)) } catch { return .failure(error) }
            } then: { session, result in
                switch result {
                case .success(let outcomes):
                    session.tell(session.links[slot], pull: .decided(outcomes))
                    session.dialect.decided(slot, outcomes.filter(\.isDecided))
                    // A version that came into force meanwhile has looked through what is pending already, without these.
                    if decider.resolver?.version != asked, outcomes.contains(where: { $0.failure != nil }) {
                        session.tell(session.links[slot], pull: .resolverChanged)
                    }
                case .failure(let error): session.fail(error)
                }
            }
        case .readHeld(let after):
            guard let remote = link.remote else { return }
            // Of a peer that may have lost data all are judged again, and go on the list with a word of it.
            let isSound = link.marks.areBelieved
            let current = isSound ? link.pullFilter.map { ($0.pluginName, $0.version) } : nil
            read {
                try HeldRevisions.page(collection, remote, after: after, unlessJudgedBy: current, mayBeLostThere: !isSound, $0)
            } then: { $0.tell($0.links[slot], pull: .heldRead($1)) }
        case .readConflicts(let after):
            guard let decider = link.resolver else { return }
            read { try decider.conflicted($0, after: after, limit: 200) } then: { $0.tell($0.links[slot], pull: .conflictsRead($1)) }
        case .tellPush(let revisions): if link.push != nil { tell(link, push: .pulled(revisions)) }
        case .tellPushOfRefusal(let revisions): if link.push != nil { tell(link, push: .met(revisions)) }
        case .tellPushOfDecision(let ids): if link.push != nil { tell(link, push: .decided(ids)) }
        case .startFlushTimer:
            later(milliseconds: limits.insertionDelayMilliseconds) { $0.tell($0.links[slot], pull: .insertion(.flushIsDue)) }
        case .comeBackLater: comeBackLater()
        case .lookForRoom(let bytes): lookForRoom(bytes, link)
        case .comeBackNow: comeBack("reconnecting: there is room again for documents that did not fit")
        case .report(let event): report(event)
        case .warn(let message): logger.warning("\(message)", metadata: ["peer": "\(transport.peerDescription)"])
        case .fail(let error): fail(error)
        }
    }

    private func judge(_ batch: BatchID, _ revisions: [CheckedRevision], _ link: CollectionLink) {
        let slot = link.slot
        guard let filter = link.pullFilter else { return }
        let (plugin, version) = (filter.pluginName, filter.version)
        let context = policyContext(link.collection.name, .pull)
        let questions = revisions.map { PolicyDocument(id: $0.id, revision: $0.revision, isDeleted: $0.isDeleted, body: $0.body) }
        ask { await filter.verdicts(questions, context) } then: {
            $0.tell($0.links[slot], pull: .insertion(.judged(batch, $1, plugin: plugin, version: version)))
        }
    }

    private func assign(_ batch: BatchID, _ revisions: [CheckedRevision], _ link: CollectionLink) {
        guard case .passive(let passive) = role, let function = link.syncFunction else { return }
        let slot = link.slot
        let asking = SyncAsking(
            database: database, collection: link.collection, function: function, principal: passive.principal,
            peer: ChannelPeer(user: passive.principal.name, listener: passive.listener),
            context: policyContext(link.collection.name, .pull), setsAccess: channelPeer != nil && !link.hasSetAccess)
        look(at: revisions, link) { session, sender in
            var asking = asking
            asking.sender = sender
            session.ask { [asking] in await asking.judge(revisions) } then: { session, result in
                switch result {
                case .success(let judgements):
                    session.links[slot].hasSetAccess = true
                    session.tell(session.links[slot], pull: .insertion(.assigned(batch, judgements)))
                case .failure(let error): session.notStored(batch, revisions.count, slot, error)
                }
            }
        } failed: { $0.notStored(batch, revisions.count, slot, $1) }
    }

    private func check(_ proposals: [Proposal], _ link: CollectionLink) {
        var proposals = proposals
        for index in proposals.indices where proposals[index].parent == nil {
            proposals[index].missesDeletion = link.push?.fetchedDeletions.take(proposals[index].id) ?? false
        }
        let (slot, collection, naming, asked) = (link.slot, link.collection, naming, proposals)
        guard channelPeer != nil || link.pushFilter != nil else {
            return read { try $0.checkProposals(collection, asked, naming: naming) } then: { $0.tell($0.links[slot], pull: .proposalsChecked($1)) } failed: {
                $0.tell($0.links[slot], pull: .listFailed($1))
            }
        }
        view(link) { session, view in
            session.ask { () async -> Result<[ProposalVerdict], any Error> in
                do { return .success(try await view.check(asked)) } catch { return .failure(error) }
            } then: { session, result in
                switch result {
                case .success(let verdicts): session.tell(session.links[slot], pull: .proposalsChecked(verdicts))
                case .failure(let error): session.tell(session.links[slot], pull: .listFailed(error))
                }
            }
        } failed: { $0.tell($0.links[slot], pull: .listFailed($1)) }
    }

    // MARK: - Checkpoints

    func perform(_ action: CheckpointMachine.Action, _ link: CollectionLink) {
        let slot = link.slot
        guard let id = link.checkpoint?.id else { return }
        switch action {
        case .startTimer:
            later(milliseconds: limits.checkpointIntervalSeconds * 1_000) { $0.tell($0.links[slot], checkpoint: .timerElapsed) }
        case .note:
            if link.push != nil { tell(link, push: .noteNow) }
            tellWhenNoted(link)
        case .saveAtPeer(let body, let token):
            link.checkpointBytes = dialect.checkpointText(body, time: environment.time.wallSeconds())
            dialect.saveCheckpoint(slot, id: id, body: link.checkpointBytes, token: token)
        case .fetchToken: dialect.fetchCheckpoint(slot, id: id)
        case .saveHere(let body): saveHere(link.checkpointBytes, body, id, link)
        case .saveHereOnly(let body, let token):
            saveHere(CheckpointBody.hereOnly(dialect.checkpointText(body, time: environment.time.wallSeconds()), besides: token), body, id, link)
        case .warn(let message): logger.warning("\(message)")
        case .fail(let error): fail(error)
        }
    }

    private func saveHere(_ bytes: [UInt8], _ body: CheckpointBody, _ id: String, _ link: CollectionLink) {
        let (slot, collection) = (link.slot, link.collection)
        let bytes = body.local < link.comparesThrough ? CheckpointBody.comparing(bytes, through: link.comparesThrough) : bytes
        write { _ = try $0.setCheckpoint(id: id, collection: collection, body: bytes) } then: { session, _ in
            let isAtPeer = session.links[slot].checkpoint?.refusal == nil
            if isAtPeer { session.observer.checkpointSaved(collection.name) }
            session.logger.debug("checkpoint of \(collection.name) saved\(isAtPeer ? "" : " here only"): \(body.words)")
            session.tell(session.links[slot], checkpoint: .savedHere)
        }
    }

    // MARK: - Work elsewhere

    /// Reads, and goes on here. A store that cannot read ends the session, unless something else is said.
    func read<T: Sendable>(
        _ body: @escaping @Sendable (ReadTransaction) throws -> T,
        then: @escaping @Sendable (isolated ReplicationSession, T) -> Void,
        failed: @escaping @Sendable (isolated ReplicationSession, any Error) -> Void = { $0.fail($1) }
    ) {
        database.read(body) { result in self.goOn(result, then, failed) }
    }

    /// Writes, and goes on here when it is durable.
    func write<T: Sendable>(
        _ body: @escaping @Sendable (WriteTransaction) throws -> T,
        then: @escaping @Sendable (isolated ReplicationSession, T) -> Void,
        failed: @escaping @Sendable (isolated ReplicationSession, any Error) -> Void = { $0.fail($1) }
    ) {
        database.write(body) { [share] result in withExtendedLifetime(share) { self.goOn(result, then, failed) } }
    }

    nonisolated func goOn<T: Sendable>(
        _ result: Result<T, any Error>, _ then: @escaping @Sendable (isolated ReplicationSession, T) -> Void,
        _ failed: @escaping @Sendable (isolated ReplicationSession, any Error) -> Void
    ) {
        later { session in
            switch result {
            case .success(let value): then(session, value)
            case .failure(let error): failed(session, error)
            }
        }
    }

    /// Asks a policy, or the pool, and goes on here.
    ///
    /// - Parameter atLength: the answer may take milliseconds of work, such as a look at a large body.
    func ask<T: Sendable>(
        atLength: Bool = false, _ question: @escaping @Sendable () async -> T, then: @escaping @Sendable (isolated ReplicationSession, T) -> Void
    ) {
        let body: @Sendable () async -> Void = { [share] in
            let answer = await question()
            withExtendedLifetime(share) { self.later { then($0, answer) } }
        }
        if atLength { environment.lengthyTask(body) } else { environment.task(body) }
    }
}

extension Exclusion {
    fileprivate init(_ kept: KeptBack, _ remote: RemoteID, _ filter: (any DocumentFilter)?) {
        self.init(
            remote: remote, direction: .push, kind: kept.failure == nil ? .rejected : .held, id: kept.document.id,
            sequence: kept.document.sequence, revision: kept.document.version, error: kept.failure?.message ?? "",
            plugin: kept.failure?.plugin ?? filter?.pluginName ?? "", version: kept.failure?.version ?? kept.document.judgedBy)
    }
}
