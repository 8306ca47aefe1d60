import Documents
import DocumentStore
import Encodings
import Interfaces
import NIOCore

/// A revision that the engine wants, of a row that the peer announced.
struct WantedRevision: Sendable {
    var row: OfferedRow
    /// What is here of it.
    var ancestors: [Version]
    /// Where the page of the feed began that has the row.
    var since: String
}

/// Pull: what the engine wants of the peer's rows comes by `_bulk_get`.
extension CouchDialect {
    /// Begins the requests that may go now.
    func fetch() {
        while let (wanted, over) = nextFetch() {
            if !over.isEmpty { tell(over.map { .pull(slot: 0, .withdrawn($0.row.sequence)) }) }
            if wanted.isEmpty { continue }
            run { dialect in
                await dialect.peer.untilReading()
                try await dialect.fetch(wanted)
            } finally: {
                $0.fetches -= 1
            }
        }
    }

    /// What is to be asked for now, and what need not be any more.
    private func nextFetch() -> (wanted: [WantedRevision], over: [WantedRevision])? {
        state.withLock { state in
            guard !state.isOver, !state.wanted.isEmpty, state.fetches < Portions.fetches else { return nil }
            var count = min(state.wanted.count, Portions.fetch)
            guard count == Portions.fetch || state.fetches == 0 else { return nil }
            // The leaves of a document come together: what ended says how what won is to be taken.
            while count < state.wanted.count, state.wanted[count].row.id == state.wanted[count - 1].row.id { count += 1 }
            let next = state.wanted[..<count]
            let over = next.filter { state.branches[$0.row.id]?.isOver($0.row.revision) == true }
            defer { state.wanted.removeFirst(count) }
            if over.isEmpty {
                state.fetches += 1
                return (Array(next), [])
            }
            let wanted = next.filter { state.branches[$0.row.id]?.isOver($0.row.revision) != true }
            if !wanted.isEmpty { state.fetches += 1 }
            return (wanted, over)
        }
    }

    private func fetch(_ wanted: [WantedRevision]) async throws {
        if state.withLock({ $0.lacksBulkGet }) { return try await fetchOneByOne(wanted) }
        let docs = JSONValue.array(
            wanted.map { ["id": .string($0.row.id.text), "rev": .string($0.row.revision.text), "atts_since": .array($0.ancestors.map { .string($0.text) })] })
        let path = "/_bulk_get?revs=true&latest=true&attachments=false&att_encoding_info=true"
        let isOne = wanted.count == 1
        var answer = try await ask(PeerRequest("POST", path, json: ["docs": docs], atMost: isOne ? documentBytes : answerBytes(isOne: false)))
        if [400, 404, 405, 415, 501].contains(answer.status) {
            state.withLock { $0.lacksBulkGet = true }
            return try await fetchOneByOne(wanted)
        }
        if isOne, try await takeLarge(&answer, wanted[0]) { return }
        if answer.status == 413 || isTooMuch(answer, isOne: isOne) {
            let (isLong, length) = (answer.isTooLarge, answer.header("content-length").flatMap { Int($0) })
            return try await fetchHalves(of: wanted) { isLong ? tooLong($0, length) : tooLarge($0) }
        }
        guard answer.isGood else { throw ReplicationError(answer, to: "POST _bulk_get") }
        do {
            try await reading(answer, "POST _bulk_get") { json in
                var found: [FoundRevision] = []
                for result in json["results"]?.asArray ?? [] {
                    let id = result["id"]?.asString.flatMap { try? DocumentID($0) }
                    for each in result["docs"]?.asArray ?? [] { found.append(FoundRevision(each, of: id)) }
                }
                try await take(found, for: wanted)
            }
        } catch {
            guard let flaw = answer.flaw else { throw error }
            try await fetchHalves(of: wanted) { unreadable($0, flaw) }
        }
    }

    /// A document whose values would take much is taken by its bytes.
    ///
    /// - Parameter answer: its text goes as soon as the document is taken out of it.
    /// - Returns: false where the answer is to be read as values.
    private func takeLarge(_ answer: inout PeerAnswer, _ wanted: WantedRevision) async throws -> Bool {
        let bytes = answer.body.readableBytes
        guard answer.isGood, !answer.isTooLarge, bytes > RevisionChecking.smallBody, !answer.hasTooManyValues else { return false }
        try await take(2 * bytes)
        var held = 2 * bytes
        defer { giveBack(held) }
        guard let large = LargeDocument(answer.body) else { return false }
        var found = FoundRevision(["ok": .object(large.head)], of: wanted.row.id)
        guard case .document(var document) = found else { return false }
        answer.body = ByteBuffer()
        document.text = large.content
        found = .document(document)
        // What is handed on is counted where it goes; with attachments it stays until these are here.
        let left = document.attachments.isEmpty ? 0 : bytes
        giveBack(held - left)
        held = left
        try await take([found], for: [wanted])
        return true
    }

