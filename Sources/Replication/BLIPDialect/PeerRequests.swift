import BLIP
import Documents
import DocumentStore
import Interfaces
import NIOCore

/// The peer's requests.
extension BLIPDialect {
    mutating func accept(_ request: IncomingRequest, _ events: inout [DialectEvent]) {
        let handle = request.isNoReply ? nil : AnswerHandle(number: request.number)
        do throws(MessageError) {
            if request.isTruncated, request.profile != Profile.rev {
                let limit = limits.blip.maximumMessage(of: request.profile)
                throw MessageError(
                    code: 413, message: "\(request.profile.prefix(40)) has \(request.totalBytes) bytes, max_message_bytes is \(limit)")
            }
            if request.profile == Profile.getCollections {
                guard isPassive else { throw .bad("getCollections goes to the passive side") }
                guard mode == .unknown else {
                    throw MessageError(domain: "BLIP", code: 400, message: "getCollections must be the first message")
                }
                let wanted = try CollectionsRequest(request, limits: limits)
                mode = .collections
                return events.append(.collectionsWanted(handle, wanted))
            }
            guard Profile.known.contains(request.profile) else {
                return reply(handle, OutgoingReply(error: .noHandler))
            }
            let slot = try slot(of: request, &events)
            try accept(request, slot, handle, &events)
        } catch {
            events.append(.warn("refused \(request.profile.prefix(40)): \(error.message)"))
            refuse(handle, error)
        }
    }

    /// The collection that a message concerns. The first message of a connection determines whether messages name one.
    private mutating func slot(of request: IncomingRequest, _ events: inout [DialectEvent]) throws(MessageError) -> Int {
        let named = request.properties[Property.collection]
        if mode == .unknown {
            guard isPassive else { throw .bad("\(request.profile) came before the session was set up") }
            guard named == nil else { throw .bad("the property collection needs getCollections as the first message") }
            mode = .legacy
            events.append(.defaultCollectionWanted)
        }
        switch (mode, named) {
        case (.legacy, nil): return 0
        case (.collections, let text?):
            guard let index = Int(text), slots.indices.contains(index) else {
                throw .bad("collection \(text.prefix(20)) was not named in getCollections")
            }
            return index
        default: throw .bad("inappropriate use of the collection property.")
        }
    }

    private mutating func accept(
        _ request: IncomingRequest, _ slot: Int, _ handle: AnswerHandle?, _ events: inout [DialectEvent]
    ) throws(MessageError) {
        let properties = request.properties
        switch request.profile {
        case Profile.getCheckpoint, Profile.setCheckpoint, Profile.subChanges, Profile.unsubChanges:
            guard isPassive else { throw MessageError(domain: "LiteCore", code: 501, message: "this side is active itself") }
            try acceptPassive(request, slot, handle, &events)
        case Profile.changes:
            // An empty list without a reply marks the end of the backlog; from a pushing peer, it means nothing.
            if isPassive {
                if handle == nil { return }
                if request.body.readableBytes <= limits.inlineListBytes,
                    try ChangeRows.readChanges([UInt8](request.body.readableBytesView), naming: naming, limits: limits).isEmpty
                {
                    return reply(handle)
                }
                throw MessageError(code: 409, message: "Use 'proposeChanges' instead")
            }
            if properties[Property.filtered] != nil { events.append(.filters(slot: slot)) }
            let (limits, naming) = (limits, naming)
            let content = IncomingList.Content.text(request.body) { body in
                ChangeRows.rows { () throws(MessageError) in
                    .offered(try ChangeRows.readChanges([UInt8](body.readableBytesView), naming: naming, limits: limits))
                }
            }
            events.append(.pull(slot: slot, .listArrived(IncomingList(handle: handle, content: content))))
        case Profile.proposeChanges:
            guard isPassive else { throw MessageError(code: 403, message: "this side does the pushing and pulling") }
            // An empty list may arrive at any time and means nothing.
            if handle == nil { return }
            let (limits, naming) = (limits, naming)
            let content = IncomingList.Content.text(request.body) { body in
                ChangeRows.rows { () throws(MessageError) in
                    .proposed(try ChangeRows.readProposals([UInt8](body.readableBytesView), naming: naming, limits: limits))
                }
            }
            let wantsCurrentVersions = isTrue(properties[Property.conflictIncludesRev])
            events.append(
                .pull(slot: slot, .listArrived(IncomingList(handle: handle, content: content, wantsCurrentVersions: wantsCurrentVersions))))
        case Profile.rev: acceptRevision(request, slot, handle, &events)
        case Profile.norev:
            let sequence = (properties[Property.sequence] ?? properties["seq"]).map { RemoteSequence(json: $0) }
            try sequence?.check(limits)
            let error = MessageError(
                code: properties[Property.error].flatMap { Int($0) } ?? 404,
                message: properties[Property.reason] ?? "the peer could not send the document")
            if isPassive || !error.isTransientCode {
                events.append(.pull(slot: slot, .withdrawn(sequence)))
            } else {
                let id = properties[Property.id].flatMap { try? DocumentID($0) }
                events.append(.pull(slot: slot, .arrivalRefused(sequence, id, error.replicationError, isFinal: false)))
            }
            reply(handle)
        case Profile.getAttachment, Profile.proveAttachment:
            guard let handle else { return }
            events.append(.blob(.wanted(try blobRequest(request, slot, handle))))
        default: reply(handle, OutgoingReply(error: .noHandler))
        }
    }

