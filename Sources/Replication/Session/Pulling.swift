import BLIP
import Documents
import DocumentStore
import Interfaces
import NIOCore

/// The receiving side, first half: what the peer offers, and what we ask for.
extension ReplicationSession {
    // MARK: - changes

    func handleChanges(_ request: IncomingRequest) throws(MessageError) {
        let sync = try sync(for: request)
        if isPassive {
            // A peer that pushes proposes its changes, because this side keeps no conflicts. An empty list says nothing.
            if request.isNoReply { return }
            if try ChangeRows.readChanges([UInt8](request.body.readableBytesView), limits: limits).isEmpty {
                reply(to: request.number)
                return
            }
            throw MessageError(code: 409, message: "Use 'proposeChanges' instead")
        }
        guard sync.pull.isSubscribed else { throw MessageError(code: 403, message: "nothing was subscribed to here") }
        let body = [UInt8](request.body.readableBytesView)
        let rows = try ChangeRows.readChanges(body, limits: limits)
        if rows.isEmpty {
            sync.pull.isCaughtUp = true
            if !request.isNoReply { reply(to: request.number) }
            return
        }
        if request.isNoReply { return }
        // In the order of arrival, before anything can be completed.
        for row in rows {
            switch row {
            case .row(let offered): sync.pull.tracker?.begin(offered.sequence)
            case .bad(_, let sequence?): sync.pull.tracker?.begin(sequence)
            case .bad: break
            }
        }
        counters.update { $0.total += UInt64(rows.count) }
        try wait(sync, WaitingList(request: request, offers: rows))
    }

    func handleProposeChanges(_ request: IncomingRequest) throws(MessageError) {
        let sync = try sync(for: request)
        guard isPassive else { throw MessageError(code: 403, message: "this side does the pushing and pulling") }
        // An empty list may come at any time and says nothing.
        if request.isNoReply { return }
        guard request.body.readableBytes <= limits.maximumChangeListBytes else {
            throw MessageError(
                code: 413,
                message: "proposeChanges has \(request.body.readableBytes) bytes, max_change_list_bytes is \(limits.maximumChangeListBytes)")
        }
        try wait(sync, WaitingList(request: request))
    }

    /// Queues a list. A peer that sends many more without waiting for replies is refused.
    private func wait(_ sync: CollectionSync, _ list: WaitingList) throws(MessageError) {
        let pull = sync.pull
        let bytes = list.request.body.readableBytes
        if pull.lists.count >= limits.maximumWaitingChangeLists
            || !pull.lists.isEmpty && pull.listBytes + bytes > limits.maximumWaitingChangeListBytes
        {
            let error = MessageError(
                code: 503,
                message: "\(pull.lists.count) change lists with \(pull.listBytes) bytes wait already; max_waiting_change_lists is "
                    + "\(limits.maximumWaitingChangeLists), max_waiting_change_list_bytes \(limits.maximumWaitingChangeListBytes)")
            // A list that is not answered would leave a gap in what was pulled.
            if !isPassive { fail(ReplicationError(domain: .http, code: error.code, message: error.message)) }
            throw error
        }
        pull.lists.append(list)
        pull.listBytes += bytes
        processLists(sync)
    }

    /// Works through the waiting lists one by one, as long as there is room for what they bring. A list that waits for
    /// its reply is how a peer is slowed down.
    func processLists(_ sync: CollectionSync) {
        guard !sync.pull.isProcessingLists, !sync.pull.lists.isEmpty, sync.pull.hasRoom(limits) else { return }
        sync.pull.isProcessingLists = true
        work {
            while !self.hasEnded, !sync.pull.lists.isEmpty, sync.pull.hasRoom(self.limits) {
                let list = sync.pull.lists.removeFirst()
                let request = list.request
                sync.pull.listBytes -= request.body.readableBytes
                do {
                    if self.isPassive {
                        try await self.answerProposals(sync, request)
                    } else {
                        try await self.answerChanges(sync, request, list.offers)
                    }
                } catch let error as MessageError {
                    self.refuse(request.number, error.code, error.message, domain: error.domain)
                } catch {
                    self.storeFailed(request.number, error)
                    if !self.isPassive { self.fail(error) }
                }
                self.pump()
            }
            sync.pull.isProcessingLists = false
        }
    }

