import BLIP
import Documents
import DocumentStore
import Interfaces
import NIOCore

/// Couchbase's replication protocol over BLIP, versions 2 to 4, on one connection: turns the engine's actions into messages, and messages into events
/// for the engine. It knows message names, property names, status codes and how collections are numbered, and decides nothing.
struct BLIPDialect: Dialect, ~Copyable {
    /// Whether messages name collections; unknown until the first message.
    enum Mode { case unknown, legacy, collections }

    /// A request that awaits its reply.
    enum Pending {
        /// Whether collections were requested by name.
        case opening(Opening, byName: Bool)
        case proposals(slot: Int, ChangeListID, rows: Int)
        case changes(slot: Int, ChangeListID, rows: Int)
        case revision(InFlightRevision)
        /// Whether the peer should select documents in a continuous pull.
        case subscription(picks: Bool)
        case checkpointSave(slot: Int)
        case checkpointFetch(slot: Int)
        case blob(BlobTransfer, offset: UInt64)
        case proof(BlobTransfer)
    }

    /// What is known about the peer's side of a collection.
    struct Slot {
        /// It understands inline blobs, so `_attachments` need not be added.
        var peerKnowsBlobs = false
        /// It accepts deltas; said once per collection, and remembered.
        var peerTakesDeltas = false
        /// How many ancestors it wants with a revision.
        var maximumHistory: Int
        var style = PushStyle.announce
        /// Generation of the current push.
        var generation = 0
    }

    var traits: DialectTraits {
        DialectTraits(
            peerHasOne: true, refusesUnsolicited: true, saysThatCheckpointIsMissing: true, isRestartedByConflicts: false, hasSubprotocol: true,
            listsBlobsInBodies: true, messagesHoldBodies: true, holdsOnlyOwnWork: false, accountsForDebts: false)
    }

    let limits: ReplicationLimits
    let isPassive: Bool
    /// Deltas are created and accepted here.
    let takesDeltas: Bool
    /// How the peer names revisions.
    let naming: RevisionNaming
    var blip: BLIPConnection
    var mode = Mode.unknown
    var slots: [Slot] = []
    private var isOnlyDefault = false
    var pending: [RequestToken: Pending] = [:]
    var transfers: [BlobTransfer: RequestToken] = [:]
    var answers: [AnswerHandle: StreamID] = [:]
    var streams: [StreamID: AnswerHandle] = [:]

    let wire: WireLog?

    init(isPassive: Bool, takesDeltas: Bool, naming: RevisionNaming = .trees, limits: ReplicationLimits, wire: WireLog? = nil) {
        self.naming = naming
        self.isPassive = isPassive
        self.takesDeltas = takesDeltas
        self.wire = wire
        self.limits = limits
        blip = BLIPConnection(limits: limits.blip, compressionLevel: limits.compressionLevel)
    }

    // MARK: - Collections

    /// Fixes whether messages name collections, by their positions in the session's list.
    mutating func speak(_ mode: Mode, collections: Int, isOnlyDefault: Bool) {
        self.mode = mode
        self.isOnlyDefault = isOnlyDefault
        slots = Array(repeating: Slot(maximumHistory: limits.maximumHistory), count: collections)
    }

    mutating func serve(_ collections: Int, byName: Bool) {
        speak(byName ? .collections : .legacy, collections: collections, isOnlyDefault: !byName)
    }

    /// How many ancestors the peer wants with a revision.
    func maximumHistory(_ slot: Int) -> Int { slots.indices.contains(slot) ? slots[slot].maximumHistory : limits.maximumHistory }

    func knowsBlobs(_ slot: Int) -> Bool { slots[slot].peerKnowsBlobs }

    /// Whether both sides want deltas, as far as is known.
    func sendsDeltas(_ slot: Int) -> Bool { takesDeltas && slots.indices.contains(slot) && slots[slot].peerTakesDeltas }

    /// A push begins, possibly after earlier ones.
    mutating func push(_ slot: Int, _ style: PushStyle, generation: Int) {
        (slots[slot].style, slots[slot].generation) = (style, generation)
    }

    // MARK: - Frames

