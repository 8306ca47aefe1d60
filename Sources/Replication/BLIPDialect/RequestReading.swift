import BLIP
import Documents
import DocumentStore
import Environment
import Interfaces
import NIOCore

extension ReceivedRevision {
    /// Parses the properties of a `rev` request: see ``ReceivedFields``.
    init(_ request: IncomingRequest, takesDeltas: Bool, naming: RevisionNaming = .trees, limits: ReplicationLimits) throws(MessageError) {
        self.init(try ReceivedFields(request, takesDeltas: takesDeltas, naming: naming, limits: limits))
    }
}

extension ReceivedFields {
    /// Parses the properties of a `rev` request.
    ///
    /// - Throws: ``MessageError`` with the status that makes the sender give up this document (400, 413, 422).
    init(_ request: IncomingRequest, takesDeltas: Bool, naming: RevisionNaming, limits: ReplicationLimits) throws(MessageError) {
        // As bytes: an id that is not UTF-8 must be refused, not repaired into a different id.
        guard let idBytes = request.properties.bytes(of: Property.id) else { throw .bad("a rev message needs the property id") }
        guard let revisionText = request.properties[Property.rev] else { throw .bad("a rev message needs the property rev") }
        do { id = try DocumentID(utf8: idBytes.readableBytesView) } catch { throw .bad("\(error)") }
        if naming != .trees, revisionText.utf8.contains(UInt8(ascii: "@")) {
            do throws(VersionError) {
                var read = try VectorHistory(revisionText, history: request.properties[Property.history] ?? "")
                try read.check()
                if naming == .vectors { read.place = Self.place(request, limits) }
                (vector, revision, history) = (read, RevisionID(read.vector.current), [])
            } catch { throw .bad("history of \(id): \(error)") }
        } else {
            do { revision = try RevisionID(revisionText) } catch { throw .bad("\(error)") }
            history = try Self.history(of: id, request, limits)
        }
        isDeleted = isTrue(request.properties[Property.deleted])
        sequence = request.properties[Property.sequence].map { RemoteSequence(json: $0) }
        try sequence?.check(limits)
        body = request.body
        let size = request.isTruncated ? request.totalBytes : body.readableBytes
        if request.isTruncated, size <= limits.maximumDocumentBytes, let memory = limits.memoryForDocuments {
            let needed = memory.limit(forDocument: size)
            let told = "document \(id) has \(size) bytes, more than the \(memory.largestDocument) for which"
            let setting = "limits: { memory: \(MemoryBudget.settingText(needed)) }"
            let toldThere = "\(told) limits.memory (\(memory.limit)) of the agent that receives it has room; it takes \(setting) or more there"
            let toldHere = "\(told) this agent's limits.memory (\(memory.limit)) has room; set \(setting) here, or more: "
                + "it is requested again by itself from the agent's next start on"
            throw MessageError(
                code: 413, message: memory.isRequested ? toldHere : toldThere, messageForPeer: memory.isRequested ? toldThere : nil, exceedsLocalSize: true,
                neededMemory: needed)
        }
        guard !request.isTruncated, size <= limits.maximumDocumentBytes else {
            throw MessageError(
                code: 413, message: "document \(id) has \(size) bytes, max_document_bytes is \(limits.maximumDocumentBytes)", exceedsLocalSize: true)
        }
        if let source = request.properties[Property.deltaSource] {
            // 422 makes the peer send the whole body.
            guard takesDeltas, let base = try? PeersRevision(source, naming).revision else {
                throw MessageError(code: 422, message: "this delta is not accepted here, send document \(id) in full")
            }
            deltaSource = base
        }
        replyTo = request.isNoReply ? nil : AnswerHandle(number: request.number)
    }

    /// The revision's id in the tree where it was created or first arrived, sent by another Nightjar; nil if it is missing or invalid.
    private static func place(_ request: IncomingRequest, _ limits: ReplicationLimits) -> VectorHistory.TreePlace? {
        guard let revision = request.properties[Property.treeRevision].flatMap({ try? RevisionID($0) }) else { return nil }
        let limit = limits.maximumReceivedHistory
        let history = request.properties.withBytes(of: Property.treeHistory) { try? RevisionHistory(parsing: $0, limit: limit) } ?? []
        return VectorHistory.TreePlace(revision: revision, history: history ?? [])
    }

    private static func history(
        of id: DocumentID, _ request: IncomingRequest, _ limits: ReplicationLimits
    ) throws(MessageError) -> RevisionHistory {
        do throws(RevisionHistoryError) {
            let limit = limits.maximumReceivedHistory
            return try request.properties.withBytes(of: Property.history) { bytes in
                Result { () throws(RevisionHistoryError) in try RevisionHistory(parsing: bytes, limit: limit) }
            }?.get() ?? []
        } catch {
            switch error {
            case .tooLong(let limit): throw MessageError(code: 413, message: "the history of \(id) is longer than max_received_history (\(limit))")
            case .badID(let error): throw .bad("history of \(id): \(error)")
            }
        }
    }
}

