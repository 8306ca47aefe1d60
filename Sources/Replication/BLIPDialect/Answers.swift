import BLIP
import Documents
import DocumentStore
import Interfaces
import NIOCore

/// Our answers to the peer.
extension BLIPDialect {
    mutating func reply(_ handle: AnswerHandle?, _ reply: OutgoingReply = OutgoingReply()) {
        guard let handle else { return }
        wire?.sent(reply: reply, to: handle.number)
        blip.reply(to: handle.number, reply)
    }

    mutating func acknowledge(_ handle: AnswerHandle?) { reply(handle) }

    mutating func refuse(_ handle: AnswerHandle?, _ error: MessageError) {
        reply(handle, OutgoingReply(error: BLIPErrorReply(domain: error.domain, code: error.code, message: error.messageForPeer ?? error.message)))
    }

    // MARK: - Lists and revisions

    mutating func answer(_ handle: AnswerHandle?, changes answers: [ChangeAnswer]) {
        guard let handle else { return }
        var writer = RowWriter(capacity: answers.count * 8)
        for answer in answers {
            switch answer {
            case .notWanted, .notNow: writer.number(0)
            case .wanted(let ancestors):
                writer.beginRow()
                for ancestor in ancestors { writer.plain(ancestor.text) }
                writer.endRow()
            }
        }
        reply(handle, listReply(writer.finish()))
    }

    /// - Parameter refusal: why none of the requested revisions will be accepted.
    mutating func answer(_ handle: AnswerHandle?, proposals answers: [ProposalAnswer], namesCurrent: Bool, refusal: String?) {
        guard let handle else { return }
        var writer = RowWriter(capacity: answers.count * 2 + 16)
        // Trailing zeros are omitted: an empty list means "send everything".
        let last = answers.lastIndex { $0 != .send } ?? -1
        for answer in answers.prefix(last + 1) {
            switch answer {
            case .send: writer.number(0)
            case .have: writer.number(304)
            case .conflict(let current) where namesCurrent: writer.raw("{\"status\":409,\"rev\":\"\(current.text)\"}")
            case .conflict: writer.number(409)
            case .unreadable: writer.number(400)
            }
        }
        var reply = listReply(writer.finish())
        // It may quote a name that contains anything, but a property must not contain NUL.
        if let refusal, answers.contains(.send) { reply.properties.append(Property.refusesRevisions, refusal.filter { $0 != "\0" }) }
        self.reply(handle, reply)
    }

    private func listReply(_ body: [UInt8]) -> OutgoingReply {
        var reply = OutgoingReply(
            properties: [Property.maxHistory: String(limits.maximumHistory), Property.blobs: "true"],
            body: ByteBuffer(bytes: body), isCompressed: true)
        if takesDeltas { reply.properties.append(Property.deltas, "true") }
        return reply
    }

    mutating func settle(_ handle: AnswerHandle, _ settlement: Settlement) {
        switch settlement {
        case .stored: reply(handle)
        case .alreadyHere: reply(handle, Self.noop)
        case .kept(let reason): reply(handle, OutgoingReply(properties: [Property.kept: reason.word]))
        case .refused(let error): refuse(handle, error.replyToPeer)
        }
    }

    private static let noop = OutgoingReply(properties: [Property.noop: "true"])

    // MARK: - Checkpoints

    mutating func answer(_ handle: AnswerHandle?, checkpoint: StoredCheckpoint?) {
        guard let checkpoint else {
            return refuse(handle, MessageError(code: 404, message: "no checkpoint is stored under this id"))
        }
        reply(handle, OutgoingReply(properties: [Property.rev: checkpoint.revision], body: ByteBuffer(bytes: checkpoint.body)))
    }

    mutating func answer(_ handle: AnswerHandle?, savedCheckpoint revision: String) {
        reply(handle, OutgoingReply(properties: [Property.rev: revision]))
    }

    /// - Parameter checkpoints: one for each name; nil if there is no such collection.
    mutating func answer(_ handle: AnswerHandle?, collections checkpoints: [StoredCheckpoint??]) {
        var body: [UInt8] = [UInt8(ascii: "[")]
        for (index, checkpoint) in checkpoints.enumerated() {
            if index > 0 { body.append(UInt8(ascii: ",")) }
            switch checkpoint {
            case nil: body.append(contentsOf: "null".utf8)
            case .some(nil): body.append(contentsOf: "{}".utf8)
            case .some(let stored?): body.append(contentsOf: Self.addingRev(to: stored.body, token: stored.revision))
            }
        }
        body.append(UInt8(ascii: "]"))
        reply(handle, OutgoingReply(body: ByteBuffer(bytes: body)))
    }

    /// A checkpoint's body with its token added as `rev`; all other bytes are unchanged.
    static func addingRev(to body: [UInt8], token: String) -> [UInt8] {
        var body = body
        while let last = body.last, last != UInt8(ascii: "}") { body.removeLast() }
        guard body.popLast() != nil else { return Array("{\"rev\":\"\(token)\"}".utf8) }
        let isEmpty = !body.contains(UInt8(ascii: ":"))
        body.append(contentsOf: "\(isEmpty ? "" : ",")\"rev\":\"\(token)\"}".utf8)
        return body
    }

    // MARK: - Blobs

    mutating func answer(_ handle: AnswerHandle, proof: BlobDigest) {
        reply(handle, OutgoingReply(body: ByteBuffer(string: proof.text)))
    }

    /// Starts sending a blob; `.wantsMore` asks for the data. False if the peer's request is no longer open.
    ///
    /// - Parameter offset: the data supplied starts at this offset of the blob.
    mutating func beginBlob(_ handle: AnswerHandle, compresses: Bool, offset: UInt64) -> Bool {
        wire?.sentBlob(to: handle.number)
        var reply = OutgoingReply(isCompressed: compresses)
        if offset > 0 { reply.properties.append(Property.offset, String(offset)) }
        guard let stream = blip.reply(to: handle.number, streaming: reply) else { return false }
        answers[handle] = stream
        streams[stream] = handle
        return true
    }

    mutating func supply(_ handle: AnswerHandle, _ bytes: ByteBuffer, isLast: Bool) {
        guard let stream = answers[handle] else { return }
        blip.supply(stream, bytes, isLast: isLast)
        if isLast {
            answers[handle] = nil
            streams[stream] = nil
        }
    }
}
