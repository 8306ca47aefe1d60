import Documents
import DocumentStore
import Encodings
import Environment
import Interfaces
import NIOCore

/// Carries out the actions of a push by means of the store, its filter, the dialect and timers, and returns the results to it.
struct PushActions {
    let driver: SessionDriver

    func perform(_ action: PushAction, _ link: CollectionLink) {
        switch action {
        case .read(let position, let limit, let isBacklog): read(from: position, limit: limit, isBacklog: isBacklog, link)
        case .readAgain(let due): readAgain(due, link)
        case .readKeptBack(let after): readKeptBack(after: after, link)
        case .judge(let documents): judge(documents, link)
        case .exclude(let kept) where kept.first?.refusal != nil: driver.refused.excludeRefused(kept, link)
        case .exclude(let kept): exclude(kept, link)
        case .unlist(let ids): unlist(ids, link)
        case .unlistSettled(let ids): unlistSettled(ids, link)
        case .offer(let list, let documents): driver.dialect.offer(link.slot, list, documents)
        case .compare(let questions): compare(questions, link)
        case .move(let document, let tombstone): move(document, below: tombstone, link)
        case .send(let document): driver.outgoingChecks.send(document, link)
        case .withdraw(let document): driver.dialect.withdraw(link.slot, document, .superseded)
        case .announceCaughtUp: driver.dialect.announceCaughtUp(link.slot, isFiltered: link.pushFilter != nil && link.source.documentIDs != nil)
        case .note(let batch): note(batch, link)
        case .startRetryTimer(let seconds): startRetryTimer(seconds: seconds, link)
        case .startRefusedTimer(let attempts, let seconds): startRefusedTimer(attempts: attempts, seconds: seconds, link)
        case .awaitTime(let id, let time): driver.clockRetries.awaitTime(of: id, time, link)
        case .report(let event): driver.reports.report(event)
        case .notifyPull(let id, let version): driver.tell(link, pull: .pushed(id, version))
        case .applyRemovals(let removals): driver.removals.applyRemovals(removals, link)
        case .watchRemovals(let seconds): driver.removals.watchRemovals(seconds, link)
        case .fail(let error): driver.fail(error)
        }
    }

    private func read(from position: FeedPosition, limit: Int, isBacklog: Bool, _ link: CollectionLink) {
        let (slot, generation, memory, historyLimit) = (link.slot, link.generation, driver.memory, driver.dialect.maximumHistory(link.slot))
        driver.largeReads.read(link.source) { transaction, source -> Reserved<FeedPage> in
            let (bytes, reservation) = SessionAccounts.pageReservation(memory)
            let page = try source.read(
                transaction, from: position, limit: limit, maxBytes: bytes, isBacklog: isBacklog, historyLimit: historyLimit)
            return Reserved(read: page, reservation: reservation)
        } then: { driver, found in
            driver.accounts.keepUntilCounted(found.reservation)
            let link = driver.links[slot]
            if link.generation == generation, link.source.activeOnlyThrough == nil { link.source.activeOnlyThrough = found.read.newest }
            driver.tell(slot, generation, push: .read(found.read))
        }
    }

    private func readAgain(_ due: [(DocumentID, Version?)], _ link: CollectionLink) {
        let (slot, generation, memory, historyLimit) = (link.slot, link.generation, driver.memory, driver.dialect.maximumHistory(link.slot))
        let ids = due.map(\.0)
        driver.largeReads.read(link.source) { transaction, source -> Reserved<DocumentsReadAgain> in
            let (bytes, reservation) = SessionAccounts.pageReservation(memory)
            let found = try source.read(transaction, due, maxBytes: bytes, historyLimit: historyLimit)
            return Reserved(read: DocumentsReadAgain(documents: found.documents, count: found.count), reservation: reservation)
        } then: { driver, found in
            driver.accounts.keepUntilCounted(found.reservation)
            driver.tell(slot, generation, push: .readAgain(Array(ids.prefix(found.read.count)), found.read.documents))
        }
    }

    private func readKeptBack(after: DocumentID?, _ link: CollectionLink) {
        let (slot, generation, historyLimit) = (link.slot, link.generation, driver.dialect.maximumHistory(link.slot))
        let current = link.pushFilter.map { ($0.pluginName, $0.version) }
        driver.largeReads.read(link.source) {
            try $1.readKeptBack($0, after: after, unlessJudgedBy: current, historyLimit: historyLimit)
        } then: { $0.tell(slot, generation, push: .keptBackRead($1)) }
    }

    private func exclude(_ kept: [KeptBack], _ link: CollectionLink) {
        guard let remote = link.remote else { return driver.tell(link, push: .excluded(kept.map(\.document.id))) }
        let (slot, generation, source, comparesThrough) = (link.slot, link.generation, link.source, link.comparesThrough)
        let exclusions = kept.map { Exclusion($0, remote, link.pushFilter) }
        driver.write { transaction in
            let rows = exclusions.map { row in
                var row = row
                row.revision = row.revision.map { transaction.listName(of: $0, source.collection, row.id) }
                return row
            }
            // The peer may have lost what it is noted to have, and was not asked: once the filter lets the document pass, it would count as delivered.
            for row in rows where row.sequence <= comparesThrough {
                if let revision = row.revision { try transaction.forgetRemoteRevision(remote, source.collection, row.id, ifItIs: revision) }
            }
            try transaction.exclude(source.collection, rows)
        } then: { driver, _ in
            driver.tell(slot, generation, push: .excluded(exclusions.map(\.id)))
        }
    }

