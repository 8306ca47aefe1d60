import NIOCore
import NIOHTTP1

/// One request and its response on a connection. Belongs to the connection's event loop.
final class Exchange {
    weak var handler: HTTPConnectionHandler?
    let head: HTTPRequestHead
    /// `Content-Length`; nil with chunks.
    let declaredLength: Int?
    /// Nil when the request has no body.
    private(set) var pipe: BodyPipe?
    var task: Task<Void, Never>?
    var encoder: ResponseEncoder
    /// Bytes of the body that came.
    var received = 0
    /// The request is complete, body and all.
    var isComplete = false
    /// Request and response are complete, and only the client's taking of it holds up the next request. Told apart from `isAnswered`,
    /// which holds already inside of the write: the channel can become unwritable and writable again before that returns.
    var isOver = false
    /// What was written last, as soon as the socket has taken it.
    var taken: EventLoopFuture<Void>?
    /// The client waits for `100 Continue` before it sends the body.
    var expectsContinue: Bool
    /// Somebody waits for the next piece of the body, so the socket is read.
    var isBodyWanted = false
    var idleTimer: Scheduled<Void>?
    var wholeTimer: Scheduled<Void>?
    /// Writers that wait until the client takes more.
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
    /// The response is written as far as it is ours to write.
    var isAnswered: Bool { encoder.progress == .written }
    /// The client would send another request on this connection.
    var wantsKeepAlive: Bool { head.isKeepAlive && !head.headers.contains(name: "Upgrade") && head.method != .CONNECT }

    func open(_ pipe: BodyPipe) { self.pipe = pipe }

    // MARK: From the task that answers

    static func run(_ exchange: NIOLoopBound<Exchange>, _ request: HTTPRequest, _ core: HTTPListener.Core) -> Task<Void, Never> {
        let eventLoop = exchange.eventLoop
        return Task {
            let response = await core.answer(request)
            guard case .stream(let length, let produce) = response.body else {
                return eventLoop.execute { exchange.value.answer(response) }
            }
            do {
                let hasBody = try await eventLoop.submit { try exchange.value.beginStream(response, length: length) }.get()
                if hasBody { try await produce(ResponseBodyWriter(exchange: exchange, eventLoop: eventLoop)) }
                // What was read for the answer counts until the socket has taken all of it.
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

    /// - Returns: when the client's socket has taken all.
    func endStream() throws -> EventLoopFuture<Void>? {
        guard let handler else { throw ChannelError.ioOnClosedChannel }
        try handler.endStream(self)
        return taken
    }

    func cut() { handler?.cut(self) }

    func noteTaken() { handler?.noteTaken(self) }

    /// Others need the memory that this one holds.
    func giveWay() { handler?.giveWay(self) }

    // MARK: State

    /// What is left of a body that nobody takes is little enough to be read and thrown away.
    func canDiscardRest(upTo limit: Int) -> Bool {
        guard !expectsContinue, let declaredLength else { return false }
        return declaredLength - received <= limit
    }

    /// Who takes piece by piece what it first meant to have whole may take its time from there on.
    func demandBody(_ demand: BodyPipe.Demand) {
        isBodyWanted = true
        guard demand == .piece else { return }
        wholeTimer?.cancel()
        wholeTimer = nil
    }

    func stopBodyTimers() {
        idleTimer?.cancel()
        wholeTimer?.cancel()
        (idleTimer, wholeTimer) = (nil, nil)
    }

    /// No more of the body comes: who reads it answers, and knows what was done with what had come. False where nobody does.
    func endBody(_ error: HTTPError) -> Bool {
        guard let pipe, encoder.progress == .notBegun else { return false }
        stopBodyTimers()
        pipe.end(.failure(error))
        return true
    }

    /// The response is written and the request read: the next one may come.
    func finish() {
        stopBodyTimers()
        resumeWriters()
        // The pipe knows this exchange too.
        pipe = nil
        task = nil
    }

    /// Nothing of this exchange happens any more.
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