    /// Handles requests that only a listener receives.
    private mutating func acceptPassive(
        _ request: IncomingRequest, _ slot: Int, _ handle: AnswerHandle?, _ events: inout [DialectEvent]
    ) throws(MessageError) {
        let properties = request.properties
        switch request.profile {
        case Profile.getCheckpoint:
            let id = try CollectionsRequest.checkpointID(properties[Property.client], limits)
            events.append(.passive(slot: slot, handle, .checkpoint(id: id)))
        case Profile.setCheckpoint:
            let id = try CollectionsRequest.checkpointID(properties[Property.client], limits)
            let body = [UInt8](request.body.readableBytesView)
            guard body.count <= limits.maximumCheckpointBytes else {
                throw MessageError(
                    code: 413,
                    message: "the checkpoint has \(body.count) bytes, max_checkpoint_bytes is \(limits.maximumCheckpointBytes)")
            }
            do { _ = try JSONScanner.scanDocument(body) } catch { throw .bad("a checkpoint is a JSON object: \(error)") }
            guard (try? JSONScanner.scanDocument(Self.addingRev(to: body, token: ""))) != nil else {
                throw .bad("a checkpoint has no key rev of its own: getCollections tells its token there")
            }
            // LiteCore always sends the property, empty for "none yet".
            let expected = properties[Property.rev].flatMap { $0.isEmpty ? nil : $0 }
            events.append(.passive(slot: slot, handle, .setCheckpoint(id: id, body: body, expectedRevision: expected)))
        case Profile.subChanges:
            let (limits, naming) = (limits, naming)
            readInline(request.body, &events) {
                do throws(MessageError) {
                    return .passive(slot: slot, handle, .subscribe(try PeerSubscription(request, naming: naming, limits: limits)))
                } catch {
                    return .refuse(handle, error)
                }
            }
        default: events.append(.passive(slot: slot, handle, .unsubscribe))
        }
    }

    private func blobRequest(_ request: IncomingRequest, _ slot: Int, _ handle: AnswerHandle) throws(MessageError) -> BlobRequest {
        guard let text = request.properties[Property.digest] else { throw .bad("\(request.profile) needs the property digest") }
        let digest: BlobDigest
        do { digest = try BlobDigest(text) } catch { throw .bad("\(error)") }
        var wanted = BlobRequest(handle: handle, slot: slot, digest: digest)
        wanted.document = request.properties[Property.docID].flatMap { try? DocumentID($0) }
        guard request.profile == Profile.proveAttachment else {
            wanted.compresses = isTrue(request.properties[Property.compress])
            wanted.offset = request.properties[Property.offset].flatMap { UInt64($0) } ?? 0
            return wanted
        }
        let nonce = [UInt8](request.body.readableBytesView)
        guard (1...255).contains(nonce.count) else { throw .bad("the nonce of proveAttachment has 1 to 255 bytes, not \(nonce.count)") }
        wanted.nonce = nonce
        return wanted
    }

    private mutating func acceptRevision(
        _ request: IncomingRequest, _ slot: Int, _ handle: AnswerHandle?, _ events: inout [DialectEvent]
    ) {
        do throws(MessageError) {
            if request.properties[Property.error] != nil { throw MessageError(code: 502, message: "the peer could not read the document") }
            let revision = try ReceivedRevision(request, takesDeltas: takesDeltas, naming: naming, limits: limits)
            if !isPassive, revision.sequence == nil { throw .bad("a rev message needs the property sequence") }
            events.append(.pull(slot: slot, .arrived(revision)))
        } catch {
            refuse(handle, error)
            // 422: the whole body follows, so the row is not settled yet.
            if error.code == 422 { return }
            let id = request.properties[Property.id].flatMap { try? DocumentID($0) }
            events.append(
                .pull(
                    slot: slot,
                    .arrivalRefused(
                        request.properties[Property.sequence].map { RemoteSequence(json: $0) }, id,
                        error.replicationError, isFinal: isPassive || !error.isTransientCode)))
        }
    }
}

extension MessageError {
    /// The document cannot be obtained at the moment, which does not mean that it is gone: what is transient in any other answer, and every failure of the
    /// peer. 501 is different: neither side can change what it supports.
    fileprivate var isTransientCode: Bool { replicationError.isTransient || code >= 500 && code != 501 }

    fileprivate var replicationError: ReplicationError { ReplicationError(self) }
}
