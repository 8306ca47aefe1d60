import Interfaces
import Logging
import NIOCore
import NIOEmbedded
import NIOHTTP1
import NIOPosix
import Synchronization

@testable import HTTPServer
@testable import Transport

extension FuzzTarget {
    /// What a client sends to a listener: however the bytes are cut, the answers are the same; no request is left without one, and
    /// nothing is held when the client has gone.
    static let httpRequests = FuzzTarget("http-requests", longestInput: 2_048) { bytes in
        try MultiThreadedEventLoopGroup.singleton.next().makeFutureWithTask {
            let whole = try await FuzzedListener.answers(to: [bytes])
            guard !whole.dependsOnCuts else { return }
            for size in [1, 13, 400] {
                let pieces = stride(from: 0, to: bytes.count, by: size).map { Array(bytes[$0..<min($0 + size, bytes.count)]) }
                // One byte at a time takes long for long inputs.
                guard pieces.count < 600 else { continue }
                let cut = try await FuzzedListener.answers(to: pieces)
                // The one whose route answered knows; the other may have failed before its route was asked.
                guard !cut.dependsOnCuts else { continue }
                try hold(cut.bytes == whole.bytes, "other answers when cut into \(size) bytes:\n\(text(cut.bytes))\ninstead of\n\(text(whole.bytes))")
                // A route may have been asked or not when the rest of its request turned out to be wrong.
                let isSame = cut.seen.starts(with: whole.seen) || whole.seen.starts(with: cut.seen)
                try hold(isSame, "other requests when cut into \(size) bytes: \(cut.seen), \(whole.seen)")
            }
        }.wait()
    }

    private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}

/// One connection of a listener without its socket.
private struct FuzzedListener {
    struct Outcome {
        var bytes: [UInt8]
        var seen: [String]
        /// What is wrong with a body that nobody wants is seen or not, as far as it has come when its request is answered.
        var dependsOnCuts: Bool
    }

    /// What the routes saw.
    private final class Log: Sendable {
        let lines = Mutex<(seen: [String], ignored: Bool)>(([], false))
    }

    static func answers(to pieces: [[UInt8]]) async throws -> Outcome {
        let log = Log()
        var configuration = HTTPListener.Configuration()
        configuration.limits.queuedRequests = 1_000
        configuration.limits.bodyBytes = 1_000
        configuration.limits.headerBytes = 1_024
        configuration.limits.headerCount = 20
        let core = HTTPListener.Core(
            configuration: configuration, logger: Logger(label: "fuzz", factory: { _ in SwiftLogNoOpLogHandler() }),
            respond: { request in try await respond(request, log) })
        let channel = NIOAsyncTestingChannel()
        let loop = channel.testingEventLoop
        let handler = try await loop.executeInContext {
            try HTTPListener.makePipeline(channel, core)
            let handler = try channel.pipeline.syncOperations.handler(type: HTTPConnectionHandler.self)
            return NIOLoopBound(handler, eventLoop: loop)
        }
        try await channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).get()
        for piece in pieces {
            guard channel.isActive else { break }
            _ = try? await channel.writeInbound(ByteBuffer(bytes: piece))
            try await settle(handler, loop)
        }
        var out: [UInt8] = []
        while let piece = try await channel.readOutbound(as: ByteBuffer.self) {
            let bytes = Array(piece.readableBytesView)
            if !bytes.elementsEqual("HTTP/1.1 100 Continue\r\n\r\n".utf8) { out += bytes }
        }
        try await loop.executeInContext { _ = channel.close(mode: .all) }
        await loop.run()
        _ = try? await channel.finish(acceptAlreadyClosed: true)
        for _ in 0..<10_000 where core.table.socketCount > 0 || core.table.bodyBytes > 0 {
            await loop.run()
            await Task.yield()
        }
        try hold(core.table.socketCount == 0, "the place of a closed connection is not given back")
        try hold(core.table.bodyBytes == 0, "a closed connection holds \(core.table.bodyBytes) bytes of bodies")
        try hold(out.count <= 400 * (pieces.reduce(2) { $0 + $1.count }), "\(out.count) bytes of answers")
        let (seen, ignored) = log.lines.withLock { $0 }
        return Outcome(bytes: out, seen: seen, dependsOnCuts: ignored)
    }

    /// Until the connection has nothing to do but to wait for its client.
    private static func settle(_ handler: NIOLoopBound<HTTPConnectionHandler>, _ loop: NIOAsyncTestingEventLoop) async throws {
        for _ in 0..<1_000_000 {
            await loop.run()
            let isQuiet = try await loop.executeInContext {
                guard case .exchange(let exchange) = handler.value.phase else { return true }
                return !exchange.isComplete && exchange.isBodyWanted
            }
            if isQuiet { return }
            await Task.yield()
        }
        throw FuzzFinding(description: "a request is not answered")
    }

    private static func respond(_ request: HTTPRequest, _ log: Log) async throws -> HTTPResponse {
        var isRead = request.body.isEmpty
        defer { if !isRead { log.lines.withLock { $0.ignored = true } } }
        let components = try RequestTarget.components(request.path)
        let key = try request.queryValue("key")
        let user = request.basicCredentials
        log.lines.withLock { $0.seen.append("\(request.method) \(components) \(key ?? "-") \(user?.username ?? "-")") }
        if let database = RequestTarget.replicationDatabase(path: request.path) {
            switch WebSocketHandshake.check(method: request.method, headers: request.headers, speaking: Subprotocol.names) {
            case .failure(let refusal): throw HTTPError(refusal.status, refusal.reason, headers: refusal.headers)
            case .success(let offer):
                try hold(!database.isEmpty || request.path.utf8.count >= 9, "no path to a database")
                let response = WebSocketHandshake.switchingProtocols(accept: offer.accept, protocolName: offer.selectedProtocol)
                return .upgrade(
                    ProtocolUpgrade(
                        response: ByteBuffer(string: response), takeOver: { _ in .init(handler: Swallower(), completed: {}) },
                        abandoned: { log.lines.withLock { $0.seen.append("abandoned") } }))
            }
        }
        switch components.first {
        case "ignore": return .json("{}")
        case "pieces":
            isRead = true
            var count = 0
            for try await piece in request.body { count += piece.readableBytes }
            let total = count
            return .stream { writer in try await writer.write(ByteBuffer(string: "\(total)")) }
        case "fail": throw FuzzFinding(description: "a route that fails")
        default:
            isRead = true
            let body = try await request.body.collect()
            return .json("{\"bytes\":\(body.readableBytes)}", headers: ["X-Method": "m"])
        }
    }

    /// What comes after an upgrade is not HTTP's.
    private final class Swallower: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer
        func channelRead(context: ChannelHandlerContext, data: NIOAny) {}
    }
}
