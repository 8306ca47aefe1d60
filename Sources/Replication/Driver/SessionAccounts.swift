import DocumentStore
import Documents
import Environment
import Interfaces
import NIOCore

/// What a session holds on behalf of its peer, and when it stops reading.
final class SessionAccounts {
    private unowned let driver: SessionDriver
    private(set) var share: MemoryBudget.Share?
    private(set) var standing = MemoryBudget.Standing.free
    private(set) var readingIsPaused = false
    /// As last told to the transport.
    private var socketIsRead = true
    /// Bytes received and not stored yet.
    var bufferedBytes = 0
    /// Memory of open rows of the peer's feed, in bytes.
    var awaitedBytes = 0
    /// Bytes of outgoing bodies.
    var outgoingBytes = 0
    /// Memory of the ids that the peer subscribed to, in bytes.
    var subscribedBytes = 0
    /// Bytes of an incomplete message in the transport.
    var unfinishedBytes = 0
    /// Bytes of long messages being parsed elsewhere.
    private var bytesElsewhere = 0
    /// What is left of the connection when the session has ended, counted for as long as the connection exists.
    private var lingering: MemoryBudget.Share?
    private var isDisconnected = false
    /// Memory of blob names found in revisions whose batch is still being checked, in bytes.
    private var foundBytes = 0
    /// Claims for large bodies and their messages, for as long as those are here.
    private var claims: [(claim: WeakClaim, bytes: Int)] = []

    private struct WeakClaim { weak var claim: MemoryBudget.Claim? }

    /// Reservations for completed work whose results are not accounted for yet.
    private var reservations: [MemoryBudget.Reservation] = []

    init(_ driver: SessionDriver) { self.driver = driver }

    /// A connection that we opened counts with no other.
    private var origin: String? { if case .passive(let passive) = driver.role { passive.origin } else { nil } }

    func open() {
        let owner = driver.owner
        share = driver.memory.register(origin: origin, trim: { [weak owner] in owner?.later { $0.accounts.trim() } }) { [weak owner] standing in
            // Others need not wait for this: an evicted connection ends in its own time, and a relieved one continues.
            owner?.later { $0.accounts.stand(standing) }
        }
    }

    /// What is being processed elsewhere for the peer stays accounted for until that work ends.
    func end() {
        let left = (driver.questions.waiting.bytes + driver.links.reduce(0) { $0 + $1.pull.bytesElsewhere }) / 4 * 5
        if driver.limits.hasPlanted(.keptShare), let share { _ = Unmanaged.passRetained(share) } else { share?.end(leaving: left) }
        share = nil
        reservations = []
        linger()
    }

    /// Messages that the peer does not read remain here until its CLOSE times out: connections with much of that are evicted first. So does the
    /// connection itself: of peers that come back as often as they are evicted, and answer no CLOSE, there would be thousands.
    private func linger() {
        let (transport, unread) = (driver.transport, driver.transport.waitingBytes)
        let owed = unread + (standing == .evicted ? Self.closingBytes : 0)
        guard !isDisconnected, owed > DriverBounds.negligibleUnreadBytes else { return }
        let lingering = driver.memory.register(origin: origin) { [weak transport] in if $0 == .evicted { transport?.drop() } }
        self.lingering = lingering
        _ = lingering.hold(owed, owedByPeer: owed)
    }

    func disconnected() {
        isDisconnected = true
        lingering = nil
    }

    /// A reservation made for work is kept until its results are accounted for, at the end of the turn.
    func keepUntilCounted(_ reservation: MemoryBudget.Reservation?) { if let reservation { reservations.append(reservation) } }

    /// A claim accounts for this much of what this side pushes.
    func areClaimed(_ bytes: Int, _ claim: MemoryBudget.Claim) { claims.append((WeakClaim(claim: claim), bytes)) }

    private func claimedBytes() -> Int {
        claims.removeAll { $0.claim.claim == nil }
        return claims.reduce(0) { $0 + $1.bytes }
    }

    /// - Parameter reservation: the reservation for these names.
    func found(names bytes: Int, in reservation: MemoryBudget.Reservation) {
        foundBytes += bytes
        keepUntilCounted(reservation)
    }

    /// From here on they are accounted for with their revisions.
    func namesAreCounted(_ bytes: Int) { foundBytes -= bytes }

    /// The cost of an active connection beyond what it holds for its peer: socket buffers, tables, allocator overhead. Measured with 1,000 of them
    /// (`nightjar-bench hostile`).
    private static let baseBytes = 32 << 10

