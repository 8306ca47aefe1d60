import NIOCore

/// The body of a request, read from the socket as it is asked for: a client cannot send faster than the route takes.
public struct RequestBody: AsyncSequence, Sendable {
    public typealias Element = ByteBuffer

    /// Nil when the request has no body.
    private let pipe: BodyPipe?
    /// `Content-Length`; nil for chunks, 0 for no body.
    package let declaredLength: Int?
    /// What may come at most.
    package var limit: NamedLimit

    init(pipe: BodyPipe?, declaredLength: Int?, limit: NamedLimit) {
        self.pipe = pipe
        self.declaredLength = declaredLength
        self.limit = limit
    }

    package var isEmpty: Bool { pipe == nil }

    /// Refuses a body whose declared length is above the limit, before anything of it is read.
    ///
    /// - Throws: ``HTTPError`` 413 that names the limit.
    package func checkDeclaredLength() throws(HTTPError) {
        if let declaredLength, declaredLength > limit.value { throw limit.tooLarge }
    }

    /// The whole body in memory, drawn from the agent's memory for its peers until the response is sent.
    ///
    /// - Throws: ``HTTPError``: 413 above ``limit``, 408 when it comes too slowly, 503 when the budget is used up, 400 when the
    ///   client went away or what it sent is no HTTP.
    package func collect() async throws -> ByteBuffer { try await collect(unpacking: nil) }

    /// The whole body in memory, unpacked: what it unpacks to counts, and is bounded as what comes is.
    ///
    /// - Throws: as ``collect()``, and what the unpacker throws.
    package func collect(unpacking unpacker: (any BodyUnpacker)?) async throws -> ByteBuffer {
        try checkDeclaredLength()
        guard let pipe else { return ByteBuffer() }
        var body = ByteBuffer()
        while let piece = try await pipe.next(isCollecting: true) {
            guard let unpacker else {
                try keep(piece, pipe, &body)
                continue
            }
            unpacker.feed(piece)
            while let unpacked = try unpacker.nextPiece() { try keep(unpacked, pipe, &body) }
        }
        pipe.isCollected()
        return body
    }

    /// The body piece by piece, unpacked where it comes packed: what it unpacks to counts, and is bounded as what comes is.
    ///
    /// - Parameter whole: as long as no more than that is there it has to be complete within `body_time`, as what is collected.
    package func pieces(unpacking unpacker: (any BodyUnpacker)?, whole: Int) -> Pieces { Pieces(body: self, unpacker: unpacker, whole: whole) }

    /// Takes bytes that were made of the body from the agent's memory for its peers, until the response is sent.
    ///
    /// - Throws: ``HTTPError``: 413 where they are more than half of it, 503 when it is used up.
    package func hold(_ count: Int) throws(HTTPError) { try pipe?.keep(count) }

    /// Nothing of the body is to come: what it holds is ours to make go away.
    package func isTaken() { pipe?.isCollected() }

    /// Nobody holds what was collected any more: its memory is free for others before the response is sent.
    package func giveBack() { pipe?.giveBack() }

    private func keep(_ piece: ByteBuffer, _ pipe: BodyPipe, _ body: inout ByteBuffer) throws(HTTPError) {
        guard body.readableBytes + piece.readableBytes <= limit.value else { throw limit.tooLarge }
        try pipe.keep(piece.readableBytes)
        if body.readableBytes == 0 { body = piece } else { body.writeImmutableBuffer(piece) }
    }

    package struct Pieces {
        private let body: RequestBody
        private let unpacker: (any BodyUnpacker)?
        private let whole: Int
        private var came = 0
        /// Bytes so far, unpacked.
        package private(set) var count = 0

        fileprivate init(body: RequestBody, unpacker: (any BodyUnpacker)?, whole: Int) {
            (self.body, self.unpacker, self.whole) = (body, unpacker, whole)
        }

        /// The next piece, nil at the end.
        ///
        /// - Throws: ``HTTPError`` as ``RequestBody/collect()``, what the unpacker throws, and `CancellationError`.
        package mutating func next() async throws -> ByteBuffer? {
            if came == 0 { try body.checkDeclaredLength() }
            while true {
                if let unpacked = try unpacker?.nextPiece() {
                    // A few packed bytes may be many: others get the thread meanwhile.
                    await Task.yield()
                    return try counted(unpacked)
                }
                guard let piece = try await body.pipe?.next(isCollecting: count <= whole) else { return nil }
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

        /// The next piece, nil at the end.
        ///
        /// - Throws: ``HTTPError`` as ``RequestBody/collect()``, and `CancellationError`.
        public mutating func next() async throws -> ByteBuffer? {
            if count == 0 { try body.checkDeclaredLength() }
            guard let piece = try await body.pipe?.next(isCollecting: false) else { return nil }
            count += piece.readableBytes
            guard count <= body.limit.value else { throw body.limit.tooLarge }
            return piece
        }
    }
}

/// Makes of a body that comes packed what it holds, some at a time.
package protocol BodyUnpacker: AnyObject {
    func feed(_ piece: ByteBuffer)
    /// Nil: more has to come.
    func nextPiece() throws(HTTPError) -> ByteBuffer?
}