    private func answerChanges(
        _ sync: CollectionSync, _ request: IncomingRequest, _ rows: [RowResult<OfferedRow>]
    ) async throws {
        let selected = sync.documentIDs.map(Set.init)
        var offers: [(DocumentID, RevisionID)] = []
        var removed: [OfferedRow] = []
        for case .row(let row) in rows {
            if row.isAccessRemoved { removed.append(row) } else { offers.append((row.id, row.revision)) }
        }
        let collection = sync.collection
        let needs = try await database.read { [offers] in try $0.missing(collection, offers) }
        if hasEnded { return }
        var writer = RowWriter(capacity: rows.count * 8)
        var next = 0
        var settled = 0
        for result in rows {
            switch result {
            case .bad(let why, let sequence):
                logger.warning("a row of changes was refused: \(why)", metadata: ["peer": "\(transport.peerDescription)"])
                if let sequence { sync.pull.tracker?.complete(sequence) }
                counters.update { $0.failed += 1 }
                writer.number(0)
                settled += 1
            case .row(let row) where row.isAccessRemoved:
                writer.number(0)
                settled += 1
            case .row(let row):
                let need = needs[next]
                next += 1
                if let selected, !selected.contains(row.id) {
                    sync.pull.tracker?.complete(row.sequence)
                    writer.number(0)
                    settled += 1
                    continue
                }
                switch need {
                case .have:
                    sync.pull.tracker?.complete(row.sequence)
                    writer.number(0)
                    settled += 1
                case .need(let ancestors):
                    // The same row twice is asked for once.
                    guard sync.pull.awaited.insert(row.sequence).inserted else {
                        writer.number(0)
                        settled += 1
                        continue
                    }
                    writer.beginRow()
                    for ancestor in ancestors { writer.plain(ancestor.text) }
                    writer.endRow()
                }
            }
        }
        counters.update { $0.completed += UInt64(settled) }
        reply(to: request.number, listReply(writer.finish()))
        if !removed.isEmpty { await takeAway(sync, removed.map { ($0.id, $0.sequence) }) }
        progressed(sync)
    }

    private func answerProposals(_ sync: CollectionSync, _ request: IncomingRequest) async throws {
        let results = try ChangeRows.readProposals([UInt8](request.body.readableBytesView), limits: limits)
        var proposals: [Proposal] = []
        for case .row(let row) in results { proposals.append(Proposal(id: row.id, revision: row.revision, parent: row.parent)) }
        let collection = sync.collection
        let verdicts = try await database.read { [proposals] in try $0.checkProposals(collection, proposals) }
        if hasEnded { return }
        let includesRevision = isTrue(request.properties[Property.conflictIncludesRev])
        var writer = RowWriter(capacity: results.count * 2 + 16)
        var next = 0
        var lastWritten = 0
        var statuses: [(Int, RevisionID?)] = []
        for result in results {
            switch result {
            case .bad(let why, _):
                logger.notice("a proposal was refused: \(why)", metadata: ["peer": "\(transport.peerDescription)"])
                statuses.append((400, nil))
            case .row:
                let verdict = verdicts[next]
                next += 1
                switch verdict {
                case .conflict where decidesPushes(sync) && !refusesPush, .accept:
                    sync.pull.expected += 1
                    statuses.append((0, nil))
                case .have: statuses.append((304, nil))
                case .conflict(let current): statuses.append((409, includesRevision ? current : nil))
                }
            }
            if statuses[statuses.count - 1].0 != 0 { lastWritten = statuses.count }
        }
        // Trailing zeros are left out: an empty list means "send everything".
        for (status, current) in statuses.prefix(lastWritten) {
            if let current { writer.raw("{\"status\":\(status),\"rev\":\"\(current.text)\"}") } else { writer.number(status) }
        }
        reply(to: request.number, listReply(writer.finish()))
    }

    private func listReply(_ body: [UInt8]) -> OutgoingReply {
        OutgoingReply(
            properties: [Property.maxHistory: String(limits.maximumHistory), Property.blobs: "true"],
            body: ByteBuffer(bytes: body), isCompressed: true)
    }

    // MARK: - rev and norev

