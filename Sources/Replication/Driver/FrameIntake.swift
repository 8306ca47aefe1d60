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
    /// What others hold has to go first.
    private var waitsForRoom = false
    /// How often it was looked for room in vain.
    private var looks = 0
    /// Of the frame that is looked at, also while it is suspended.
    private var atHand = 0
    /// The connection is gone, and so is the session once it has looked at the rest.
    var end: ConnectionEnd?

    var isEmpty: Bool { frames.isEmpty && !session.dialect.isSuspended }

    /// What looking at a frame costs beside its bytes, as so many bytes of inflation.
    static let frameWork = 1_024
    /// What a frame that waits takes beside its bytes.
    private static let frameBytes = 96
    /// What a frame may become at least, however little of the turn is left.
    private static let leastRoom = 16 << 10
    /// After so long it is looked whether there is room.
    private static let roomMilliseconds = 20
    /// After so many looks, a second's, a frame is taken all the same: what nobody owes does not go by itself, and what comes of the frame is a debt of
    /// its peer, who may have to go for it.
    private static let mostLooks = 50

    init(_ session: SessionDriver) { self.session = session }

    func append(_ messages: [ByteBuffer]) {
        for message in messages { bytes += message.readableBytes + Self.frameBytes }
        frames += messages
    }

    func next() -> ByteBuffer? {
        guard let frame = frames.popFirst() else { return nil }
        atHand = frame.readableBytes + Self.frameBytes
        return frame
    }

    /// More may be looked at in this turn. Where the connection is not read, what was read from it before waits likewise.
    var mayReceive: Bool {
        !isEmpty && !isPaused && !session.hasEnded && work < bound
    }

    /// What came waits for something else than its turn.
    var isPaused: Bool { waitsForRoom || session.dialect.shouldPauseReading || session.accounts.readingIsPaused }

    /// A small frame may become megabytes: where the budget of all is used up, none is looked at before somebody has let go of what he had.
    private var hasRoom: Bool {
        guard session.memory.isUsedUp, looks < Self.mostLooks else {
            looks = 0
            return true
        }
        looks += 1
        waitsForRoom = true
        session.later(milliseconds: Self.roomMilliseconds) { $0.intake.waitsForRoom = false }
        return false
    }

    /// Takes frames one by one: a few that compress well become megabytes, and those behind wait until these are consumed.
    func receive() {
        guard mayReceive else { return }
        if work == 0 { bound = session.accounts.turnBytes }
        var events: [DialectEvent] = []
        while mayReceive, hasRoom {
            let before = session.dialect.takenBytes
            #if DEBUG
            let copiedBefore = session.dialect.copiedBytes
            #endif
            let room = max(bound - work, Self.leastRoom)
            do throws(ReplicationError) {
                if session.dialect.isSuspended {
                    try session.dialect.resume(room: room, into: &events)
                } else if let frame = next() {
                    try session.dialect.receive(frame, room: room, into: &events)
                }
            } catch {
                session.logger.warning("\(error.message)", metadata: ["peer": "\(session.transport.peerDescription)"])
                return session.finish(error: error, closeCode: UInt16(clamping: error.code), reason: error.message)
            }
            if !session.dialect.isSuspended {
                bytes -= atHand
                atHand = 0
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
        guard !isEmpty, !isPaused, !goesOn else { return }
        goesOn = true
        session.owner?.afterOthers { $0.intake.goesOn = false }
    }

    /// Nothing is looked at any more.
    func clear() {
        frames.removeAll()
        (bytes, atHand, end) = (0, 0, nil)
    }
}