    /// Where one of them is not to be had: the others are.
    private func fetchHalves(of wanted: [WantedRevision], refusal: (WantedRevision) -> ReplicationError) async throws {
        if wanted.count == 1 { return refuse(wanted[0], refusal(wanted[0])) }
        try await fetch(Array(wanted[..<(wanted.count / 2)]))
        // What came of the first half is stored meanwhile.
        await peer.untilReading()
        try await fetch(Array(wanted[(wanted.count / 2)...]))
    }

    /// As CouchDB 1.x and peers without `_bulk_get` have it.
    private func fetchOneByOne(_ wanted: [WantedRevision]) async throws {
        for each in wanted {
            let open = PercentEncoding.encode("[\"\(each.row.revision.text)\"]")
            let path = "/\(PercentEncoding.encode(each.row.id.text))?revs=true&latest=true&att_encoding_info=true&open_revs=\(open)"
            var answer = try await ask(PeerRequest("GET", path, json: nil, atMost: documentBytes))
            if try await takeLarge(&answer, each) { continue }
            if answer.isTooLarge {
                refuse(each, tooLong(each, answer.header("content-length").flatMap { Int($0) }))
                continue
            }
            if isTooMuch(answer, isOne: true) { refuse(each, tooLarge(each)); continue }
            if answer.status == 404 { try await giveUp([each]); continue }
            guard answer.isGood else { throw ReplicationError(answer, to: "GET \(path)") }
            do { try await reading(answer, "GET \(path)") { try await take(($0.asArray ?? []).map { FoundRevision($0, of: each.row.id) }, for: [each]) } } catch {
                guard let flaw = answer.flaw else { throw error }
                refuse(each, unreadable(each, flaw))
            }
        }
    }

    private func tooLarge(_ wanted: WantedRevision) -> ReplicationError {
        var error = ReplicationError(
            domain: .http, code: 413,
            message: "document \(wanted.row.id) has more than \(Portions.answerBytes) bytes (couch_answer_bytes), or values of more than \(AnswerBounds.tree) (couch_tree_bytes), or is more than limits.memory (\(memory.limit) bytes) leaves for one answer")
        error.isOfSizeHere = true
        return error
    }

    /// - Parameter length: of the answer, if the peer said it.
    private func tooLong(_ wanted: WantedRevision, _ length: Int?) -> ReplicationError {
        guard documentBytes < Portions.answerBytes, length ?? 0 <= Portions.answerBytes else { return tooLarge(wanted) }
        let needed = Self.memoryBytes(forDocument: length ?? limits.maximumDocumentBytes)
        var error = ReplicationError(
            domain: .http, code: 413,
            message: "document \(wanted.row.id) has \(length.map { "\($0) bytes, " } ?? "")more than the \(documentBytes) bytes that this agent's limits.memory (\(memory.limit)) "
                + "leaves for one document; set limits: { memory } here to \(needed)\(length == nil ? ", which is enough for any," : "") or more: "
                + "from the agent's next start on it is asked for again by itself")
        error.isOfSizeHere = true
        return error
    }

    private func unreadable(_ wanted: WantedRevision, _ flaw: JSONError) -> ReplicationError {
        ReplicationError(domain: .http, code: 400, message: "document \(wanted.row.id): \(flaw)")
    }

    private func refuse(_ wanted: WantedRevision, _ error: ReplicationError, isFinal: Bool = true) {
        tell([.pull(slot: 0, .arrivalRefused(wanted.row.sequence, wanted.row.id, error, isFinal: isFinal))])
    }

