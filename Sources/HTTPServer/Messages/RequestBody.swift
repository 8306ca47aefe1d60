import NIOCore

/// The body of a request, read from the socket on demand: a client cannot send faster than the route reads.
public struct RequestBody: AsyncSequence, Sendable {
    public typealias Element = ByteBuffer

    /// Nil if the request has no body.
    private let pipe: BodyPipe?
    /// `Content-Length`; nil for chunked bodies, 0 for no body.
    package let declaredLength: Int?
    /// The most that may be received.
    package var limit: NamedLimit
    /// Released with the last copy of this value.
    private let memory: BodyMemory?

    init(pipe: BodyPipe?, declaredLength: Int?, limit: NamedLimit, memory: BodyMemory? = nil) {
        self.pipe = pipe
        self.memory = memory
        self.declaredLength = declaredLength
        self.limit = limit
    }

    package var isEmpty: Bool { pipe == nil }

    /// Refuses a body whose declared length exceeds the limit, before any of it is read.
    ///
    /// - Throws: ``HTTPError`` 413 naming the limit.
    package func checkDeclaredLength() throws(HTTPError) {
        if let declaredLength, declaredLength > limit.value { throw limit.tooLarge }
    }

    /// The whole body in memory, taken from the agent's memory for its peers until nobody refers to the request any more.
    ///
    /// - Throws: ``HTTPError``: 413 above ``limit``, 408 if it arrives too slowly, 503 if the budget is used up, 400 if the client
    ///   disconnected or sent invalid HTTP.
    package func collect() async throws -> ByteBuffer { ByteBuffer(bytes: try await bytes()) }

    /// The whole body in memory, decompressed: the decompressed size counts, and has the same limit as the received size.
    ///
    /// - Parameter refused: called with the beginning of a body that is too large (413), before the error is thrown.
    /// - Throws: as ``collect()``, and the decompressor's errors.
    package func bytes(unpacking unpacker: (any BodyUnpacker)? = nil, refused: (_ beginning: [UInt8], HTTPError) -> Void = { _, _ in }) async throws -> [UInt8] {
        var pieces = pieces(unpacking: unpacker, whole: limit.value)
        var gathered = GatheredBytes()
        do {
            while let piece = try await pieces.next() {
                // The length of a compressed body says little about its size here.
                try await memory?.hold(gathered.count + piece.readableBytes, of: unpacker == nil ? declaredLength : nil)
                gathered.append(piece)
            }
        } catch let error as HTTPError where error.status == 413 {
            refused(gathered.take(), error)
            throw error
        }
        noteComplete()
        return gathered.take()
    }

    /// The body piece by piece, decompressed if necessary: the decompressed size counts, and has the same limit as the received size.
    ///
    /// - Parameter whole: up to this size, the body must be complete within `body_time`, as if it were collected.
    package func pieces(unpacking unpacker: (any BodyUnpacker)?, whole: Int) -> Pieces { Pieces(body: self, unpacker: unpacker, whole: whole) }

    private func take(isCollecting: Bool) async throws -> ByteBuffer? {
        let piece = try await pipe?.next(isCollecting: isCollecting)
        if let piece { memory?.noteTaken(piece.readableBytes) }
        return piece
    }

    /// From now on what was made from the body takes this many bytes. Returns when the agent's memory for its peers has that much available,
    /// so that nothing more is read or decompressed before.
    ///
    /// - Throws: ``HTTPError``: 413 if it is more than half of that memory, 503 if that is used up.
    package func hold(_ count: Int) async throws { try await memory?.hold(count) }

    /// From now on what processes the body while it arrives takes this many bytes in addition.
    ///
    /// - Throws: as ``hold(_:)``.
    package func reserveToolMemory(_ count: Int) async throws { try await memory?.reserveToolMemory(count) }

    /// The body has been received completely: its memory now depends on us, not on the client.
    package func noteComplete() { memory?.noteComplete() }

    /// The request waits for memory before anything is done with its body: it gives way to those that are being answered.
    package func noteWaiting() { memory?.noteWaiting() }

    /// Nobody refers to the collected body any more: its memory is available to others before the response is sent.
    package func relinquish() { memory?.relinquish() }

    package struct Pieces {
        private let body: RequestBody
        private let unpacker: (any BodyUnpacker)?
        private let whole: Int
        private var came = 0
        /// Decompressed bytes so far.
        package private(set) var count = 0

        fileprivate init(body: RequestBody, unpacker: (any BodyUnpacker)?, whole: Int) {
            (self.body, self.unpacker, self.whole) = (body, unpacker, whole)
        }

        /// The next piece; nil at the end.
        ///
        /// - Throws: ``HTTPError`` as ``RequestBody/collect()``, the decompressor's errors, and `CancellationError`.
        package mutating func next() async throws -> ByteBuffer? {
            if came == 0 {
                try body.checkDeclaredLength()
                if let unpacker, !body.isEmpty { try await body.memory?.reserveToolMemory(unpacker.memory) }
            }
            while true {
                if let unpacked = try unpacker?.nextPiece() {
                    // A few compressed bytes may expand to many: lets others use the thread meanwhile.
                    await Task.yield()
                    try Task.checkCancellation()
                    try body.pipe?.checkUnpacking()
                    return try counted(unpacked)
                }
                guard let piece = try await body.take(isCollecting: count <= whole) else { return nil }
                came += piece.readableBytes
                guard came <= body.limit.value else { throw body.limit.tooLarge }
                guard let unpacker else { return try counted(piece) }
                unpacker.feed(piece)
            }
        }

        private mutating func counted(_ piece: ByteBuffer) throws(HTTPError) -> ByteBuffer {
            count += piece.readableBytes
            guard count <= body.limit.value else { throw body.limit.tooLarge }
            return piece
        }
    }

    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(body: self)
    }

    public struct AsyncIterator: AsyncIteratorProtocol {
        private let body: RequestBody
        private var count = 0

        init(body: RequestBody) {
            self.body = body
        }

        /// The next piece; nil at the end.
        ///
        /// - Throws: ``HTTPError`` as ``RequestBody/collect()``, and `CancellationError`.
        public mutating func next() async throws -> ByteBuffer? {
            if count == 0 { try body.checkDeclaredLength() }
            guard let piece = try await body.take(isCollecting: false) else { return nil }
            count += piece.readableBytes
            guard count <= body.limit.value else { throw body.limit.tooLarge }
            return piece
        }
    }
}

/// Decompresses a body incrementally.
package protocol BodyUnpacker: AnyObject {
    /// The most memory it takes, including unprocessed input and the output buffer.
    var memory: Int { get }
    func feed(_ piece: ByteBuffer)
    /// Nil if more input is needed.
    func nextPiece() throws(HTTPError) -> ByteBuffer?
}
