import NIOCore
import NIOEmbedded

@testable import TLS

extension FuzzTarget {
    /// TLS records as a peer or somebody between sends them: cut, changed, lost, doubled, made up. Each side gets a beginning of what the
    /// other sent and nothing else, or an error; every write gets its outcome.
    static let tlsRecords = FuzzTarget("tls-records", longestInput: 512) { bytes in
        var input = FuzzInput(bytes)
        var pair = try FuzzedTLS(&input)
        try pair.run(&input)
        try pair.end()
    }
}

private struct FuzzedTLS {
    private final class Recorder: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        var bytes: [UInt8] = []
        var completed = 0
        var errors: [any Error] = []

        func channelRead(context: ChannelHandlerContext, data: NIOAny) { bytes += Array(unwrapInboundIn(data).readableBytesView) }
        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) { if event is TLSHandshakeCompleted { completed += 1 } }
        func errorCaught(context: ChannelHandlerContext, error: any Error) { errors.append(error) }
    }

    private struct End {
        let channel: EmbeddedChannel
        let handler: TLSHandler
        let recorder = Recorder()
        var sent: [UInt8] = []
        var told = 0
        var asked = 0
    }

    private final class Count { var told = 0 }

    /// Made once: keys take long.
    private static let contexts = Result<(server: TLSContext, client: TLSContext), any Error> {
        let now: Int64 = 1_700_000_000
        var request = IdentityRequest(names: AlternativeNames(dns: ["localhost"]))
        request.validityDays = IdentityRequest.longestValidityDays
        let server = try SelfSigning.make(request, label: IdentityLabel("server"), now: now)
        let client = try SelfSigning.make(request, label: IdentityLabel("client"), now: now)
        var serverOptions = TLSServerOptions(identity: server)
        serverOptions.clientCertificates = ClientCertificates(mode: .request, roots: nil)
        var clientOptions = TLSClientOptions(serverAuthentication: ServerAuthentication(trustsSystemRoots: false, extraRoots: [server.leaf]))
        clientOptions.identity = client
        return (try TLSContext(server: serverOptions), try TLSContext(client: clientOptions))
    }

    private let loop = EmbeddedEventLoop()
    private var ends: [End] = []
    private let counts = [Count(), Count()]
    private var isDamaged = false

    init(_ input: inout FuzzInput) throws {
        let contexts = try Self.contexts.get()
        for handler in [try TLSHandler(server: contexts.server), try TLSHandler(client: contexts.client, endpoint: TLSEndpoint(host: "localhost", port: 1))] {
            let channel = EmbeddedChannel(loop: loop)
            channel.allowRemoteHalfClosure = input.flag()
            let end = End(channel: channel, handler: handler)
            try channel.pipeline.syncOperations.addHandlers([handler, end.recorder])
            try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
            ends.append(end)
        }
    }

    mutating func run(_ input: inout FuzzInput) throws {
        var steps = 0
        while !input.isEmpty {
            steps += 1
            let choice = input.byte()
            let at = Int(choice & 1)
            switch choice >> 1 & 0x07 {
            case 0: send(at, count: input.short() & 0x7FFF)
            case 1: ends[at].channel.close(mode: choice & 0x80 != 0 ? .output : .all, promise: nil)
            case 2: ends[at].channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
            case 3:
                isDamaged = true
                receive(at, input.piece())
            default: try carry(from: at, choice, &input)
            }
            loop.run()
        }
        for _ in 0..<1_000 {
            var none = FuzzInput([])
            let before = ends.map(\.recorder.bytes.count)
            try carry(from: 0, 0, &none)
            try carry(from: 1, 0, &none)
            loop.run()
            if before == ends.map(\.recorder.bytes.count), ends.allSatisfy({ $0.recorder.completed > 0 || !$0.recorder.errors.isEmpty || !$0.channel.isActive }) { break }
        }
    }

    private mutating func send(_ at: Int, count: Int) {
        guard ends[at].channel.isActive else { return }
        let start = ends[at].sent.count
        let bytes = (start..<start + count).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ at) }
        ends[at].asked += 1
        let promise = ends[at].channel.eventLoop.makePromise(of: Void.self)
        let told = counts[at]
        promise.futureResult.assumeIsolated().whenComplete { _ in told.told += 1 }
        ends[at].sent += bytes
        ends[at].channel.writeAndFlush(ByteBuffer(bytes: bytes), promise: promise)
    }

    private func receive(_ at: Int, _ bytes: [UInt8]) {
        guard ends[at].channel.isActive, !bytes.isEmpty else { return }
        ends[at].channel.pipeline.fireChannelRead(ByteBuffer(bytes: bytes))
        ends[at].channel.pipeline.fireChannelReadComplete()
    }

    /// Takes what one side wrote to the other, whole or in pieces, and damages it if the input says so.
    private mutating func carry(from at: Int, _ choice: UInt8, _ input: inout FuzzInput) throws {
        var bytes: [UInt8] = []
        while let piece = try ends[at].channel.readOutbound(as: ByteBuffer.self) { bytes += Array(piece.readableBytesView) }
        guard !bytes.isEmpty else { return }
        let place = choice & 0x10 != 0 ? input.short() % bytes.count : 0
        switch choice >> 5 {
        case 1:
            bytes[place] ^= max(input.byte(), 1)
            isDamaged = true
        case 2:
            bytes.removeSubrange(place..<min(bytes.count, place + 1 + Int(input.byte())))
            isDamaged = true
        case 3:
            bytes.insert(contentsOf: input.piece(), at: place)
            isDamaged = true
        case 4:
            bytes.insert(contentsOf: bytes[place...], at: place)
            isDamaged = true
        default: break
        }
        let size = choice & 0x08 != 0 ? 1 + Int(input.byte()) * 16 : bytes.count
        for start in stride(from: 0, to: bytes.count, by: max(size, 1 + bytes.count / 300)) {
            receive(1 - at, Array(bytes[start..<min(bytes.count, start + max(size, 1 + bytes.count / 300))]))
        }
    }

    mutating func end() throws {
        // What stalls in the handshake, or lingers, ends by its time.
        loop.advanceTime(by: .seconds(60))
        for (at, end) in ends.enumerated() {
            let other = ends[1 - at]
            try hold(other.sent.starts(with: end.recorder.bytes), "bytes that nobody sent")
            try hold(end.recorder.completed <= 1, "connected twice")
            try hold(end.recorder.bytes.isEmpty || end.recorder.completed == 1, "bytes before the handshake was over")
            try hold(end.recorder.errors.count <= 1, "\(end.recorder.errors.count) errors: \(end.recorder.errors)")
            for error in end.recorder.errors { try hold(error is TLSError, "\(error) is no TLS error") }
            if end.recorder.completed == 0, isDamaged { try hold(!end.recorder.errors.isEmpty || !end.channel.isActive, "neither connected nor ended") }
        }
        for end in ends { _ = try? end.channel.finish(acceptAlreadyClosed: true) }
        loop.run()
        for (at, end) in ends.enumerated() {
            try hold(counts[at].told == end.asked, "\(end.asked - counts[at].told) writes were never told their end")
            try hold(end.handler.engine == nil && end.handler.pending.isEmpty && end.handler.heldBytes == 0, "an ended connection holds something")
        }
    }
}
