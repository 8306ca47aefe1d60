import NIOCore
import NIOHTTP1

/// One request and its response on a connection. Confined to the connection's event loop.
final class Exchange {
    weak var handler: HTTPConnectionHandler?
    let head: HTTPRequestHead
    /// `Content-Length`; nil for chunked bodies.
    let declaredLength: Int?
    /// Nil if the request has no body.
    private(set) var pipe: BodyPipe?
    /// Belongs to the request: it is released when nobody refers to that any more.
    weak var memory: BodyMemory?
    var task: Task<Void, Never>?
    var encoder: ResponseEncoder
    /// How many bytes of the body have arrived.
    var received = 0
    /// The request has been received completely, including its body.
    var isComplete = false
    /// Request and response are complete, and the next request only waits until the client has received the response. Different from
    /// `isAnswered`, which already holds during the last write: the channel can become unwritable and writable again before that
    /// returns.
    var isOver = false
    /// Completes when the socket has accepted the last write.
    var taken: EventLoopFuture<Void>?
    /// The client waits for `100 Continue` before it sends the body.
    var expectsContinue: Bool
    /// Somebody is waiting for the next piece of the body, so the socket must be read.
    var isBodyWanted = false
    var idleTimer: Scheduled<Void>?
    var wholeTimer: Scheduled<Void>?
    /// Until it is looked again whether there is memory for the next piece.
    var roomTimer: Scheduled<Void>?
    /// Writers that wait until the client has read more.
    var writers: [EventLoopPromise<Void>] = []

    init(_ head: HTTPRequestHead, handler: HTTPConnectionHandler) {
        self.head = head
        encoder = ResponseEncoder(head)
        self.handler = handler
        let isChunked = head.headers.contains(name: "Transfer-Encoding")
        declaredLength = isChunked ? nil : head.headers.first(name: "Content-Length").map { Int($0) ?? .max } ?? 0
        let expectation = head.headers.first(name: "Expect") ?? ""
        expectsContinue = head.version.minor >= 1 && HeaderList.sameName(expectation, "100-continue")
    }

    var hasBody: Bool { declaredLength != 0 }
    var isHead: Bool { head.method == .HEAD }
    /// The response has been written completely.
    var isAnswered: Bool { encoder.progress == .written }
    /// The client would send another request on this connection.
    var wantsKeepAlive: Bool { head.isKeepAlive && !head.headers.contains(name: "Upgrade") && head.method != .CONNECT }

    func open(_ pipe: BodyPipe) { self.pipe = pipe }

    // MARK: From the task that answers

    static func run(_ exchange: NIOLoopBound<Exchange>, _ request: HTTPRequest, _ core: HTTPListener.Core) -> Task<Void, Never> {
        let eventLoop = exchange.eventLoop
        // A few compressed bytes may be many when they are unpacked: that must not keep everything else in the process waiting, least of all a stop.
        let isCompressed = exchange.value.head.headers.contains(name: "Content-Encoding")
        return Task(priority: isCompressed ? .utility : nil) {
            let response = await core.answer(request)
            guard case .stream(let length, let produce) = response.body else {
                return eventLoop.execute { exchange.value.answer(response) }
            }
            do {
                let hasBody = try await eventLoop.submit { try exchange.value.beginStream(response, length: length) }.get()
                if hasBody { try await produce(ResponseBodyWriter(exchange: exchange, eventLoop: eventLoop)) }
                // Memory for the answer counts until the socket has accepted all of it.
                try await eventLoop.submit { try exchange.value.endStream() }.get()?.get()
                withExtendedLifetime(response) {}
            } catch {
                core.logger.debug("response cut short", metadata: ["uri": "\(request.uri)", "error": "\(error)"])
                eventLoop.execute { exchange.value.cut() }
            }
        }
    }

    func answer(_ response: HTTPResponse) {
        if let handler { handler.answer(response, to: self) } else { response.abandonUpgrade() }
    }

    func beginStream(_ response: HTTPResponse, length: Int?) throws -> Bool {
        guard let handler else { throw ChannelError.ioOnClosedChannel }
        return try handler.beginStream(response, length: length, of: self)
    }

    func write(_ piece: ByteBuffer, _ promise: EventLoopPromise<Void>) {
        guard let handler else { return promise.fail(ChannelError.ioOnClosedChannel) }
        do { try handler.write(piece, of: self, promise) } catch { promise.fail(error) }
    }

    /// - Returns: a future that completes when the client's socket has accepted everything.
    func endStream() throws -> EventLoopFuture<Void>? {
        guard let handler else { throw ChannelError.ioOnClosedChannel }
        try handler.endStream(self)
        return taken
    }

    func cut() { handler?.cut(self) }

    func noteTaken() { handler?.noteTaken(self) }

    /// Others need the memory that this exchange holds.
    func yieldResources() { handler?.yieldResources(self) }

    // MARK: State

    /// Whether the unread rest of a body is small enough to be read and discarded.
    func canDiscardRest(upTo limit: Int) -> Bool {
        guard !expectsContinue, let declaredLength else { return false }
        return declaredLength - received <= limit
    }

    /// The most that a read of this size brings of the body.
    func expected(in read: Int) -> Int { min(read, declaredLength.map { max(0, $0 - received) } ?? read) }

    /// Once a task switches from collecting the body to reading it piece by piece, there is no deadline for the whole body any more.
    func noteDemand(_ demand: BodyPipe.Demand) {
        guard demand == .piece else { return }
        wholeTimer?.cancel()
        wholeTimer = nil
    }

    func stopBodyTimers() {
        idleTimer?.cancel()
        wholeTimer?.cancel()
        roomTimer?.cancel()
        (idleTimer, wholeTimer, roomTimer) = (nil, nil, nil)
    }

    /// No more of the body will arrive: the task that reads it gets the error and answers, since it knows what it did with the part
    /// that arrived. False if no task is reading it.
    func endBody(_ error: HTTPError) -> Bool {
        guard let pipe, encoder.progress == .notBegun else { return false }
        stopBodyTimers()
        pipe.end(.failure(error))
        return true
    }

    /// What has arrived of the body is unpacked no further: the task that does it gets the error, and answers.
    func interruptUnpacking(_ error: HTTPError) { pipe?.interruptUnpacking(error) }

    /// The response is written and the request read: the next one may start.
    func finish() {
        stopBodyTimers()
        resumeWriters()
        // Breaks a reference cycle.
        pipe = nil
        task = nil
    }

    /// Ends the exchange; nothing further happens in it.
    func end(_ reason: any Error) {
        pipe?.end(.failure(reason))
        task?.cancel()
        let waiting = writers
        writers = []
        for promise in waiting { promise.fail(reason) }
        finish()
    }

    func resumeWriters() {
        let waiting = writers
        writers = []
        for promise in waiting { promise.succeed() }
    }
}