    /// Whether anything is waiting to be sent.
    var hasPendingOutput: Bool { blip.hasPendingOutput }
    /// Memory held on behalf of the peer, in bytes.
    var bufferedBytes: Int { blip.bufferedBytes }
    /// The part of ``bufferedBytes`` that the peer is responsible for: messages not completed, read or answered.
    var messageBytes: Int { blip.messageBytes }
    /// The part of ``bufferedBytes`` that ``trim()`` releases.
    var spareBytes: Int { blip.spareBytes }
    mutating func trim() { blip.trim() }
    var compressionBytes: Int { blip.compressionBytes }
    mutating func allowCompression(_ isAllowed: Bool) { blip.allowsCompression = isAllowed }
    /// Bytes of our replies that the peer has not read.
    var owedBytes: Int { blip.queuedReplyBytes }
    /// Bytes of unsent messages of either kind.
    var queuedBytes: Int { blip.queuedBytes }
    /// The part of ``messageBytes`` that they take.
    var outgoingMessageBytes: Int { blip.queuedBytes + blip.spentBytes }
    /// Our requests that the peer has not answered.
    var awaitedReplies: Int { blip.awaitedReplies }
    /// A stream is consumed more slowly than it arrives.
    var shouldPauseReading: Bool { blip.shouldPauseReading }
    var takenBytes: Int { blip.takenBytes }
    #if DEBUG
    var copiedBytes: Int { blip.copiedBytes }
    #endif

    /// Processes one message of the transport.
    mutating func receive(_ message: ByteBuffer, inflationLimit: Int, into events: inout [DialectEvent]) throws(ReplicationError) {
        var happened: [BLIPEvent] = []
        do throws(BLIPError) { try blip.receive(message, inflationLimit: inflationLimit, into: &happened) } catch { throw failed(error, happened, &events) }
        translate(happened, &events)
    }

    var isSuspended: Bool { blip.isSuspended }

    mutating func resume(inflationLimit: Int, into events: inout [DialectEvent]) throws(ReplicationError) {
        var happened: [BLIPEvent] = []
        do throws(BLIPError) { try blip.resume(inflationLimit: inflationLimit, into: &happened) } catch { throw failed(error, happened, &events) }
        translate(happened, &events)
    }

    /// Events from before an error are valid.
    private mutating func failed(_ error: BLIPError, _ happened: [BLIPEvent], _ events: inout [DialectEvent]) -> ReplicationError {
        translate(happened, &events)
        return ReplicationError(domain: .blip, code: Int(error.closeCode), message: "\(error)")
    }

    /// The next message for the transport; nil if nothing may be sent at the moment.
    mutating func nextFrame(into events: inout [DialectEvent]) -> ByteBuffer? {
        var happened: [BLIPEvent] = []
        let frame = blip.nextFrame(into: &happened)
        if !happened.isEmpty { translate(happened, &events) }
        return frame
    }

    /// The connection has ended: no more replies will arrive.
    mutating func end() {
        _ = blip.fail()
        let waiting = pending
        pending = [:]
        for case .opening(let opening, _) in waiting.values { opening.done.resume(returning: nil) }
    }

    private mutating func translate(_ happened: [BLIPEvent], _ events: inout [DialectEvent]) {
        for event in happened {
            switch event {
            case .request(let request):
                wire?.received(request)
                accept(request, &events)
            case .reply(let token, let reply):
                guard let waiting = pending.removeValue(forKey: token) else { continue }
                wire?.received(reply: reply, to: waiting.profile)
                accept(reply, waiting, &events)
            case .replyBegan(let token, let properties):
                guard case .blob(let transfer, let offset)? = pending[token], offset > 0 else { continue }
                let isRest = properties[Property.offset].flatMap { UInt64($0) } == offset
                events.append(.blob(.resumes(transfer, isRest: isRest)))
            case .replyBytes(let token, let bytes):
                if case .blob(let transfer, _)? = pending[token] { events.append(.blob(.bytesArrived(transfer, bytes))) }
            case .replyEnded(let token):
                if case .blob(let transfer, _)? = pending.removeValue(forKey: token) { events.append(.blob(.ended(transfer))) }
            case .wantsMore(let stream):
                if let handle = streams[stream] { events.append(.wantsMore(handle)) }
            case .replyProgress, .sent: break
            }
        }
    }

    // MARK: - Replies of the peer