    /// What is left of an evicted connection until its peer answers CLOSE: the socket's buffer and tables.
    private static let closingBytes = 16 << 10

    /// Reports what is held for the peer, and acts on the resulting standing.
    func settleAccounts() {
        // Messages count one and a half times, for buffers that grew and were left behind; also measured. Compression state is held too, but is not
        // owed by the peer: an idle one must not be evicted for it in place of one that makes us hold messages.
        // Revisions whose blobs are missing wait for the peer, as do open rows of its feed.
        // Reading what a socket does not take is up to its peer. Below the transport's watermark, nothing would report that it has drained.
        let unread = driver.transport.isWritable ? 0 : driver.transport.waitingBytes
        // A large message to the peer has memory of its own, which is released as a whole.
        let queued = driver.isPassive && driver.dialect.queuedBytes <= DriverBounds.largeQueueBytes ? 0 : driver.dialect.outgoingMessageBytes
        let unsettled =
            (driver.dialect.messageBytes - queued + unfinishedBytes) / 2 * 3 + driver.blobs.machine.bytes + awaitedBytes
            + (driver.blobs.machine.isFetching ? bufferedBytes : 0)
        // Data read for the peer waits for its answers.
        let outgoing = max(0, outgoingBytes / 4 * 5 + queued - claimedBytes()) + unread
        // What we push is our own work as well, whatever the protocol: a large document would never arrive.
        let owedByPeer = driver.dialect.traits.holdsOnlyOwnWork ? 0 : unsettled + (driver.isPassive ? outgoing : 0)
        let tools = driver.dialect.bufferedBytes - driver.dialect.messageBytes + unsettled + outgoing - owedByPeer
        let held = driver.questions.waiting.bytes + driver.intake.bytes + bytesElsewhere + foundBytes + subscribedBytes + driver.outgoing.bytes + driver.blobs.namedBytes
        // A quarter is added for fragmentation between pieces that come and go.
        let all = owedByPeer + tools + ((driver.blobs.machine.isFetching ? 0 : bufferedBytes) + held) / 4 * 5 + Self.baseBytes
        // What was reserved for them is accounted for next: counted twice, even for a moment, it could get a peer evicted that does not owe it.
        driver.questions.releaseAnswerReservations()
        reservations = []
        let isBusy = driver.isBusy
        stand(share?.hold(all, owedByPeer: owedByPeer, spare: isBusy ? 0 : driver.dialect.spareBytes, isQuiet: driver.isPassive && !isBusy) ?? .free)
    }

    /// Bytes of bodies read for a peer at once: many only while others have memory for the same amount. To be called when the store begins to read:
    /// of a thousand peers that subscribe at the same time, the last gets its turn when the bodies of the others are here.
    ///
    /// - Returns: also the reservation for them, to be kept until they are accounted for.
    static func pageReservation(_ memory: MemoryBudget) -> (bytes: Int, reservation: MemoryBudget.Reservation?) {
        let most = StoreLimits.maxBodyBytesPerRead
        guard !memory.isAwaited, let reservation = memory.reserveWithoutEviction(most, beside: 3 * most) else { return (DriverBounds.shortPageBytes, nil) }
        return (most, reservation)
    }

    /// Whether what this side pushes takes a large part of the budget.
    var pushesMuch: Bool { !driver.isPassive && outgoingBytes + driver.dialect.outgoingMessageBytes > driver.memory.limit / 8 }

    /// Compression takes a quarter of a megabyte. A write that goes to a thousand followers at once must not allocate it a thousand times.
    func grantCompression() {
        let bytes = driver.dialect.hasPendingOutput ? driver.dialect.compressionBytes : 0
        if bytes > 0 { driver.dialect.allowCompression(share?.hasRoom(forTools: bytes) ?? true) }
    }

    /// Releases what an idle connection can do without.
    func trim() {
        if !driver.isBusy { driver.dialect.trim() }
    }

    func stand(_ now: MemoryBudget.Standing) {
        guard now != standing else { return }
        standing = now
        switch now {
        case .evicted:
            driver.logger.warning(
                "the connection ends: limits.memory (\(driver.memory.limit) bytes) is used up, and the agent holds much for this peer, or has held it for long",
                metadata: ["peer": "\(driver.transport.peerDescription)"])
            let message = "the memory for peers (limits.memory) is used up; come back later"
            // Not 1013, after which Couchbase Lite stops permanently.
            // A CLOSE frame would queue behind what the socket does not take, keeping all of that in memory unaccounted for.
            let isStuck = !driver.transport.isWritable
            driver.finish(error: evictionError(message), closeCode: isStuck ? nil : CloseCode.comeBack, reason: message)
            if isStuck { driver.transport.drop() }
        case .crowded, .free:
            for link in driver.links where link.push != nil { driver.tell(link, push: .throttled(now == .crowded)) }
            driver.drain()
        }
    }

