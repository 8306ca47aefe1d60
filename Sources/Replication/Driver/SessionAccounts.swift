import DocumentStore
import Documents
import Environment
import Interfaces
import NIOCore

/// What a session holds for its peer, and when it stops reading.
final class SessionAccounts {
    private unowned let session: SessionDriver
    private(set) var share: MemoryBudget.Share?
    private(set) var standing = MemoryBudget.Standing.free
    private(set) var readingIsPaused = false
    /// As the transport was told.
    private var socketIsRead = true
    /// Of what was received and is not stored yet.
    var bufferedBytes = 0
    /// Of rows of the peer's feed that are open.
    var awaitedBytes = 0
    /// Of bodies that are on their way out.
    var outgoingBytes = 0
    /// Of ids that the peer subscribed to.
    var subscribedBytes = 0
    /// Of a message of the transport that is not complete.
    var unfinishedBytes = 0
    /// Of long messages that are being read elsewhere.
    private var bytesElsewhere = 0
    /// Of what the socket had not taken when the session ended, for as long as the connection is there.
    private var lingering: MemoryBudget.Share?
    private var isDisconnected = false
    /// Of names of blobs that were found in revisions whose batch is still looked at.
    private var foundBytes = 0
    /// Taken for work that is done, whose results are not counted yet.
    private var rooms: [MemoryBudget.Reservation] = []

    init(_ session: SessionDriver) { self.session = session }

    func open() {
        let owner = session.owner
        share = session.memory.share(trim: { [weak owner] in owner?.later { $0.accounts.trim() } }) { [weak owner] standing in
            // What others do is no reason to wait: an evicted connection ends in its own time, a relieved one goes on.
            owner?.later { $0.accounts.stand(standing) }
        }
    }

    /// What is worked on for the peer elsewhere is held until that has come to its end.
    func end() {
        let left = (session.questions.waiting.bytes + session.links.reduce(0) { $0 + $1.pull.bytesElsewhere }) / 4 * 5
        if session.limits.has(.keptShare), let share { _ = Unmanaged.passRetained(share) } else { share?.end(leaving: left) }
        share = nil
        rooms = []
        linger()
    }

    /// Messages that the peer does not read lie here until time is up for its CLOSE: who has much of that goes before.
    private func linger() {
        let (transport, unread) = (session.transport, session.transport.waitingBytes)
        guard !isDisconnected, unread > Self.fewUnreadBytes else { return }
        let lingering = session.memory.share { [weak transport] in if $0 == .evicted { transport?.drop() } }
        self.lingering = lingering
        _ = lingering.hold(unread, owedByPeer: unread)
    }
    private static let fewUnreadBytes = 4 << 10

    func disconnected() {
        isDisconnected = true
        lingering = nil
    }

    /// What work was given of the budget stays taken until what came of it is counted, with the end of the turn.
    func keepUntilCounted(_ room: MemoryBudget.Reservation?) { if let room { rooms.append(room) } }

    /// - Parameter room: what was taken for these names.
    func found(names bytes: Int, in room: MemoryBudget.Reservation) {
        foundBytes += bytes
        keepUntilCounted(room)
    }

    /// They count with their revisions from here on.
    func namesAreCounted(_ bytes: Int) { foundBytes -= bytes }

    /// What a connection that is at work costs beside what it holds for its peer: buffers of the socket, tables, what the allocator
    /// loses. Measured with 1,000 of them (`nightjar-bench hostile`).
    private static let baseBytes = 32 << 10

    /// Says what is held for the peer, and obeys what follows.
    func settleAccounts() {
        // Half as much again goes to buffers that grew and were left behind; measured likewise. What compression takes is held too, and no
        // debt of the peer: one that is idle must not go for it in place of one that makes us hold messages.
        // A revision whose blobs are not here waits for the peer, and so does a row of its feed that is open.
        // What a socket does not take is its peer's to read. Below the transport's watermark nobody would say that it has gone.
        let unread = session.transport.isWritable ? 0 : session.transport.waitingBytes
        // What was read for the peer waits for its answers.
        let unsettled =
            (session.dialect.messageBytes + unfinishedBytes) / 2 * 3 + unread + session.blobs.machine.bytes + awaitedBytes + (session.blobs.machine.isFetching ? bufferedBytes : 0)
            + outgoingBytes / 4 * 5
        // Answers to our own requests are bounded by what was asked for, and are our work: to end the connection for them would only have them
        // asked for again.
        let isOurWork = session.couch != nil
        let owedByPeer = isOurWork ? 0 : unsettled
        let tools = session.dialect.bufferedBytes - session.dialect.messageBytes + (isOurWork ? unsettled : 0)
        let held = session.questions.waiting.bytes + session.intake.bytes + bytesElsewhere + foundBytes + subscribedBytes + session.outgoing.bytes + session.blobs.namedBytes
        // A quarter more is lost between pieces that come and go.
        let all = owedByPeer + tools + ((session.blobs.machine.isFetching ? 0 : bufferedBytes) + held) / 4 * 5 + Self.baseBytes
        // What they were taken for is counted next: counted twice, even for a moment, it would have a peer evicted that owes nothing of it.
        session.questions.endRooms()
        rooms = []
        stand(share?.hold(all, owedByPeer: owedByPeer, spare: session.isBusy ? 0 : session.dialect.spareBytes) ?? .free)
    }

