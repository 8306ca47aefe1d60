import Interfaces
import NIOCore

/// Frames that the transport delivered and that are not processed yet.
final class FrameIntake {
    private unowned let driver: SessionDriver
    private var frames = CircularBuffer<ByteBuffer>()
    /// Memory they hold, in bytes.
    private(set) var bytes = 0
    /// Work done in the current turn: bytes after inflation, and a constant for each frame.
    var work = 0
    /// How much work this turn may do.
    var bound = Int.max
    /// A turn for the rest is already scheduled.
    var hasScheduledTurn = false
    /// Memory held by others has to be released first.
    private var waitsForRoom = false
    /// How often the check for memory has failed in a row.
    private var attempts = 0
    /// Size of the frame being processed, including while it is suspended.
    private var atHand = 0
    /// The connection is gone, and the session ends once it has processed the rest.
    var end: ConnectionEnd?

    var isEmpty: Bool { frames.isEmpty && !driver.dialect.isSuspended }

    /// The cost of processing a frame beyond its bytes, in bytes of inflation.
    static let frameCost = 1_024
    /// Memory of a waiting frame beyond its bytes.
    private static let frameBytes = 96

    init(_ driver: SessionDriver) { self.driver = driver }

    func append(_ messages: [ByteBuffer]) {
        for message in messages { bytes += message.readableBytes + Self.frameBytes }
        frames += messages
    }

    func next() -> ByteBuffer? {
        guard let frame = frames.popFirst() else { return nil }
        atHand = frame.readableBytes + Self.frameBytes
        return frame
    }

    /// More may be processed in this turn. While the connection is not read, frames read earlier wait as well.
    var mayReceive: Bool {
        !isEmpty && !isPaused && !driver.hasEnded && work < bound
    }

    /// The frames wait for something other than their turn.
    var isPaused: Bool { waitsForRoom || driver.dialect.shouldPauseReading || driver.accounts.readingIsPaused }

    /// A small frame may inflate to megabytes: while the shared budget is used up, no frame is processed until somebody has released memory, which is
    /// checked again after a while.
    ///
    /// - Returns: whether the next frame may be processed.
    private func checkMemory() -> Bool {
        // What uses it up is a large document of our own, which only the peer's answers release.
        if driver.accounts.pushesMuch { return true }
        guard driver.memory.isUsedUp, attempts < DriverBounds.frameRoomChecks else {
            attempts = 0
            return true
        }
        attempts += 1
        waitsForRoom = true
        driver.later(milliseconds: DriverBounds.frameRoomMilliseconds) { $0.intake.waitsForRoom = false }
        return false
    }

    /// Processes frames one at a time: a few highly compressible ones become megabytes, and the others wait until these are consumed.
    func receive() {
        guard mayReceive else { return }
        if work == 0 { bound = driver.accounts.turnBytes }
        var events: [DialectEvent] = []
        while mayReceive, checkMemory() {
            let before = driver.dialect.takenBytes
            #if DEBUG
            let copiedBefore = driver.dialect.copiedBytes
            #endif
            let inflationLimit = max(bound - work, DriverBounds.leastInflatedBytes)
            do throws(ReplicationError) {
                if driver.dialect.isSuspended {
                    try driver.dialect.resume(inflationLimit: inflationLimit, into: &events)
                } else if let frame = next() {
                    try driver.dialect.receive(frame, inflationLimit: inflationLimit, into: &events)
                }
            } catch {
                driver.logger.warning("\(error.message)", metadata: ["peer": "\(driver.transport.peerDescription)"])
                return driver.finish(error: error, closeCode: UInt16(clamping: error.code), reason: error.message)
            }
            if !driver.dialect.isSuspended {
                bytes -= atHand
                atHand = 0
            }
            work += FrameIntake.frameCost + driver.dialect.takenBytes - before
            #if DEBUG
            driver.counters.took(driver.dialect.takenBytes - before, copied: driver.dialect.copiedBytes - copiedBefore)
            #endif
            if events.count > 1 { events.reverse() }
            while let event = events.popLast() { driver.dispatcher.handle(event) }
        }
    }

    /// The rest gets its turn after those of the other connections on the event loop.
    func receiveLater() {
        work = 0
        guard !isEmpty, !isPaused, !hasScheduledTurn else { return }
        hasScheduledTurn = true
        driver.owner?.afterOtherConnections { $0.intake.hasScheduledTurn = false }
    }

    /// Nothing more is processed.
    func clear() {
        frames.removeAll()
        (bytes, atHand, end) = (0, 0, nil)
    }
}
