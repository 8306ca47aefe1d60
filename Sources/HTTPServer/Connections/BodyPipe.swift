import NIOCore
import Synchronization

/// Connects the socket's event loop, which delivers pieces of a request's body, with the task that reads them.
///
/// Nothing is read from the socket until the task asks for it; at most one socket read (64 KiB) may wait here.
final class BodyPipe: Sendable {
    /// What the task asks for.
    enum Demand: Sendable {
        /// The next piece, whenever it arrives.
        case piece
        /// The next piece of a body that has to be complete within `body_time`.
        case pieceOfWhole
    }

    private struct State {
        var pieces = CircularBuffer<ByteBuffer>()
        /// Set when the body is complete, or why it never will be.
        var end: Result<Void, any Error>?
        var waiter: CheckedContinuation<ByteBuffer?, any Error>?
        /// Why a body that has arrived is unpacked no further.
        var interruption: HTTPError?
    }

    private let state = Mutex(State())
    private let demand: @Sendable (Demand) -> Void

    init(demand: @escaping @Sendable (Demand) -> Void) { self.demand = demand }

    /// Must be called by only one task at a time.
    func next(isCollecting: Bool) async throws -> ByteBuffer? {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                enum Outcome { case done(Result<ByteBuffer?, any Error>), waits }
                let outcome = state.withLock { state -> Outcome in
                    if let piece = state.pieces.popFirst() { return .done(.success(piece)) }
                    if let end = state.end { return .done(end.map { nil }) }
                    guard state.waiter == nil else { return .done(.failure(HTTPError(500, "two tasks read one request's body"))) }
                    state.waiter = continuation
                    return .waits
                }
                switch outcome {
                case .done(let result): continuation.resume(with: result)
                case .waits: demand(isCollecting ? .pieceOfWhole : .piece)
                }
            }
        } onCancel: {
            end(.failure(CancellationError()))
        }
    }

    /// A piece arrived from the socket.
    func push(_ piece: ByteBuffer) {
        let waiter = state.withLock { state -> CheckedContinuation<ByteBuffer?, any Error>? in
            guard state.end == nil else { return nil }
            if state.waiter == nil { state.pieces.append(piece) }
            return state.waiter.take()
        }
        waiter?.resume(returning: piece)
    }

    /// Nothing more will arrive. Waiting pieces are delivered first, unless the end is an error.
    func end(_ result: Result<Void, any Error>) {
        let waiter = state.withLock { state -> CheckedContinuation<ByteBuffer?, any Error>? in
            guard state.end == nil else { return nil }
            state.end = result
            if case .failure = result { state.pieces.removeAll() }
            return state.waiter.take()
        }
        waiter?.resume(with: result.map { nil })
    }

    /// What has arrived is unpacked no further: the listener is stopping, and a few bytes may be many when they are unpacked.
    func interruptUnpacking(_ error: HTTPError) { state.withLock { $0.interruption = error } }

    /// - Throws: the error with which unpacking was interrupted.
    func checkUnpacking() throws(HTTPError) {
        if let interruption = state.withLock({ $0.interruption }) { throw interruption }
    }
}