    /// Tells the operator of a replicator that it is this agent's memory that is short, not the peer's.
    private func evictionError(_ message: String) -> ReplicationError {
        guard !driver.isPassive else {
            var error = ReplicationError(domain: .websocket, code: 1013, message: message)
            error.isEviction = true
            return error
        }
        var error = ReplicationError(
            domain: .litecore, code: 13, message: "this agent's limits.memory (\(driver.memory.limit) bytes) is used up, and the connection to this peer held most of it")
        error.specificRemedy = "raise limits: { memory } of this agent: the target is reached, and what is transferred does not fit"
        return error
    }

    /// Whether revisions are refused temporarily: too many wait to be stored, while blobs keep the connection open. A pushing peer offers them again;
    /// what we pull would come again only on another connection.
    var isOverfull: Bool {
        bufferedBytes + driver.blobs.machine.bytes >= driver.limits.maximumBufferedRevisionBytes || driver.isPassive && standing == .crowded && driver.blobs.machine.isFetching
    }

    /// Parses a long message where it blocks nobody. Its values take many times the size of its text, and are accounted for while they exist.
    func parseElsewhere(_ body: ByteBuffer, _ read: @escaping @Sendable () -> DialectEvent) {
        let (memory, held) = (driver.memory, body.storageCapacity)
        bytesElsewhere += held
        driver.ask(atLength: true) { () async -> DialectEvent in
            let size = JSONTreeSize.bytes(of: [UInt8](body.readableBytesView))
            // Proceeds even without the reservation: what is parsed is bounded, and only a few parse at a time.
            let reservation = await memory.reserve(size)
            return withExtendedLifetime(reservation) { read() }
        } then: { driver, event in
            driver.accounts.bytesElsewhere -= held
            driver.dispatcher.handle(event)
        }
    }

    /// Bytes to process in a turn. They are accounted for at its end: while memory is short, a turn is one message.
    var turnBytes: Int { driver.memory.isShort ? min(DriverBounds.shortTurnBytes, driver.limits.turnBytes) : driver.limits.turnBytes }

    /// Nothing but change lists is buffered, which wait for what arrives on this connection: for revisions that the peer was asked for, or for
    /// removals, which in turn wait for the peer's answers about documents in flight to it.
    private var listsWaitForPeer: Bool {
        driver.links.contains { $0.pull.waitsForRevisions || !($0.push?.removals.isEmpty ?? true) }
            && !driver.links.contains { $0.pull.isStoring || !$0.incomingDeltas.isEmpty }
    }

    /// The connection is not read while received data is not stored, or the peer does not read what it requested.
    func adjustReading() {
        // What the peer has to complete, or what frees memory, must still be able to arrive: only our own work pauses reading. Blobs arrive on the
        // same connection: while some are being fetched, revisions are refused instead.
        let waitsForPeer = driver.blobs.machine.isFetching || bufferedBytes > 0 && listsWaitForPeer
        // Replies that wait for the peer's acknowledgements, and not for the socket, get them only if we read. And of two sides that owe each other much,
        // one has to go on reading.
        let isUnread = driver.isPassive && !driver.transport.isWritable
        let owed = isUnread ? driver.dialect.owedBytes : 0
        let questions = isUnread || !driver.questions.waitForReader ? driver.questions.waiting : PassiveRequests()
        let works = bufferedBytes > 0 && !waitsForPeer || questions.bytes > 0
        let isCrowded = standing == .crowded && (works || owed > 0) || driver.isPassive && works && driver.memory.isShort
        let waits = isCrowded || bufferedBytes > driver.limits.bufferedRevisionBytes && !waitsForPeer || owed > driver.limits.owedReplyBytes
            || questions.count > driver.limits.waitingRequests || isUnread && driver.blobs.machine.waitingRequests > driver.limits.waitingRequests
            || bytesElsewhere > 0 || driver.dialect.shouldPauseReading
        if waits {
            readingIsPaused = true
        } else if readingIsPaused, bufferedBytes < driver.limits.bufferedRevisionBytes / 2 || waitsForPeer {
            readingIsPaused = false
        }
        // Frames already received have to be processed first; otherwise each look at the sockets would bring more.
        let isRead = !readingIsPaused && driver.intake.isEmpty
        if isRead != socketIsRead {
            socketIsRead = isRead
            driver.transport.setReading(isRead)
        }
    }
}
