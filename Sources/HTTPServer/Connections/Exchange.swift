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
    /// The client waits for `100 Continue` before it sends the body.
    var expectsContinue: Bool
    /// Somebody waits for the next piece of the body, so the socket is read.
    var isBodyWanted = false
    var silenceTimer: Scheduled<Void>?
    var wholeTimer: Scheduled<Void>?
    var stallTimer: Scheduled<Void>?
    /// Writers that wait until the client takes more.
    var writers: [EventLoopPromise<Void>] = []

    init(_ head: HTTPRequestHead, handler: HTTPConnectionHandler) {
        self.head = head
        encoder = ResponseEncoder(head)
        self.handler = handler
        let isChunked = head.headers.contains(name: "Transfer-Encoding")
        declaredLength = isChunked ? nil : head.headers.first(name: "Content-Length").map { Int($0) ?? .max } ?? 0
        expectsContinue = head.version.minor >= 1 && head.headers.first(name: "Expect").map { HeaderList.sameName($0, "100-continue") } == true
    }

    var hasBody: Bool { declaredLength != 0 }
    var isHead: Bool { head.method == .HEAD }
    /// The response is written as far as it is ours to write.
    var isAnswered: Bool { encoder.progress == .written }
    /// The client would send another request on this connection.
    var wantsKeepAlive: Bool { head.isKeepAlive && !head.headers.contains(name: "Upgrade") && head.method != .CONNECT }

    func open(_ pipe: BodyPipe) { self.pipe = pipe }

    // MARK: From the task that answers

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

    func endStream() throws {
        guard let handler else { throw ChannelError.ioOnClosedChannel }
        try handler.endStream(self)
    }

    func cut() { handler?.cut(self) }

    // MARK: State

    /// What is left of a body that nobody takes is little enough to be read and thrown away.
    func canDiscardRest(upTo limit: Int) -> Bool {
        guard !expectsContinue, let declaredLength else { return false }
        return declaredLength - received <= limit
    }

    func stopBodyTimers() {
        silenceTimer?.cancel()
        wholeTimer?.cancel()
        (silenceTimer, wholeTimer) = (nil, nil)
    }

    /// Nothing of this exchange happens any more.
    func end(_ reason: any Error) {
        stopBodyTimers()
        stallTimer?.cancel()
        stallTimer = nil
        pipe?.end(.failure(reason))
        task?.cancel()
        task = nil
        let waiting = writers
        writers = []
        for promise in waiting { promise.fail(reason) }
    }

    func resumeWriters() {
        stallTimer?.cancel()
        stallTimer = nil
        let waiting = writers
        writers = []
        for promise in waiting { promise.succeed() }
    }
}