    private func unlist(_ ids: [DocumentID], _ link: CollectionLink) {
        guard let remote = link.remote else { return }
        let (source, refusals) = (link.source, link.refusals)
        driver.write {
            try $0.unexclude(source.collection, remote: remote, direction: .push, ids: ids)
            refusals.forget()
        } then: { _, _ in }
    }

    private func unlistSettled(_ ids: [DocumentID], _ link: CollectionLink) {
        guard let remote = link.remote else { return }
        let (source, refusals) = (link.source, link.refusals)
        driver.write {
            let settled = try source.settled($0, ids)
            if settled.isEmpty { return }
            try $0.unexclude(source.collection, remote: remote, direction: .push, ids: settled)
            refusals.forget()
        } then: { _, _ in }
    }

    private func compare(_ questions: [(OutgoingDocument, Version)], _ link: CollectionLink) {
        let (slot, generation, source) = (link.slot, link.generation, link.source)
        let historyLimit = driver.dialect.maximumHistory(slot)
        driver.read { transaction in
            try questions.map { ($0.0.id, try source.compare(transaction, $0.0.id, $0.0.version, with: $0.1, historyLimit: historyLimit)) }
        } then: { $0.tell(slot, generation, push: .compared($1)) }
    }

    private func move(_ document: OutgoingDocument, below tombstone: Version, _ link: CollectionLink) {
        let (slot, generation, collection, remote) = (link.slot, link.generation, link.source.collection, link.remote)
        let (id, version) = (document.id, document.version)
        driver.write { transaction in
            guard let remote, let current = try transaction.revision(named: version, collection, id),
                let other = try transaction.revision(named: tombstone, collection, id)
            else { return false }
            do throws(StoreError) { return try transaction.moveDocument(collection, id, current, below: other, of: remote) } catch {
                guard error.concernsOneDocument else { throw error }
                return false
            }
        } then: { $0.tell(slot, generation, push: .moved(id, $1)) }
    }

    private func note(_ batch: AcknowledgedVersions.Batch, _ link: CollectionLink) {
        guard let remote = link.remote else { return driver.tell(link, push: .noted(batch)) }
        let (slot, generation, source, refusals) = (link.slot, link.generation, link.source, link.refusals)
        link.marks.note(batch.marks.lazy.map(\.id))
        driver.write {
            try $0.markRemote(remote, source.collection, batch)
            if batch.endsExclusions { refusals.forget() }
        } then: { driver, _ in
            driver.tell(slot, generation, push: .noted(batch))
        }
    }

    private func startRetryTimer(seconds: Int, _ link: CollectionLink) {
        let (slot, generation) = (link.slot, link.generation)
        driver.later(milliseconds: seconds * 1_000) { $0.tell(slot, generation, push: .retryIsDue) }
    }

    private func startRefusedTimer(attempts: Int, seconds: Int, _ link: CollectionLink) {
        let (slot, generation) = (link.slot, link.generation)
        driver.later(milliseconds: seconds * 1_000) { $0.tell(slot, generation, push: .refusedAreDue(attempts: attempts)) }
    }

    private func judge(_ documents: [OutgoingDocument], _ link: CollectionLink) {
        guard let filter = link.pushFilter else { return driver.tell(link, push: .judged(documents.map { _ in .pass })) }
        let (slot, generation) = (link.slot, link.generation)
        let asked = documents.filter { $0.bytesLeftOut == 0 }
        let questions = asked.map { PolicyDocument(id: $0.id, revision: $0.version, isDeleted: $0.isDeleted, body: $0.body) }
        guard asked.count == documents.count else { return judge(documents, questions, by: filter, link) }
        // Documents on which the filter fails stay open in the peer's checkpoint.
        judge(questions, by: filter, link, listsFailures: false) { $0.tell(slot, generation, push: .judged($1, by: $2)) }
    }

    /// Of some documents the body is left out, and the filter cannot be asked: they wait like those on which it fails.
    private func judge(_ documents: [OutgoingDocument], _ questions: [PolicyDocument], by filter: any DocumentFilter, _ link: CollectionLink) {
        let (slot, generation, memory) = (link.slot, link.generation, driver.memory.limit)
        let failures = documents.map { document -> PolicyFailure? in
            guard document.bytesLeftOut > 0 else { return nil }
            let error = ReplicationError(unsent: document.bytesLeftOut, memory: memory)
            return PolicyFailure(plugin: filter.pluginName, version: filter.version, kind: PolicyFailure.notAsked, message: "it was not asked: \(error.message); \(error.remedy ?? "")")
        }
        judge(questions, by: filter, link, listsFailures: false) { driver, verdicts, version in
            var next = verdicts.makeIterator()
            driver.tell(slot, generation, push: .judged(failures.map { $0.map { .failed($0) } ?? next.next() ?? .reject }, by: version))
        }
    }

    /// Asks a push filter. Documents that it keeps from a pulling peer are on the listener's list by the time of the answer.
    ///
    /// - Parameter then: receives the verdicts, and the version that gave them. The version is read first, so if the filter is replaced in between,
    ///   an older version is recorded rather than a newer one.
    func judge(
        _ questions: [PolicyDocument], by filter: any DocumentFilter, _ link: CollectionLink, listsFailures: Bool,
        then: @escaping @Sendable (SessionDriver, [FilterVerdict], String) -> Void
    ) {
        let (context, version) = (driver.policyContext(link.collection.name, .push), filter.version)
        guard case .passive(let passive) = driver.role else {
            return driver.ask { await filter.verdicts(questions, context) } then: { then($0, $1, version) }
        }
        let (kept, database, collection) = (passive.kept, driver.database, link.collection)
        driver.attempt {
            try await kept.verdicts(of: questions, filter, context, database, collection, listsFailures: listsFailures)
        } then: { then($0, $1, version) }
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