    func handleRev(_ request: IncomingRequest) throws(MessageError) {
        let sync = try sync(for: request)
        let revision: ReceivedRevision
        do throws(MessageError) {
            if request.properties[Property.error] != nil {
                throw MessageError(code: 502, message: "the peer could not read the document")
            }
            if refusesPush { throw MessageError(code: 403, message: "this listener is read-only") }
            guard bufferedBytes < limits.maximumBufferedRevisionBytes else {
                throw MessageError(
                    code: 503, message: "\(bufferedBytes) bytes wait to be stored, max_buffered_rev_bytes is \(limits.maximumBufferedRevisionBytes)")
            }
            revision = try ReceivedRevision(request, limits: limits)
            if !isPassive, revision.sequence == nil { throw .bad("a rev message needs the property sequence") }
        } catch {
            // 422: the whole body follows. Else the row is answered for, whatever became of it.
            if error.code != 422 {
                let sequence = request.properties[Property.sequence].map { RemoteSequence(json: $0) }
                if let sequence, error.code != 503 { sync.pull.tracker?.complete(sequence) }
                let wasAwaited = arrived(sync, sequence)
                counters.update {
                    $0.failed += 1
                    $0.completed += 1
                    if !wasAwaited { $0.total += 1 }
                }
            }
            if let text = request.properties[Property.id], let id = try? DocumentID(text) {
                report(
                    DocumentEvent(
                        id: id, collection: sync.collection.name, direction: .pull,
                        error: ReplicationError(domain: .http, code: error.code, message: error.message)))
            }
            throw error
        }
        if !arrived(sync, revision.sequence) { counters.update { $0.total += 1 } }
        sync.pull.incoming.append(revision)
        sync.pull.buffered += 1
        sync.pull.incomingBytes += revision.body.readableBytes
        bufferedBytes += revision.body.readableBytes + limits.bufferedMessageOverhead
        scheduleInsertion(sync)
    }

    func handleNoRev(_ request: IncomingRequest) throws(MessageError) {
        let sync = try sync(for: request)
        let sequence = (request.properties[Property.sequence] ?? request.properties["seq"]).map { RemoteSequence(json: $0) }
        if let sequence { sync.pull.tracker?.complete(sequence) }
        if !request.isNoReply { reply(to: request.number) }
        if arrived(sync, sequence), !isPassive { counters.update { $0.completed += 1 } }
        if !sync.pull.lists.isEmpty { processLists(sync) }
        progressed(sync)
    }

    /// A revision came, or will not come. False for one that nobody asked for and nobody counted.
    private func arrived(_ sync: CollectionSync, _ sequence: RemoteSequence?) -> Bool {
        if isPassive {
            sync.pull.expected = max(0, sync.pull.expected - 1)
            return false
        }
        return sequence.map { sync.pull.awaited.remove($0) != nil } ?? false
    }

    /// Gathers revisions into batches: at once when none are expected, else when enough have come or time is up.
    func scheduleInsertion(_ sync: CollectionSync) {
        let pull = sync.pull
        guard !pull.incoming.isEmpty, pull.batchesInFlight < limits.insertionBatchesInFlight else { return }
        let isAll = pull.awaited.isEmpty && pull.expected == 0
        if pull.incoming.count >= 100 || pull.incomingBytes >= limits.insertionBatchBytes / 4 || (isAll && pull.batchesInFlight == 0) {
            insertBatch(sync)
        } else if !pull.flushIsScheduled {
            pull.flushIsScheduled = true
            let slot = sync.slot
            context.schedule(afterMilliseconds: limits.insertionDelayMilliseconds) { [weak self] in
                self?.assumeIsolated { session in
                    guard slot < session.collections.count else { return }
                    let sync = session.collections[slot]
                    sync.pull.flushIsScheduled = false
                    if sync.pull.batchesInFlight < session.limits.insertionBatchesInFlight, !sync.pull.incoming.isEmpty {
                        session.insertBatch(sync)
                    }
                }
            }
        }
    }

    // MARK: - Access taken away

    /// Documents that the peer no longer lets us have: purged here, when the replicator purges by itself.
    func takeAway(_ sync: CollectionSync, _ rows: [(DocumentID, RemoteSequence?)]) async {
        guard case .active(let active) = role else { return }
        let collection = sync.collection
        var ids = rows.map(\.0)
        if active.replicator.autoPurge {
            do {
                if let filter = sync.pullFilter {
                    let documents = try await database.read { [ids] transaction in
                        try ids.map { id in
                            let document = try transaction.document(collection, id)
                            return PolicyDocument(
                                id: id, revision: document?.revision ?? RevisionID(stored: "1-00"), isDeleted: false,
                                body: Array("{}".utf8), accessRemoved: true)
                        }
                    }
                    // Without a verdict the document stays.
                    let verdicts = await filter.evaluate(documents, policyContext(sync, .pull))
                    ids = zip(ids, verdicts).filter { $0.1 == .pass }.map(\.0)
                }
                try await database.write { [ids] transaction in
                    for id in ids { _ = try transaction.purge(collection, id) }
                }
            } catch {
                fail(error)
                return
            }
        }
        for (id, sequence) in rows {
            if let sequence { sync.pull.tracker?.complete(sequence) }
            report(DocumentEvent(id: id, collection: collection.name, direction: .pull, isAccessRemoved: true))
        }
        counters.update { $0.completed += UInt64(rows.count) }
        progressed(sync)
    }
}
