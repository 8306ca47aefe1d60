import HTTPServer
import Interfaces
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// One connection of an ``HTTPClient``, which carries requests one after another.
final class ClientConnection: Sendable {
    typealias Stream = NIOAsyncChannel<HTTPClientResponsePart, HTTPClientRequestPart>

    /// The server had closed an idle connection before the request reached it.
    struct ClosedWhileIdle: Error {}

    /// The incoming response parts.
    ///
    /// Unchecked: used only by the one request that the connection carries; meanwhile ``KeptConnections`` gives the connection to nobody else.
    final class Parts: @unchecked Sendable {
        private var iterator: NIOAsyncChannelInboundStream<HTTPClientResponsePart>.AsyncIterator

        init(_ iterator: NIOAsyncChannelInboundStream<HTTPClientResponsePart>.AsyncIterator) { self.iterator = iterator }

        func next() async throws -> HTTPClientResponsePart? { try await iterator.next() }
    }

    /// The first error that explains why we closed a connection.
    final class Failure: Sendable {
        private let value: Mutex<(any Error)?> = Mutex(nil)
        var error: (any Error)? { value.withLock { $0 } }

        func set(_ error: any Error) {
            value.withLock { $0 = $0 ?? error }
        }
    }

    /// How much of a request was sent.
    private final class Sent: Sendable {
        private let isDone = Atomic(false)
        private let lastBegan = Atomic(false)
        var all: Bool { isDone.load(ordering: .acquiring) }
        /// The last part was passed to the channel, which may have written it: an answer can arrive before its writer continues.
        var mayBeFullySent: Bool { lastBegan.load(ordering: .acquiring) }
        func noteLast() { lastBegan.store(true, ordering: .releasing) }
        func note() { isDone.store(true, ordering: .releasing) }
    }

    private let channel: any Channel
    private let parts: Parts
    private let outbound: NIOAsyncChannelOutboundWriter<HTTPClientRequestPart>
    private let ready: HTTPClient.Ready
    private let patience: NIOLoopBound<PeerTimeoutHandler>
    private let target: String

    private init(
        _ channel: any Channel, _ parts: Parts, _ outbound: NIOAsyncChannelOutboundWriter<HTTPClientRequestPart>, _ ready: HTTPClient.Ready,
        _ patience: NIOLoopBound<PeerTimeoutHandler>, target: String
    ) {
        (self.channel, self.parts, self.outbound, self.ready, self.patience, self.target) = (channel, parts, outbound, ready, patience, target)
    }

    deinit { channel.close(promise: nil) }

    var isOpen: Bool { channel.isActive }
    var eventLoop: any EventLoop { channel.eventLoop }
    func close() { channel.close(promise: nil) }

    // MARK: - Opening

    static func open(_ client: HTTPClient, _ deadline: HTTPClient.Deadline?) async throws -> ClientConnection {
        let pipeline = ClientPipeline(client)
        let opened = try await pipeline.connect(deadline)
        let stream = opened.stream
        let target = "\(client.target)"
        return try await withCheckedThrowingContinuation { continuation in
            // The streams may only be used within this scope, so the scope has to last as long as the connection.
            Task {
                try? await stream.executeThenClose { inbound, outbound in
                    continuation.resume(
                        returning: ClientConnection(
                            stream.channel, Parts(inbound.makeAsyncIterator()), outbound, pipeline.ready, opened.patience, target: target))
                    try await stream.channel.closeFuture.get()
                }
            }
        }
    }

    // MARK: - Requests

