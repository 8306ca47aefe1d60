import DocumentStore
import Documents
import Environment
import Interfaces
import NIOCore

/// What a session holds for its peer, and when it stops reading.
extension ReplicationSession {
    /// What a connection that is at work costs beside what it holds for its peer: buffers of the socket, tables, what the allocator
    /// loses. Measured with 1,000 of them (`nightjar-bench hostile`).
    private static let baseBytes = 32 << 10

    /// Says what is held for the peer, and obeys what follows.
    func settleAccounts() {
        // Half as much again goes to buffers that grew and were left behind; measured likewise. What compression takes is held too, and no
        // debt of the peer: one that is idle must not go for it in place of one that makes us hold messages.
        // A revision whose blobs are not here waits for the peer, and so does a row of its feed that is open.
        // What a socket does not take is its peer's to read. Below the transport's watermark nobody would say that it has gone.
        let unread = transport.isWritable ? 0 : transport.waitingBytes
        // What was read for the peer waits for its answers.
        let owedByPeer =
            (dialect.messageBytes + unfinishedBytes) / 2 * 3 + unread + blobs.bytes + awaitedBytes + (blobs.isFetching ? bufferedBytes : 0)
            + outgoingBytes / 4 * 5
        let tools = dialect.bufferedBytes - dialect.messageBytes
        let held = passiveRequests.bytes + intake.bytes + bytesElsewhere + subscribedBytes + outgoing.bytes
        // A quarter more is lost between pieces that come and go.
        let all = owedByPeer + tools + ((blobs.isFetching ? 0 : bufferedBytes) + held) / 4 * 5 + Self.baseBytes
        // What they were taken for is counted next: counted twice, even for a moment, it would have a peer evicted that owes nothing of it.
        _ = passiveRequests.takeRooms()
        stand(share?.hold(all, owedByPeer: owedByPeer, spare: isBusy ? 0 : dialect.spareBytes) ?? .free)
    }

    /// Bytes of bodies that are read for a peer at once: many at a time only while there is room for as many more by others. To be asked
    /// when the store begins to read: of a thousand peers that subscribe at the same time the last has its turn when the others' are here.
    static func pageBytes(_ memory: MemoryBudget) -> Int {
        memory.hasRoom(for: 4 * StoreLimits.maxBodyBytesPerRead) ? StoreLimits.maxBodyBytesPerRead : smallPageBytes
    }
    private static let smallPageBytes = 64 << 10

    /// Compression takes a quarter of a megabyte. A write that a thousand followers are told of at once must not take it a thousand times.
    func grantCompression() {
        let bytes = dialect.hasPendingOutput ? dialect.compressionBytes : 0
        if bytes > 0 { dialect.allowCompression(share?.hasRoom(forTools: bytes) ?? true) }
    }

    /// Lets go of what an idle connection can do without.
    func trim() {
        if !isBusy { dialect.trim() }
    }

    func stand(_ now: MemoryBudget.Standing) {
        guard now != standing else { return }
        standing = now
        switch now {
        case .evicted:
            logger.warning(
                "the connection ends: its peer makes the agent hold most of limits.memory (\(memory.limit) bytes), which is used up",
                metadata: ["peer": "\(transport.peerDescription)"])
            let message = "the memory for peers (limits.memory) is used up; come back later"
            // Not 1013, for which Couchbase Lite stops for good.
            // A CLOSE frame would wait behind what the socket does not take, and all of that with it, counted by nobody.
            let isStuck = !transport.isWritable
            finish(error: ReplicationError(domain: .websocket, code: 1013, message: message), closeCode: isStuck ? nil : 4001, reason: message)
            if isStuck { transport.drop() }
        case .crowded, .free:
            for link in links where link.push != nil { tell(link, push: .throttled(now == .crowded)) }
            drain()
        }
    }

    /// Revisions are refused for the moment: more wait to be stored than may, while blobs keep the connection open. A peer that pushes offers
    /// them again; what we pull would come on another connection only.
    var isOverfull: Bool {
        bufferedBytes + blobs.bytes >= limits.maximumBufferedRevisionBytes || isPassive && standing == .crowded && blobs.isFetching
    }

    /// Reads a long message where it holds up nobody. Its values take many times its text, and have their share of the budget while they exist.
    func readElsewhere(_ body: ByteBuffer, _ read: @escaping @Sendable () -> DialectEvent) {
        let (memory, held) = (memory, body.storageCapacity)
        bytesElsewhere += held
        ask(atLength: true) { () async -> DialectEvent in
            let size = JSONTreeSize.bytes(of: [UInt8](body.readableBytesView))
            // Without it nothing goes: what is read is bounded, and only a few are at it.
            let reservation = await memory.reserve(size)
            return withExtendedLifetime(reservation) { read() }
        } then: { session, event in
            session.bytesElsewhere -= held
            session.handle(event)
        }
    }

    /// Takes a request that waits for its turn. One that holds much is refused where there is no room: a peer may send many before it has read
    /// the first answer, each of which came as a few bytes, and what is ours to do is nobody's debt.
    func take(_ request: PassiveRequests.Request, _ handle: AnswerHandle?) {
        let bytes = passiveRequests.bytes + request.bytes
        guard bytes <= Self.smallRequestBytes || memory.hasRoom(for: bytes) else {
            let message = "no memory for requests of \(bytes) bytes within limits.memory (\(memory.limit)); come back later"
            return dialect.refuse(handle, MessageError(code: 503, message: message))
        }
        passiveRequests.append(request)
    }

    /// What each connection may have waiting in any case: all that peers of this field ask at once.
    private static let smallRequestBytes = 16 << 10

    /// Bytes that are looked at in a turn. What one turn brings is counted at its end: while memory is short, that is one message.
    var turnBytes: Int { memory.isShort ? min(Self.shortTurnBytes, limits.turnBytes) : limits.turnBytes }
    private static let shortTurnBytes = 16 << 10

    /// Nothing but lists of changes is here, which wait for removals, and these for the peer's answers to what it is being sent.
    private var isHeldUpByRemovals: Bool {
        links.contains { !($0.push?.removals.isEmpty ?? true) } && !links.contains { $0.pull.isStoring || !$0.incomingDeltas.isEmpty }
    }

    /// The connection is not read while what came is not stored, or what the peer asked for is not taken.
    func adjustReading() {
        // What the peer has to end, or what makes room for it, still has to come: only what we work on is waited for.
        // Blobs come by the same connection: while some are fetched, revisions are refused instead.
        let waitsForPeer = blobs.isFetching || bufferedBytes > 0 && isHeldUpByRemovals
        let works = bufferedBytes > 0 && !waitsForPeer || passiveRequests.bytes > 0
        let isCrowded = standing == .crowded && (works || dialect.owedBytes > 0) || isPassive && works && memory.isShort
        let waits = isCrowded || bufferedBytes > limits.bufferedRevisionBytes && !waitsForPeer || dialect.owedBytes > limits.owedReplyBytes
            || passiveRequests.count > limits.waitingRequests || bytesElsewhere > 0 || blobs.waitingRequests > limits.waitingRequests || dialect.shouldPauseReading
        if waits, !readingIsPaused {
            readingIsPaused = true
            transport.setReading(false)
        } else if readingIsPaused, !waits, bufferedBytes < limits.bufferedRevisionBytes / 2 || waitsForPeer {
            readingIsPaused = false
            transport.setReading(true)
        }
    }
}
