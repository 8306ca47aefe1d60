import Interfaces
import NIOCore

/// What the transport delivered and nobody has looked at yet.
struct FrameIntake {
    private var frames = CircularBuffer<ByteBuffer>()
    /// What they hold.
    private(set) var bytes = 0
    /// When something was looked at last: seconds since 1970, 0 for never.
    var heardAt: Int64 = 0
    /// What was looked at in the turn that runs: bytes after inflation, and something for each frame.
    var work = 0
    /// How much of it this turn may take.
    var bound = Int.max
    /// A turn for the rest is on its way.
    var goesOn = false
    /// The connection is gone, and so is the session once it has looked at the rest.
    var end: ConnectionEnd?

    var isEmpty: Bool { frames.isEmpty }

    /// What looking at a frame costs beside its bytes.
    static let frameWork = 256

    mutating func append(_ messages: [ByteBuffer]) {
        for message in messages { bytes += message.readableBytes }
        frames += messages
    }

    mutating func next() -> ByteBuffer? {
        guard let frame = frames.popFirst() else { return nil }
        bytes -= frame.readableBytes
        return frame
    }
}

extension ReplicationSession {
    /// When something came from the peer last (seconds since 1970, 0 for never), while it owes an answer; nil while it owes none. A database that is asked in
    /// requests has a time for each.
    var heardWhileOwed: Int64? { couch == nil && !hasEnded && intake.isEmpty && dialect.awaitedReplies > 0 ? intake.heardAt : nil }

    public nonisolated func received(_ messages: [ByteBuffer]) {
        assumeIsolated { session in session.turn { $0.intake.append(session.counters.received(messages)) } }
    }

    public nonisolated func holds(unfinishedBytes: Int) {
        assumeIsolated { session in session.turn { $0.unfinishedBytes = unfinishedBytes } }
    }

    public nonisolated func writabilityChanged(_ isWritable: Bool) {
        if isWritable { assumeIsolated { session in session.turn { _ in } } }
    }

    public nonisolated func closed(_ end: ConnectionEnd) {
        assumeIsolated { $0.connectionClosed(end) }
    }

    func connectionClosed(_ end: ConnectionEnd) {
        guard !hasEnded else { return }
        if !intake.isEmpty, !readingIsPaused, !dialect.shouldPauseReading {
            intake.end = end
            return receiveLater()
        }
        // Couchbase Lite, too, treats an unasked-for 1000 from the peer as 1001: the peer went away.
        let code = end.code == 1000 ? 1001 : end.code
        let error = ReplicationError(
            domain: .websocket, code: Int(code),
            message: end.reason.isEmpty ? "the peer closed the connection (\(end.code))" : end.reason)
        finish(error: isPassive ? nil : error, closeCode: nil, reason: "")
    }

    /// More may be looked at in this turn. Where the connection is not read, what was read from it before waits likewise.
    var mayReceive: Bool {
        !intake.isEmpty && !dialect.shouldPauseReading && !readingIsPaused && !hasEnded && intake.work < intake.bound
    }

    /// Takes frames one by one: a few that compress well become megabytes, and those behind wait until these are consumed.
    func receive() {
        guard mayReceive else { return }
        if intake.work == 0 { intake.bound = turnBytes }
        intake.heardAt = environment.time.wallSeconds()
        var events: [DialectEvent] = []
        while mayReceive, let frame = intake.next() {
            let before = dialect.takenBytes
            #if DEBUG
            let copiedBefore = dialect.copiedBytes
            #endif
            do throws(ReplicationError) { try dialect.receive(frame, into: &events) } catch {
                logger.warning("\(error.message)", metadata: ["peer": "\(transport.peerDescription)"])
                return finish(error: error, closeCode: UInt16(clamping: error.code), reason: error.message)
            }
            intake.work += FrameIntake.frameWork + dialect.takenBytes - before
            #if DEBUG
            counters.took(dialect.takenBytes - before, copied: dialect.copiedBytes - copiedBefore)
            #endif
            if events.count > 1 { events.reverse() }
            while let event = events.popLast() { handle(event) }
        }
    }

    /// The rest has its turn behind those of the other connections of the event loop.
    func receiveLater() {
        intake.work = 0
        guard !intake.isEmpty, !readingIsPaused, !dialect.shouldPauseReading, !intake.goesOn else { return }
        intake.goesOn = true
        later { $0.intake.goesOn = false }
    }
}