    /// Sends a request and passes the response's body on as it arrives.
    ///
    /// - Returns: the result of `handle`, and whether the connection may carry another request.
    func carry<Result: Sendable>(
        _ head: HTTPRequestHead, _ body: HTTPClient.RequestBody, _ deadline: HTTPClient.Deadline?, patience limit: TimeAmount?, pace: HTTPClient.Pace?,
        isFresh: Bool,
        _ handle: (HTTPClient.ResponseHead, HTTPClient.ResponseBody) async throws -> Result
    ) async throws -> (Result, isReusable: Bool) {
        let failure = Failure()
        let (channel, target, parts, patience) = (channel, target, parts, patience)
        let timer = deadline.map { deadline in
            channel.eventLoop.scheduleTask(deadline: deadline.time) {
                failure.set(deadline.error)
                channel.close(promise: nil)
            }
        }
        defer { timer?.cancel() }
        if let limit {
            channel.eventLoop.execute {
                patience.value.begin(limit, pace) { failure.set(ReplicationError(network: .timeout, message: "\(target): \($0)")) }
            }
        }
        defer { if limit != nil { channel.eventLoop.execute { patience.value.end() } } }
        do {
            return try await withThrowingTaskGroup(of: Void.self) { tasks in
                let sent = Sent()
                tasks.addTask { await self.send(head, body, failure, sent) }
                let first: HTTPClientResponsePart?
                let mayHaveEnded = { !isFresh && failure.error == nil && !Task.isCancelled }
                do { first = try await parts.next() } catch {
                    if mayHaveEnded(), Self.isEnd(error) { throw ClosedWhileIdle() }
                    throw error
                }
                guard case .head(let answer)? = first else {
                    if mayHaveEnded() { throw ClosedWhileIdle() }
                    throw ReplicationError(network: .connectionReset, message: "\(target): the peer closed the connection before its HTTP answer")
                }
                // Servers send this before closing an idle connection; it crossed our request.
                if answer.status == .requestTimeout, !answer.isKeepAlive, mayHaveEnded() { throw ClosedWhileIdle() }
                let list = HeaderList(answer.headers.map { (name: $0.name, value: $0.value) })
                let rest = HTTPClient.ResponseBody(parts, target: target)
                let result = try await handle(HTTPClient.ResponseHead(status: Int(answer.status.code), headers: list), rest)
                if let error = failure.error { throw error }
                // A server that answered before it had the whole request may still read the rest, or not.
                let isComplete = rest.isComplete && answer.isKeepAlive && !Task.isCancelled
                let isReusable = if isComplete { try await isFullySent(sent) } else { false }
                if isReusable { try await tasks.waitForAll() } else { tasks.cancelAll() }
                return (result, isReusable && failure.error == nil)
            }
        } catch {
            if Task.isCancelled { throw CancellationError() }
            if let first = failure.error { throw first }
            switch error {
            case is IOError, is ChannelError: throw NetworkErrors.replicationError(error, target: target)
            case is HTTPParserError, is NIOHTTPDecoderError:
                throw ReplicationError(network: .connectionReset, message: "\(target): the answer is cut short or not HTTP/1.1 (\(error)): the peer, or a proxy on the way, ended the connection; its log and status say why, for example that its limits.memory is too small for what is asked of it")
            default: throw error
            }
        }
    }

    private func isFullySent(_ sent: Sent) async throws -> Bool {
        guard !sent.all else { return true }
        guard sent.mayBeFullySent else { return false }
        let patience = patience
        return try await channel.eventLoop.submit { !patience.value.isWriting }.get()
    }

    /// Whether an idle connection was closed, or received an answer without a request. Any other error, such as an unreadable answer, belongs to this
    /// request, which the server may have carried out.
    private static func isEnd(_ error: any Error) -> Bool {
        switch error {
        case is IOError, is ChannelError: true
        case let error as NIOHTTPDecoderError: error == .unsolicitedResponse
        case let error as ReplicationError: error.domain == .network
        default: false
        }
    }

    private func untilReady() async throws {
        do {
            try await withTaskCancellationHandler { try await ready.wait() } onCancel: { channel.close(promise: nil) }
        } catch { throw NetworkErrors.replicationError(error, target: target) }
    }

    /// A connection that breaks while we write is not an error here: the server may have answered early, which the reading side finds out. Errors
    /// from the producer are thrown.
    private func send(_ head: HTTPRequestHead, _ body: HTTPClient.RequestBody, _ failure: Failure, _ sent: Sent) async {
        do {
            let writer = HTTPClient.BodyWriter(outbound: outbound)
            if case .none = body { sent.noteLast() }
            try await writer.send(.head(head))
            // Data written before TLS is ready would be buffered without the channel's noticing.
            if case .none = body {} else { try await untilReady() }
            switch body {
            case .none: break
            case .buffer(let buffer):
                sent.noteLast()
                try await writer.write(buffer)
            case .stream(_, let produce): try await produce(writer)
            }
            sent.note()
            try await writer.send(.end(nil))
        } catch is HTTPClient.BodyWriter.Disconnected {
        } catch is CancellationError {
        } catch {
            failure.set(error)
            channel.close(promise: nil)
        }
    }
}
