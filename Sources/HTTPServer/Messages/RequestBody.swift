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
    /// Goes with the last copy of this value.
    private let memory: BodyMemory?

    init(pipe: BodyPipe?, declaredLength: Int?, limit: NamedLimit, memory: BodyMemory? = nil) {
        self.pipe = pipe
        self.memory = memory
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

    /// The whole body in memory, drawn from the agent's memory for its peers until nobody holds the request any more.
    ///
    /// - Throws: ``HTTPError``: 413 above ``limit``, 408 when it comes too slowly, 503 when the budget is used up, 400 when the
    ///   client went away or what it sent is no HTTP.
    package func collect() async throws -> ByteBuffer { ByteBuffer(bytes: try await bytes()) }

    /// The whole body in memory, unpacked: what it unpacks to counts, and is bounded as what comes is.
    ///
    /// - Throws: as ``collect()``, and what the unpacker throws.
    package func bytes(unpacking unpacker: (any BodyUnpacker)? = nil) async throws -> [UInt8] {
        var pieces = pieces(unpacking: unpacker, whole: limit.value)
        var gathered = GatheredBytes()
        while let piece = try await pieces.next() {
            try await hold(gathered.count + piece.readableBytes)
            gathered.append(piece)
        }
        noteComplete()
        return gathered.take()
    }

    /// The body piece by piece, unpacked where it comes packed: what it unpacks to counts, and is bounded as what comes is.
    ///
    /// - Parameter whole: as long as no more than that is there it has to be complete within `body_time`, as what is collected.
    package func pieces(unpacking unpacker: (any BodyUnpacker)?, whole: Int) -> Pieces { Pieces(body: self, unpacker: unpacker, whole: whole) }

    /// What was made of the body comes to so many bytes from here on. Returns when the agent's memory for its peers has room for them, so that
    /// nothing more is read, or unpacked, before.
    ///
    /// - Throws: ``HTTPError``: 413 where they are more than half of it, 503 when it is used up.
    package func hold(_ count: Int) async throws { try await memory?.hold(count) }

    /// What takes the body apart while it comes holds so many bytes from here on, beside what was made of it.
    ///
    /// - Throws: as ``hold(_:)``.
    package func holdTools(_ count: Int) async throws { try await memory?.holdTools(count) }

    /// Nothing of the body is to come: what it holds is ours to make go away.
    package func noteComplete() { memory?.noteComplete() }

    /// Nobody holds what was collected any more: its memory is free for others before the response is sent.
    package func giveBack() { memory?.giveBack() }

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
            if came == 0 {
                try body.checkDeclaredLength()
                if let unpacker, !body.isEmpty { try await body.memory?.holdTools(unpacker.memory) }
            }
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
    /// What it takes at most, with what waits in it and the piece that it gives out.
    var memory: Int { get }
    func feed(_ piece: ByteBuffer)
    /// Nil: more has to come.
    func nextPiece() throws(HTTPError) -> ByteBuffer?
}