    private mutating func accept(_ reply: IncomingReply, _ waiting: Pending, _ events: inout [DialectEvent]) {
        switch waiting {
        case .opening(let opening, let byName): accept(reply, opening, byName: byName)
        case .proposals(let slot, let list, let rows):
            if let error = reply.error {
                let refusal = ReplicationError(reply: error, to: Profile.proposeChanges)
                guard refusal.forbidsWriting else { return fail(error, Profile.proposeChanges, &events) }
                return events.append(.push(slot: slot, .forbidden(list, [], refusal)))
            }
            note(slot, reply.properties)
            let (body, naming) = (reply.body, naming)
            let refusal = reply.properties[Property.refusesRevisions].map { ReplicationError(refusingAll: $0) }
            readInline(body, &events) {
                let statuses = ChangeRows.readProposalReply([UInt8](body.readableBytesView), rows: rows, naming: naming)
                return .push(slot: slot, .answered(list, statuses.map { $0.answer(refusal: refusal) }))
            }
        case .changes(let slot, let list, let rows):
            if let error = reply.error {
                events.append(.warn("the peer refused a list of changes: \(error)"))
                return events.append(.push(slot: slot, .changeListRefused(list, ReplicationError(reply: error, to: Profile.changes))))
            }
            note(slot, reply.properties)
            let (body, naming) = (reply.body, naming)
            readInline(body, &events) {
                let wishes = ChangeRows.readChangesReply([UInt8](body.readableBytesView), rows: rows, naming: naming)
                return .push(slot: slot, .answered(list, wishes.map { $0.map { .wanted(known: $0) } ?? .declined }))
            }
        case .revision(let trip):
            if let error = reply.error {
                if slots[trip.slot].style == .announce { events.append(.warn("the peer could not take \(trip.id): \(error)")) }
                events.append(.revisionAnswered(trip, ReplicationError(reply: error, to: Profile.rev)))
            } else {
                let kept = reply.properties[Property.kept].flatMap { KeptByPeer.Reason(word: $0) }
                let isKnown = reply.properties[Property.noop] == "true"
                events.append(.revisionAnswered(trip, nil, kept.map { .kept($0) } ?? (isKnown ? .alreadyHeld : .stored)))
            }
        case .subscription(let picks):
            guard let error = reply.error else { break }
            guard picks, error.domain == "HTTP", error.code == 400 else { return fail(error, Profile.subChanges, &events) }
            events.append(.cannotSelectDocuments(ReplicationError(reply: error, to: Profile.subChanges)))
        case .checkpointSave(let slot):
            switch reply.error {
            case nil: events.append(.checkpoint(slot: slot, .peerSaved(token: reply.properties[Property.rev] ?? "")))
            case let error? where error.domain == "HTTP" && error.code == 409: events.append(.checkpoint(slot: slot, .peerConflict))
            case let error?:
                events.append(.checkpoint(slot: slot, .peerRefused(ReplicationError(reply: error, to: Profile.setCheckpoint))))
            }
        case .checkpointFetch(let slot):
            let token = reply.error == nil ? reply.properties[Property.rev] ?? "" : ""
            events.append(.checkpoint(slot: slot, .tokenFetched(token)))
        case .blob(let transfer, _):
            transfers[transfer] = nil
            let error = reply.error ?? BLIPErrorReply(domain: "HTTP", code: 502, message: "the reply is not a blob")
            events.append(.blob(.failed(transfer, ReplicationError(reply: error, to: Profile.getAttachment))))
        case .proof(let transfer):
            // Anything but a digest is no proof: then the blob itself is requested.
            let proof = reply.error == nil ? try? BlobDigest(String(decoding: reply.body.readableBytesView.prefix(64), as: UTF8.self)) : nil
            events.append(.blob(.proofArrived(transfer, proof)))
        }
    }

    /// Parses a short message here, and a long one elsewhere.
    func readInline(_ body: ByteBuffer, _ events: inout [DialectEvent], _ read: @escaping @Sendable () -> DialectEvent) {
        events.append(body.readableBytes <= limits.inlineListBytes ? read() : .parseElsewhere(body, read))
    }

    private mutating func note(_ slot: Int, _ properties: BLIPProperties) {
        if isTrue(properties[Property.blobs]) { slots[slot].peerKnowsBlobs = true }
        if isTrue(properties[Property.deltas]) { slots[slot].peerTakesDeltas = true }
        if let text = properties[Property.maxHistory], let wanted = Int(text), wanted > 0 {
            slots[slot].maximumHistory = min(wanted, limits.maximumReceivedHistory)
        }
    }

    /// An error reply that affects the whole connection.
    private func fail(_ error: BLIPErrorReply, _ profile: String, _ events: inout [DialectEvent]) {
        // Couchbase Lite 3.2 with only a default collection answers getCollections and then refuses the collection property.
        let wantsLegacy = mode == .collections && error.domain == "HTTP" && error.code == 400 && isOnlyDefault
        events.append(.failed(ReplicationError(reply: error, to: profile), wantsLegacy: wantsLegacy))
    }

    // MARK: - Requests of ours