    /// The engine's event for it, with the leaves that the peer has beside it.
    private func arrival(_ document: FoundDocument, _ wanted: WantedRevision) -> PullEvent {
        let event = document.arrival(wanted.row.sequence, limits)
        let known = state.withLock { $0.branches[document.id] }
        guard case .arrived(var received) = event else { return event }
        if let known {
            // One set for all of them: each with a set of its own, a thousand would hold a million.
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

    /// What becomes of a row of which the peer gives no document that can be taken.
    private func notGiven(_ wanted: WantedRevision, _ found: FoundRevision) -> PullEvent {
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

    /// The peer says nothing of a row: it may only be late, so that it is asked again, and nothing passes it.
    private func notAnswered(_ wanted: WantedRevision) -> PullEvent {
        let id = wanted.row.id
        let failure = ReplicationError(
            domain: .http, code: 502, message: "the peer was asked for document \(id), which its _changes has, and answered with neither it nor a reason")
        return .arrivalRefused(wanted.row.sequence, id, failure, isFinal: false)
    }

    /// The peer says of revisions which it announced that it does not have them. What its feed does not name any more was replaced or purged, or is not
    /// for us any more. What stands there still has not reached each node of a cluster: it is asked for again, and nothing passes it.
    private func giveUp(_ gone: [WantedRevision]) async throws {
        for (since, wanted) in Dictionary(grouping: gone, by: \.since) {
            let named = try await named(Set(wanted.map(\.row.id)), since: since)
            tell(wanted.map { each -> DialectEvent in
                guard named[each.row.id]?.contains(each.row.revision) == true else { return .pull(slot: 0, .withdrawn(each.row.sequence)) }
                let failure = ReplicationError(
                    domain: .http, code: 502,
                    message: "the peer says that it has no revision \(each.row.revision) of document \(each.row.id), which its _changes has; is a node of its cluster behind?")
                return .pull(slot: 0, .arrivalRefused(each.row.sequence, each.row.id, failure, isFinal: false))
            })
        }
    }

    /// The revisions of these documents that the peer's feed names behind this place, where the same nodes answer.
    private func named(_ ids: Set<DocumentID>, since: String) async throws -> [DocumentID: Set<RevisionID>] {
        let path = "/_changes?style=all_docs&since=\(PercentEncoding.encode(since))&filter=_doc_ids"
        let request = PeerRequest("POST", path, json: ["doc_ids": .array(ids.map { .string($0.text) })], atMost: answerBytes(isOne: ids.count == 1))
        var named: [DocumentID: Set<RevisionID>] = [:]
        do {
            let answer = try await ask(request)
            if isTooMuch(answer, isOne: ids.count == 1) {
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
            // A peer that cannot be asked this is believed.
            return [:]
        }
        return named
    }

    /// Matches what came with what was asked for: the peer may have newer revisions by now, or nothing any more.
    private func take(_ found: [FoundRevision], for wanted: [WantedRevision]) async throws {
        try await noteDeletions(found)
        var open: [DocumentID: [WantedRevision]] = Dictionary(grouping: wanted, by: \.row.id)
        var events: [DialectEvent] = []
        var attached: [(FoundDocument, WantedRevision)] = []
        // The generation of what came of a document and nobody asked for.
        var unasked: [DocumentID: UInt64] = [:]
        // What names another revision than the one that was asked for is about what is left in the end.
        var late: [FoundRevision] = []
        var gone: [WantedRevision] = []
        func leaveOut(_ row: WantedRevision, _ found: FoundRevision) {
            if found.isGone { gone.append(row) } else { events.append(.pull(slot: 0, notGiven(row, found))) }
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
                } else if document.endsOnlyBranch(row.row), try await !endsBranch(document, livesOn: !row.row.isDeletion) {
                    // Others ended a branch that is not here, or is the only one here: what won has, or gets, a row of its own.
                    events.append(.pull(slot: 0, .withdrawn(row.row.sequence)))
                } else if document.attachments.isEmpty {
                    events.append(.pull(slot: 0, arrival(document, row)))
                } else if asksFirst, !document.bringsAttachments {
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
            let isReplaced = unasked[row.row.id].map { $0 > row.row.revision.generation } ?? false || found.contains { $0.brings(row.row.id, row.row.revision) }
            events.append(.pull(slot: 0, isReplaced ? .withdrawn(row.row.sequence) : notAnswered(row)))
        }
        tell(events)
        if !gone.isEmpty { try await giveUp(gone) }
        for (document, row) in attached {
            tell([.pull(slot: 0, try await bring(document, row))])
        }
    }

    /// The document as its peer has it: whether its attachments are asked for is for the filter to say.
    private func arrivalBeforeAttachments(_ document: FoundDocument, _ wanted: WantedRevision) -> PullEvent {
        guard case .arrived(var received) = arrival(document, wanted) else { return arrival(document, wanted) }
        (received.attachments, received.hasShownBlobs) = (.due, false)
        return .arrived(received)
    }

    /// Brings the attachments of a document.
    ///
    /// - Returns: the engine's event for it. Where they are not to be had or taken it is held for them, and the others come.
    func bring(_ document: FoundDocument, _ wanted: WantedRevision) async throws -> PullEvent {
        do { return arrival(try await withAttachments(document, wanted.ancestors), wanted) } catch {
            let failure = try failure(of: error)
            if failure.isNoRoom {
                return .noRoom(wanted.row.sequence, document.id, failure, bytes: document.largestAttachment)
            }
            if failure.isTransient { return .arrivalRefused(wanted.row.sequence, document.id, failure, isFinal: false) }
            let event = arrival(document, wanted)
            guard case .arrived(var received) = event else { return event }
            (received.attachments, received.hasShownBlobs) = (.failed(failure), false)
            return .arrived(received)
        }
    }
}
