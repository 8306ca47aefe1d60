import Interfaces
import NIOCore

/// What the transport delivered and nobody has looked at yet.
final class FrameIntake {
    private unowned let session: SessionDriver
    private var frames = CircularBuffer<ByteBuffer>()
    /// What they hold.
    private(set) var bytes = 0
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

    init(_ session: SessionDriver) { self.session = session }

    func append(_ messages: [ByteBuffer]) {
        for message in messages { bytes += message.readableBytes }
        frames += messages
    }

    func next() -> ByteBuffer? {
        guard let frame = frames.popFirst() else { return nil }
        bytes -= frame.readableBytes
        return frame
    }

    /// More may be looked at in this turn. Where the connection is not read, what was read from it before waits likewise.
    var mayReceive: Bool {
        !isEmpty && !session.dialect.shouldPauseReading && !session.accounts.readingIsPaused && !session.hasEnded && work < bound
    }

    /// Takes frames one by one: a few that compress well become megabytes, and those behind wait until these are consumed.
    func receive() {
        guard mayReceive else { return }
        if work == 0 { bound = session.accounts.turnBytes }
        var events: [DialectEvent] = []
        while mayReceive, let frame = next() {
            let before = session.dialect.takenBytes
            #if DEBUG
            let copiedBefore = session.dialect.copiedBytes
            #endif
            do throws(ReplicationError) { try session.dialect.receive(frame, into: &events) } catch {
                session.logger.warning("\(error.message)", metadata: ["peer": "\(session.transport.peerDescription)"])
                return session.finish(error: error, closeCode: UInt16(clamping: error.code), reason: error.message)
            }
            work += FrameIntake.frameWork + session.dialect.takenBytes - before
            #if DEBUG
            session.counters.took(session.dialect.takenBytes - before, copied: session.dialect.copiedBytes - copiedBefore)
            #endif
            if events.count > 1 { events.reverse() }
            while let event = events.popLast() { session.dialectEvents.handle(event) }
        }
    }

    /// The rest has its turn behind those of the other connections of the event loop.
    func receiveLater() {
        work = 0
        guard !isEmpty, !session.accounts.readingIsPaused, !session.dialect.shouldPauseReading, !goesOn else { return }
        goesOn = true
        session.owner?.afterOthers { $0.intake.goesOn = false }
    }

    /// Nothing is looked at any more.
    func clear() {
        frames.removeAll()
        (bytes, end) = (0, nil)
    }
}
