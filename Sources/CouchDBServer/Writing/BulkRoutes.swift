import Documents
import DocumentStore
import HTTPServer
import Interfaces
import Replication

/// `_bulk_docs`, `_revs_diff` and `_missing_revs`: used by replications that push.
enum BulkRoutes {
    static func bulkDocs(_ call: CouchCall) async throws -> HTTPResponse {
        try call.requireWriting()
        let (parts, carried) = try await call.carrying(.batch)
        return try await call.host.memory.writing(parts.bytes.count) {
            do { return try await bulkDocs(call, parts, carried) } catch is TooManyDocuments {
                // None of them is too large.
                throw HTTPError(413, "the request has more documents than couchdb_documents (\(CouchLimits.documents)) allows: send them in several")
            } catch let error as HTTPError where error.status == 413 {
                call.tell(refused: error, .batch, beginning: parts.bytes)
                throw error
            }
        }
    }

    private struct TooManyDocuments: Error {}

    private static func bulkDocs(_ call: CouchCall, _ parts: JSONParts, _ carried: [CarriedBlob]) async throws -> HTTPResponse {
        guard parts.isObject(parts.root) else { throw CouchError.badRequest("Request body must be a JSON object") }
        var documents: [Range<Int>]?
        var isEdit = true
        for (key, value) in parts.members(of: parts.root) {
            switch key {
            case "docs":
                guard parts.isArray(value) else { throw CouchError.badRequest("`docs` parameter must be an array.") }
                documents = parts.elements(of: value, atMost: CouchLimits.documents)
                guard documents != nil else { throw TooManyDocuments() }
            case "new_edits":
                guard let flag = parts.flag(value) else { throw CouchError.badRequest("`new_edits` parameter must be a boolean.") }
                isEdit = flag
            case "all_or_nothing" where parts.flag(value) == true:
                throw HTTPError(417, "all_or_nothing is not supported: each document is stored or refused by itself", error: "not_implemented")
            default: continue
            }
        }
        guard let documents else { throw CouchError.badRequest("POST body must include `docs` parameter.") }
        var isLocal: [Bool] = []
        isLocal.reserveCapacity(documents.count)
        for document in documents { isLocal.append(try IncomingDocument.check(parts, document, isEdit: isEdit)) }
        let results = try await DocumentWriting(call: call).bulk(parts, documents, isLocal: isLocal, isEdit: isEdit, carried: carried)
        var text = JSONWriter()
        text.raw("[")
        // With new_edits=false, only errors are reported.
        text.list(isEdit ? results : results.filter { $0.error != nil }) { text, result in
            if let error = isEdit ? result.error : result.error?.ofReplication {
                text.raw("{\"id\":")
                if let id = result.id { text.string(id) } else { text.raw("null") }
                text.raw(",\"error\":")
                text.string(error.word)
                text.raw(",\"reason\":")
                text.string(error.reason)
                text.raw("}")
            } else {
                text.raw("{\"ok\":true,\"id\":")
                text.string(result.id ?? "")
                text.raw(",\"rev\":\"")
                text.text(result.token ?? result.revision?.text ?? "")
                text.raw("\"}")
            }
        }
        text.raw("]")
        return .couch(201, text)
    }

    /// One document in `_revs_diff`.
    private struct Asked: Sendable {
        var id: String
        var revisions: [RevisionID]
        /// Revisions that cannot exist here.
        var elsewhere: [String] = []
        /// The highest generation among all of them.
        var newest: UInt64 = 0
    }

    /// One document in the answer.
    private struct Missing: Sendable {
        var id: String
        var revisions: [String]
        var ancestors: [RevisionID] = []
    }

    private static func asked(_ call: CouchCall) async throws -> [Asked] {
        var count = 0
        // CouchDB's replicator names a document twice if it changed twice while a batch was collected.
        var seen: Set<String> = []
        let members = try await call.jsonObject(keysMayRepeat: true).members.reversed().filter { seen.insert($0.key).inserted }.reversed()
        return try members.map { member in
            guard let list = member.value.asArray else { throw CouchError.badRequest("the revisions of \(member.key) must be an array") }
            count += list.count
            guard count <= CouchLimits.revisions else {
                throw HTTPError(413, "the request names more revisions than couchdb_revisions (\(CouchLimits.revisions)) allows")
            }
            var asked = Asked(id: member.key, revisions: [])
            for value in list {
                guard let text = value.asString else { throw CouchError.badRequest("Invalid rev format") }
                let named = try NamedRevision(text)
                asked.newest = max(asked.newest, named.generation)
                switch named {
                case .known(let revision): asked.revisions.append(revision)
                case .elsewhere(let text): asked.elsewhere.append(text)
                }
            }
            return asked
        }
    }