    mutating func send(_ request: consuming OutgoingRequest, _ slot: Int?, _ waiting: Pending?) {
        if mode == .collections, let slot { request.properties.append(Property.collection, String(slot)) }
        wire?.sent(request)
        if let token = blip.send(request), let waiting { pending[token] = waiting }
    }

    mutating func offer(_ slot: Int, _ list: ChangeListID, _ documents: [OutgoingDocument]) {
        let style = slots[slot].style
        var writer = RowWriter(capacity: documents.count * 128)
        for document in documents {
            writer.beginRow()
            if style == .announce { writer.raw(document.sequenceJSON) }
            writer.escaped(document.id.text)
            writer.plain(document.version.text)
            if style == .announce { writer.number(document.changeFlags.bits) } else { writer.plain(document.peerVersion?.text ?? "") }
            writer.number(document.bodySize)
            writer.endRow()
        }
        var message = OutgoingRequest(
            profile: style == .propose ? Profile.proposeChanges : Profile.changes, body: ByteBuffer(bytes: writer.finish()),
            isCompressed: true, isUrgent: true)
        if style == .propose { message.properties.append(Property.conflictIncludesRev, "true") }
        let rows = documents.count
        send(message, slot, style == .propose ? .proposals(slot: slot, list, rows: rows) : .changes(slot: slot, list, rows: rows))
    }

    mutating func announceCaughtUp(_ slot: Int, isFiltered: Bool) {
        var message = OutgoingRequest(profile: Profile.changes, body: ByteBuffer(string: "[]"), isUrgent: true, isNoReply: true)
        if isFiltered { message.properties.append(Property.filtered, "true") }
        send(message, slot, nil)
    }

    /// - Parameter delta: sent instead of the body, to a peer that has `document.base`.
    mutating func send(_ slot: Int, _ document: OutgoingDocument, delta: [UInt8]? = nil) {
        var message = OutgoingRequest(profile: Profile.rev, isCompressed: true)
        message.properties.append(Property.id, document.id.text)
        message.properties.append(Property.rev, document.version.text)
        if document.isDeleted { message.properties.append(Property.deleted, "1") }
        message.properties.append(Property.sequence, document.sequenceJSON)
        let isOurs = naming == .vectors
        let history =
            document.vectorHistory(isOurs: isOurs) ?? document.history(atMost: maximumHistory(slot)).map(\.text).joined(separator: ",")
        if !history.isEmpty { message.properties.append(Property.history, history) }
        if isOurs, let place = document.vector?.place {
            message.properties.append(Property.treeRevision, place.revision.text)
            if !place.history.isEmpty { message.properties.append(Property.treeHistory, place.history.description) }
        }
        if slots[slot].style == .propose { message.properties.append(Property.noConflicts, "1") }
        if let delta, let base = document.base {
            message.properties.append(Property.deltaSource, base.text)
            message.body = ByteBuffer(bytes: delta)
        } else if let body = document.wireBody {
            message.body = ByteBuffer(bytes: body)
        } else if document.hasBlobs,
            let body = try? LegacyAttachments.add(
                to: document.body, generation: document.version.generation, whereListed: slots[slot].peerKnowsBlobs)
        {
            message.body = ByteBuffer(bytes: body)
        } else {
            message.body = document.body.isEmpty ? ByteBuffer(string: "{}") : ByteBuffer(bytes: document.body)
        }
        send(message, slot, .revision(InFlightRevision(slot: slot, generation: slots[slot].generation, id: document.id)))
    }

    /// The peer wants an announced revision that will not be sent.
    mutating func withdraw(_ slot: Int, _ document: OutgoingDocument, _ reason: Withdrawal) {
        var message = OutgoingRequest(profile: Profile.norev, isNoReply: true)
        message.properties.append(Property.id, document.id.text)
        message.properties.append(Property.rev, document.version.text)
        message.properties.append(Property.sequence, document.sequenceJSON)
        message.properties.append(Property.error, String(reason.code))
        message.properties.append(Property.reason, reason.text)
        send(message, slot, nil)
    }

    mutating func saveCheckpoint(_ slot: Int, id: String, body: [UInt8], token: String) {
        var message = OutgoingRequest(profile: Profile.setCheckpoint, body: ByteBuffer(bytes: body))
        message.properties.append(Property.client, id)
        message.properties.append(Property.rev, token)
        send(message, slot, .checkpointSave(slot: slot))
    }

    mutating func fetchCheckpoint(_ slot: Int, id: String) {
        var message = OutgoingRequest(profile: Profile.getCheckpoint)
        message.properties.append(Property.client, id)
        send(message, slot, .checkpointFetch(slot: slot))
    }
}