    /// Bytes of bodies that are read for a peer at once: many at a time only while there is room for as many more by others. To be asked
    /// when the store begins to read: of a thousand peers that subscribe at the same time the last has its turn when the others' are here.
    ///
    /// - Returns: also, what was taken of the budget for them, to be kept until they are counted.
    static func pageRoom(_ memory: MemoryBudget) -> (bytes: Int, room: MemoryBudget.Reservation?) {
        let most = StoreLimits.maxBodyBytesPerRead
        guard !memory.isAwaited, let room = memory.reserveUndisturbing(most, beside: 3 * most) else { return (smallPageBytes, nil) }
        return (most, room)
    }
    private static let smallPageBytes = 64 << 10

    /// Compression takes a quarter of a megabyte. A write that a thousand followers are told of at once must not take it a thousand times.
    func grantCompression() {
        let bytes = session.dialect.hasPendingOutput ? session.dialect.compressionBytes : 0
        if bytes > 0 { session.dialect.allowCompression(share?.hasRoom(forTools: bytes) ?? true) }
    }

    /// Lets go of what an idle connection can do without.
    func trim() {
        if !session.isBusy { session.dialect.trim() }
    }

    func stand(_ now: MemoryBudget.Standing) {
        guard now != standing else { return }
        standing = now
        switch now {
        case .evicted:
            session.logger.warning(
                "the connection ends: its peer makes the agent hold most of limits.memory (\(session.memory.limit) bytes), which is used up",
                metadata: ["peer": "\(session.transport.peerDescription)"])
            let message = "the memory for peers (limits.memory) is used up; come back later"
            // Not 1013, for which Couchbase Lite stops for good.
            // A CLOSE frame would wait behind what the socket does not take, and all of that with it, counted by nobody.
            let isStuck = !session.transport.isWritable
            session.finish(error: evictionError(message), closeCode: isStuck ? nil : 4001, reason: message)
            if isStuck { session.transport.drop() }
        case .crowded, .free:
            for link in session.links where link.push != nil { session.tell(link, push: .throttled(now == .crowded)) }
            session.drain()
        }
    }

    /// Who runs a replicator is told that the memory is its own agent's, not the peer's.
    private func evictionError(_ message: String) -> ReplicationError {
        guard !session.isPassive else { return ReplicationError(domain: .websocket, code: 1013, message: message) }
        var error = ReplicationError(
            domain: .litecore, code: 13, message: "this agent's limits.memory (\(session.memory.limit) bytes) is used up, most of it by what this peer sends")
        error.ownRemedy = "raise limits: { memory } of this agent: the target is reached, and what it sends does not fit"
        return error
    }

    /// Revisions are refused for the moment: more wait to be stored than may, while blobs keep the connection open. A peer that pushes offers
    /// them again; what we pull would come on another connection only.
    var isOverfull: Bool {
        bufferedBytes + session.blobs.machine.bytes >= session.limits.maximumBufferedRevisionBytes || session.isPassive && standing == .crowded && session.blobs.machine.isFetching
    }

    /// Reads a long message where it holds up nobody. Its values take many times its text, and have their share of the budget while they exist.
    func readElsewhere(_ body: ByteBuffer, _ read: @escaping @Sendable () -> DialectEvent) {
        let (memory, held) = (session.memory, body.storageCapacity)
        bytesElsewhere += held
        session.ask(atLength: true) { () async -> DialectEvent in
            let size = JSONTreeSize.bytes(of: [UInt8](body.readableBytesView))
            // Without it nothing goes: what is read is bounded, and only a few are at it.
            let reservation = await memory.reserve(size)
            return withExtendedLifetime(reservation) { read() }
        } then: { session, event in
            session.accounts.bytesElsewhere -= held
            session.dialectEvents.handle(event)
        }
    }

    /// Bytes that are looked at in a turn. What one turn brings is counted at its end: while memory is short, that is one message.
    var turnBytes: Int { session.memory.isShort ? min(Self.shortTurnBytes, session.limits.turnBytes) : session.limits.turnBytes }
    private static let shortTurnBytes = 16 << 10

    /// Nothing but lists of changes is here, which wait for removals, and these for the peer's answers to what it is being sent.
    private var isHeldUpByRemovals: Bool {
        session.links.contains { !($0.push?.removals.isEmpty ?? true) } && !session.links.contains { $0.pull.isStoring || !$0.incomingDeltas.isEmpty }
    }

    /// The connection is not read while what came is not stored, or what the peer asked for is not taken.
    func adjustReading() {
        // What the peer has to end, or what makes room for it, still has to come: only what we work on is waited for.
        // Blobs come by the same connection: while some are fetched, revisions are refused instead.
        let waitsForPeer = session.blobs.machine.isFetching || bufferedBytes > 0 && isHeldUpByRemovals
        let works = bufferedBytes > 0 && !waitsForPeer || session.questions.waiting.bytes > 0
        let isCrowded = standing == .crowded && (works || session.dialect.owedBytes > 0) || session.isPassive && works && session.memory.isShort
        let waits = isCrowded || bufferedBytes > session.limits.bufferedRevisionBytes && !waitsForPeer || session.dialect.owedBytes > session.limits.owedReplyBytes
            || session.questions.waiting.count > session.limits.waitingRequests || bytesElsewhere > 0 || session.blobs.machine.waitingRequests > session.limits.waitingRequests || session.dialect.shouldPauseReading
        if waits {
            readingIsPaused = true
        } else if readingIsPaused, bufferedBytes < session.limits.bufferedRevisionBytes / 2 || waitsForPeer {
            readingIsPaused = false
        }
        // What came and was not looked at has its turn first: else each look at the sockets would bring more of it.
        let isRead = !readingIsPaused && session.intake.isEmpty
        if isRead != socketIsRead {
            socketIsRead = isRead
            session.transport.setReading(isRead)
        }
    }
}