extension PeerSubscription {
    init(_ request: IncomingRequest, naming: RevisionNaming = .trees, limits: ReplicationLimits) throws(MessageError) {
        let properties = request.properties
        let spoken = naming == .trees ? "rev-trees" : "version-vectors"
        // Couchbase Lite 4.0 also offers to pull by revision ids, and says here what its database uses: it understands ids in what it receives.
        if let versioning = properties[Property.versioning], versioning != spoken, naming != .trees || versioning != "version-vectors" {
            throw MessageError(domain: "LiteCore", code: 501, message: "this connection has \(spoken), not \(versioning.prefix(60))")
        }
        filter = properties[Property.filter]
        channels = properties[Property.channels]
        since = properties[Property.since] ?? ""
        wantsFuture = isTrue(properties[Property.future])
        isContinuous = isTrue(properties[Property.continuous])
        activeOnly = isTrue(properties[Property.activeOnly])
        wantsRevocations = isTrue(properties[Property.revocations])
        guard request.body.readableBytes > 0 || request.isTruncated else { return }
        guard !request.isTruncated, request.body.readableBytes <= limits.maximumChangeListBytes else {
            throw MessageError(
                code: 413, message: "subChanges has \(request.totalBytes) bytes, max_change_list_bytes is \(limits.maximumChangeListBytes)")
        }
        let body = [UInt8](request.body.readableBytesView)
        // Allows for other values that a peer may send there.
        guard JSONTreeSize.values(in: body[...]) <= limits.maximumDocumentIDs + BLIPBounds.otherValues else {
            throw MessageError(code: 413, message: "docIDs has more ids than max_document_ids (\(limits.maximumDocumentIDs))")
        }
        guard case .object(let object)? = try? JSONValue(parsing: body) else {
            throw .bad("the body of subChanges is a JSON object with docIDs")
        }
        guard let wanted = object["docIDs"] else { return }
        guard case .array(let items) = wanted else { throw .bad("docIDs is an array of strings") }
        guard items.count <= limits.maximumDocumentIDs else {
            throw MessageError(code: 413, message: "docIDs has \(items.count) ids, max_document_ids is \(limits.maximumDocumentIDs)")
        }
        documentIDs = items.compactMap { if case .string(let text) = $0 { try? DocumentID(text) } else { nil } }
    }
}

extension CollectionsRequest {
    init(_ request: IncomingRequest, limits: ReplicationLimits) throws(MessageError) {
        let body = [UInt8](request.body.readableBytesView)
        // Counted first, because it is parsed on the event loop.
        guard request.isTruncated || JSONTreeSize.values(in: body[...]) <= 3 * limits.maximumCollections + BLIPBounds.otherValues else {
            throw MessageError(code: 413, message: "getCollections names more collections than max_collections (\(limits.maximumCollections))")
        }
        guard !request.isTruncated, body.count <= limits.maximumCollectionsBytes,
            case .object(let object)? = try? JSONValue(parsing: body),
            case .array(let idValues)? = object["checkpoint_ids"], case .array(let nameValues)? = object["collections"],
            idValues.count == nameValues.count, !nameValues.isEmpty
        else {
            throw MessageError(
                domain: "BLIP", code: 400, message: "getCollections needs checkpoint_ids and collections, arrays of the same length")
        }
        guard nameValues.count <= limits.maximumCollections else {
            throw MessageError(
                code: 413, message: "getCollections names \(nameValues.count) collections, max_collections is \(limits.maximumCollections)")
        }
        var seen: Set<CollectionName> = []
        for (idValue, nameValue) in zip(idValues, nameValues) {
            guard case .string(let id) = idValue, case .string(let nameText) = nameValue else {
                throw MessageError(domain: "BLIP", code: 400, message: "checkpoint ids and collection names are strings")
            }
            let name = try? CollectionName(parsing: nameText)
            if let name, !seen.insert(name).inserted {
                throw MessageError(domain: "BLIP", code: 400, message: "collection \(name) is named twice")
            }
            items.append((try Self.checkpointID(id, limits), name))
        }
    }

    static func checkpointID(_ text: String?, _ limits: ReplicationLimits) throws(MessageError) -> String {
        guard let text, !text.isEmpty else {
            throw MessageError(domain: "BLIP", code: 400, message: "a checkpoint message needs the property client")
        }
        guard text.utf8.count <= limits.maximumCheckpointIDBytes else {
            throw MessageError(
                code: 400,
                message: "the checkpoint id has \(text.utf8.count) bytes, max_checkpoint_id_bytes is \(limits.maximumCheckpointIDBytes)")
        }
        return text
    }
}
