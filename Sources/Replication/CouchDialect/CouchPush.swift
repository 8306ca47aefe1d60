import Documents
import DocumentStore
import Interfaces
import NIOCore

/// Push: offers become `_revs_diff` requests, wanted documents are sent with `_bulk_docs`.
extension CouchDialect {
    func offer(_ slot: Int, _ list: ChangeListID, _ documents: [OutgoingDocument]) {
        run { dialect in
            let missing: JSONObject, answers: [PeerAnswer]
            do { (missing, answers) = try await dialect.missing(documents) } catch let error as ReplicationError where error.forbidsWriting {
                return dialect.tell([.push(slot: slot, .forbidden(list, [], error))])
            }
            defer { withExtendedLifetime(answers) {} }
            dialect.tell([.push(slot: slot, .answered(list, try await dialect.answers(documents, missing)))])
        }
    }

    /// Which of these the peer does not have, and the answers that say so, with the memory claimed for them. It omits those that it has, so the answer
    /// must have exactly the expected shape.
    private func missing(_ documents: [OutgoingDocument]) async throws -> (JSONObject, [PeerAnswer]) {
        var question = JSONObject()
        question.members = documents.map { .init(key: $0.id.text, value: [.string($0.version.text)]) }
        let what = "POST _revs_diff"
        var came = try await ask(PeerRequest("POST", "/_revs_diff", json: .object(question), atMost: CouchBounds.answerBytes(rows: documents.count)))
        if exceedsBounds(&came, isOne: documents.count == 1) {
            if documents.count > 1 {
                let half = documents.count / 2
                var (missing, answers) = try await self.missing(Array(documents[..<half]))
                let (others, more) = try await self.missing(Array(documents[half...]))
                missing.members += others.members
                answers += more
                return (missing, answers)
            }
            // For a document that it lacks, it lists every leaf as a possible ancestor, possibly thousands. They are not needed.
            if let document = documents.first, came.begins(with: document.id) {
                return (JSONObject([.init(key: document.id.text, value: ["missing": [.string(document.version.text)]])]), [])
            }
        }
        guard came.isGood else { throw ReplicationError(came, to: "POST /_revs_diff") }
        let answer = try await reading(came, "POST /_revs_diff") { $0 }
        guard let missing = answer.asObject else { throw unexpected(answer, in: what, wanted: "an object of the documents that are missing there") }
        let asked = Set(documents.map(\.id))
        for member in missing.members {
            guard let id = try? DocumentID(member.key), asked.contains(id) else {
                throw unexpected(.string(member.key), in: what, wanted: "the id of a document that it was asked about")
            }
            guard member.value["missing"]?.asArray != nil else {
                throw unexpected(member.value, in: what, wanted: "the revisions of document \(id) that are missing there")
            }
        }
        return (missing, [came])
    }

    private func answers(_ documents: [OutgoingDocument], _ missing: JSONObject) async throws -> [OfferAnswer] {
        var wanted: [DocumentID: [Version]] = [:]
        for member in missing.members {
            guard let id = try? DocumentID(member.key), !(member.value["missing"]?.asArray ?? []).isEmpty else { continue }
            wanted[id] = (member.value["possible_ancestors"]?.asArray ?? []).compactMap { $0.asString.flatMap { try? RevisionID($0) } }
        }
        // A peer that accepts every branch would accept ours as well; if its branches are pulled, the decision is made here first.
        let current = pulls ? try await undecided(try await winners(documents.filter { wanted[$0.id] != nil })) : [:]
        return documents.map { document in
            guard let known = wanted[document.id] else { return .has }
            if let winner = current[document.id], winner != document.peerVersion, !document.history.contains(winner), !hasReceivedBranch(winner, of: document.id) {
                return .conflict(current: winner)
            }
            return .wanted(known: known)
        }
    }

    /// Whether the branch arrived here on this connection: then the offer is the decision about it.
    private func hasReceivedBranch(_ leaf: Version, of id: DocumentID) -> Bool {
        state.withLock { state in state.branches[id]?.leaves[leaf].map { $0 != .announced } ?? false }
    }

    /// Of the peer's current revisions, those about which nothing was decided here. The others are known, so the pull does not bring them: the offer is
    /// the decision about them, even if it was made before this connection.
    private func undecided(_ winners: [DocumentID: Version]) async throws -> [DocumentID: Version] {
        guard !winners.isEmpty, let collection = database.collection(collection) else { return winners }
        let decided = try await database.read { transaction in
            try winners.filter { id, winner in try transaction.tree(collection, id).map { $0.contains(winner) && !$0.isLeaf(winner) } ?? false }
        }
        guard !decided.isEmpty else { return winners }
        state.withLock { state in
            for (id, winner) in decided where state.branches[id] != nil || state.canRememberMore(feedMemory.share) {
                if state.branches[id]?.leaves[winner] ?? .announced == .announced { state.branches[id, default: Branches()].leaves[winner] = .here }
            }
        }
        return winners.filter { decided[$0.key] == nil }
    }

    /// The peer's current revisions of these documents, unless they are deleted.
    private func winners(_ documents: [OutgoingDocument]) async throws -> [DocumentID: Version] {
        guard !documents.isEmpty else { return [:] }
        let keys = JSONValue.array(documents.map { .string($0.id.text) })
        let rows = try await askJSON("POST", "/_all_docs", ["keys": keys], rows: documents.count)["rows"]?.asArray ?? []
        var winners: [DocumentID: Version] = [:]
        for row in rows {
            guard let value = row["value"], value["deleted"]?.asBool != true, let id = row["id"]?.asString.flatMap({ try? DocumentID($0) }),
                let revision = value["rev"]?.asString.flatMap({ try? RevisionID($0) })
            else { continue }
            winners[id] = revision
        }
        return winners
    }