    /// Which of the requested revisions are missing here, and which of ours may be their ancestors. The client learns nothing about documents and
    /// branches that it may not read: their revisions count as missing, and are judged when they arrive. So do those of documents on which a filter
    /// fails: they must not hold up the others.
    private static func missing(_ call: CouchCall) async throws -> [Missing] {
        let asked = try await asked(call)
        let reading = DocumentReading(call: call, omitsFailures: true)
        try await reading.prepare()
        var found: [Missing] = []
        var questions: [DocumentReading.Question] = []
        var wanted: [Asked] = []
        for each in asked {
            // For an id that cannot be stored, all revisions count as missing; writing them is then refused with a reason.
            switch try? CouchID(each.id) {
            case .document(let id)?:
                // Branches that a filter shows are visible to the client, too.
                questions.append(DocumentReading.Question(id: id, wanted: call.peer.pushFilter == nil ? .current : .leaves))
                wanted.append(each)
            case .design(let id)?:
                let stored = try await DesignDocuments(call: call).get(id)
                let known = stored.map { $0.branch + $0.passedOver } ?? []
                let missing = each.revisions.filter { !known.contains($0) }.map(\.text) + each.elsewhere
                if !missing.isEmpty { found.append(Missing(id: each.id, revisions: missing)) }
            default: found.append(Missing(id: each.id, revisions: each.revisions.map(\.text) + each.elsewhere))
            }
        }
        var rest = questions[...]
        var next = wanted[...]
        // A document may have many other branches.
        var ancestorBytes = 0
        while !rest.isEmpty {
            let page = try await reading.page(rest, withTrees: true, withBodies: false, beside: 2 * ancestorBytes)
            rest = rest.dropFirst(page.count)
            for (document, asked) in zip(page, next) {
                // Only of visible branches. A revision of another branch may be sent again: it already exists here, and stays unchanged.
                let visible = document.failure == nil ? document.revisions : []
                let (shown, tree) = (visible.map(\.revision), visible.first?.tree)
                let missing = asked.revisions.filter { !shown.contains($0) && tree?.contains($0) != true }
                guard !missing.isEmpty || !asked.elsewhere.isEmpty else { continue }
                let newest = asked.elsewhere.isEmpty ? missing.map(\.generation).max() ?? 0 : asked.newest
                let leaves = tree?.leaves.map(\.revision) ?? shown
                let ancestors = leaves.filter { $0.generation < newest }
                ancestorBytes += ancestors.reduce(0) { $0 + $1.memorySize }
                found.append(Missing(id: asked.id, revisions: missing.map(\.text) + asked.elsewhere, ancestors: ancestors))
            }
            next = next.dropFirst(page.count)
        }
        return found
    }

    static func revisionsDifference(_ call: CouchCall) async throws -> HTTPResponse {
        let missing = try await missing(call)
        var text = JSONWriter()
        text.raw("{")
        text.list(missing) { text, each in
            text.string(each.id)
            text.raw(":{\"missing\":")
            text.strings(each.revisions)
            if !each.ancestors.isEmpty {
                text.raw(",\"possible_ancestors\":")
                text.strings(each.ancestors.map(\.text))
            }
            text.raw("}")
        }
        text.raw("}")
        return .couch(text, call.database.blobs, keeping: call.answer)
    }

    static func missingRevisions(_ call: CouchCall) async throws -> HTTPResponse {
        let missing = try await missing(call)
        var text = JSONWriter()
        text.raw("{\"missing_revs\":{")
        text.list(missing) { text, each in
            text.string(each.id)
            text.raw(":")
            text.strings(each.revisions)
        }
        text.raw("}}")
        return .couch(text, call.database.blobs, keeping: call.answer)
    }
}

extension CouchCall {
    /// The body, checked to be JSON but not parsed.
    ///
    /// - Parameter place: where it has documents of which the listener is told if it is too large; nil if the caller tells it.
    func jsonParts(_ place: AttachmentSieve.Place? = nil) async throws -> JSONParts {
        let bytes = try await json(refused: { beginning, error in if let place { tell(refused: error, place, beginning: beginning) } })
        do { return try JSONParts(checking: bytes) } catch { throw CouchError.invalidJSON(error) }
    }
}