    func send(_ slot: Int, _ document: OutgoingDocument, delta: [UInt8]?) {
        state.withLock { state in
            state.outgoing.append(document)
            // It may lose to a branch that has yet to arrive.
            state.branches[document.id]?.leaves[document.version] = .here
        }
    }

    /// Starts the requests that may be sent now.
    func write() {
        while let (documents, bytes) = nextWrite() {
            run { try await $0.write(documents) } finally: {
                $0.writes -= 1
                $0.writeBytes -= bytes
            }
        }
    }

    private func nextWrite() -> (documents: [OutgoingDocument], bytes: Int)? {
        state.withLock { state in
            guard !state.isOver, !state.outgoing.isEmpty, state.writes < CouchBounds.writes else { return nil }
            var count = 0
            var bytes = 0
            while count < state.outgoing.count, count < CouchBounds.documents, bytes < CouchBounds.documentBytes {
                bytes += state.outgoing[count].body.count
                count += 1
            }
            // An incomplete batch waits for more documents while other requests are in flight.
            let isFull = count == CouchBounds.documents || bytes >= CouchBounds.documentBytes
            guard isFull || state.writes == 0 else { return nil }
            defer { state.outgoing.removeFirst(count) }
            state.writes += 1
            state.writeBytes += bytes
            return (Array(state.outgoing[..<count]), bytes)
        }
    }

    private func write(_ documents: [OutgoingDocument]) async throws {
        var plain: [OutgoingDocument] = []
        for document in documents {
            try await answeringOwnFailure(document) {
                if !document.hasBlobs { plain.append(document) } else if try await !writeAlone(document) { plain.append(document) }
            }
        }
        if !plain.isEmpty { try await write(plain[...]) }
    }

    /// Something is wrong with one document here: the others go on.
    ///
    /// - Throws: errors that concern the connection, or this side.
    private func answeringOwnFailure(_ document: OutgoingDocument, _ work: () async throws -> Void) async throws {
        do { try await work() } catch {
            let failure = ReplicationError(ownBlob: error) ?? ReplicationError(couch: error)
            guard failure.domain == .http || failure.domain == .store else { throw error }
            answer(document, failure)
        }
    }

    /// Writes the documents; if the peer cannot take all of them, in halves, down to the document that it cannot take.
    private func write(_ documents: ArraySlice<OutgoingDocument>) async throws {
        do {
            try await writeAtOnce(documents)
        } catch let error as ReplicationError where error.forbidsWriting {
            tell([.push(slot: 0, .forbidden(nil, documents.map(\.id), error))])
        } catch let error as ReplicationError where error.mayBeOneDocument {
            guard documents.count > 1 else { return answer(documents[documents.startIndex], error) }
            let middle = documents.startIndex + documents.count / 2
            try await write(documents[..<middle])
            try await write(documents[middle...])
        }
    }

    private func writeAtOnce(_ all: ArraySlice<OutgoingDocument>) async throws {
        var documents: [OutgoingDocument] = []
        var body = ByteBuffer()
        body.reserveCapacity(all.reduce(64) { $0 + $1.heldBytes + 256 })
        body.writeString("{\"new_edits\":false,\"docs\":[")
        for document in all {
            try await answeringOwnFailure(document) {
                let text = try await text(of: document)
                if !documents.isEmpty { body.writeString(",") }
                body.writeBytes(text)
                documents.append(document)
            }
        }
        if documents.isEmpty { return }
        body.writeString("]}")
        var request = PeerRequest("POST", "/_bulk_docs", json: nil, atMost: CouchBounds.answerBytes(rows: documents.count))
        request.headers.append(("Content-Type", "application/json"))
        request.body = .bytes(consume body)
        let answer = try await ask(request)
        let what = "POST _bulk_docs"
        guard answer.isGood else { throw ReplicationError(answer, to: what) }
        let said = try await reading(answer, what) { $0 }
        // CouchDB lists those that it did not accept, other peers list all of them: only an empty array means that all were accepted.
        guard let rows = said.asArray else { throw unexpected(said, in: what, wanted: "an array of what became of the documents") }
        let sent = Set(documents.map(\.id))
        var errors: [DocumentID: ReplicationError] = [:]
        for row in rows {
            guard let id = row["id"]?.asString.flatMap({ try? DocumentID($0) }), sent.contains(id) else {
                throw unexpected(row, in: what, wanted: "a row about one of the documents that were sent")
            }
            guard let error = row["error"] else { continue }
            errors[id] = ReplicationError(document: id, error: error.asString ?? error.text, reason: peer.withoutSecrets(row["reason"]?.asString ?? ""))
        }
        answered(documents.map { ($0.id, errors[$0.id]) })
    }

    func answer(_ document: OutgoingDocument, _ error: ReplicationError?) { answered([(document.id, error)]) }

    private func answered(_ documents: [(id: DocumentID, error: ReplicationError?)]) {
        // The winner is there: branches that lost to it are ended, even if it lost itself while it was in flight.
        endLosers(of: documents.filter { $0.error == nil }.map(\.id))
        let generation = state.withLock { $0.generation }
        tell(documents.map { .revisionAnswered(InFlightRevision(slot: 0, generation: generation, id: $0.id), $0.error) })
    }
}
