import BLIP
import Digests
import Documents
import Encodings
import NIOCore

/// The connection ended while a peer waited for an answer.
package struct PeerClosed: Error, CustomStringConvertible {
    /// The code of the CLOSE frame; nil when there was none.
    package var code: UInt16?
    package var reason: String
    package var description: String { "closed with \(code.map { "\($0)" } ?? "no code") \(reason)" }
}

/// A peer that speaks the replication protocol and that a test drives message by message.
package actor Peer {
    package let socket: WebSocketProbe
    private var blip = BLIPConnection()
    private var requests: [IncomingRequest] = []
    private var replies: [RequestToken: IncomingReply] = [:]

    package init(_ socket: WebSocketProbe) { self.socket = socket }

    package static func connect(_ agent: AgentProcess, database: String = "main", login: String? = nil) async throws -> Peer {
        Peer(
            try await WebSocketProbe.connect(
                port: try agent.port("edge"), path: "/\(database)/_blipsync", headers: login.map { [("Authorization", "Basic \($0)")] } ?? []))
    }

    // MARK: - Messages

    /// Sends a request and waits for its reply; requests that arrive meanwhile are kept for later.
    package func ask(_ request: OutgoingRequest) async throws -> IncomingReply {
        guard let token = blip.send(request) else { throw SupportError("the connection has failed") }
        return try await reply(to: token)
    }

    /// Queues requests, then sends them all and waits for all replies, in the order of the requests.
    package func ask(_ all: [OutgoingRequest]) async throws -> [IncomingReply] {
        let tokens = all.compactMap { blip.send($0) }
        var replies: [IncomingReply] = []
        for token in tokens { replies.append(try await reply(to: token)) }
        return replies
    }

    private func reply(to token: RequestToken) async throws -> IncomingReply {
        while true {
            try await flush()
            if let reply = replies.removeValue(forKey: token) { return reply }
            try await receive()
        }
    }

    /// The next request from the other side.
    private func request() async throws -> IncomingRequest {
        while requests.isEmpty {
            try await flush()
            try await receive()
        }
        return requests.removeFirst()
    }

    private func flush() async throws {
        while true {
            var bytes: [UInt8] = []
            while bytes.count < 256 << 10, let frame = blip.nextFrame() { bytes += WebSocketFrame.binary(Array(frame.readableBytesView)) }
            if bytes.isEmpty { return }
            do { try await socket.sendRaw(bytes) } catch {
                // The other side has closed, but what it said before that is still to be read.
                while true { try await receive() }
            }
        }
    }

    private func receive() async throws {
        guard let frame = try await socket.receive() else { throw PeerClosed(code: nil, reason: "") }
        switch frame.opcode {
        case 2:
            var events: [BLIPEvent] = []
            try blip.receive(ByteBuffer(bytes: frame.payload), into: &events)
            for event in events {
                switch event {
                case .request(let request): requests.append(request)
                case .reply(let token, let reply): replies[token] = reply
                case .replyProgress, .sent, .replyBegan, .replyBytes, .replyEnded, .wantsMore: break
                }
            }
        case 8: throw PeerClosed(code: frame.closeCode, reason: String(decoding: frame.payload.dropFirst(2), as: UTF8.self))
        default: break
        }
    }

    /// Closes as a peer does when it is done, and waits for the end.
    package func close() async throws {
        try await socket.send([0x03, 0xE8], opcode: 8)
        _ = try await socket.closeCode()
    }

    /// Reads until the other side closes.
    package func closeCode() async throws -> UInt16? {
        do {
            while true {
                try await flush()
                try await receive()
            }
        } catch let closed as PeerClosed { return closed.code }
    }

    // MARK: - The protocol

    package static func revision(
        _ id: String, _ rev: String = "1-aa", _ body: String = "{\"a\":1}", history: String = "", deleted: Bool = false
    ) -> OutgoingRequest {
        revision(id, rev, bytes: Array(body.utf8), history: history, deleted: deleted)
    }

    package static func revision(
        _ id: String, _ rev: String = "1-aa", bytes: [UInt8], history: String = "", deleted: Bool = false
    ) -> OutgoingRequest {
        var properties: BLIPProperties = ["id": id, "rev": rev, "sequence": "1"]
        if !history.isEmpty { properties.append("history", history) }
        if deleted { properties.append("deleted", "1") }
        return OutgoingRequest(profile: "rev", properties: properties, body: ByteBuffer(bytes: bytes))
    }

    /// Pushes one revision and expects it to be accepted.
    package func push(_ id: String, _ rev: String = "1-aa", _ body: String = "{\"a\":1}") async throws {
        let reply = try await ask(Self.revision(id, rev, body))
        if let error = reply.error { throw SupportError("rev \(id) was refused: \(error)") }
    }

    /// Pushes one revision with a blob, sends the blob if it is asked for, and expects the revision to be accepted.
    package func push(_ id: String, blob: String, more: String = "") async throws {
        let digest = "sha1-\(Base64.encode(SHA1.hash(Array(blob.utf8))))"
        let reply = try await push(id, digest: digest, length: blob.utf8.count, more: more) { $0 == "getAttachment" ? blob : nil }
        if let error = reply.error { throw SupportError("rev \(id) was refused: \(error)") }
    }

    /// Pushes one revision that names a blob.
    ///
    /// - Parameters:
    ///   - more: what comes before the blob in the body, with a comma at its end.
    ///   - answer: returns the answer to each question about the blob, given its profile; nil for an error.
    package func push(
        _ id: String, digest: String, length: Int, more: String = "", answer: @Sendable (String) -> String?
    ) async throws -> IncomingReply {
        let body = "{\(more)\"file\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":\(length)}}"
        guard let token = blip.send(Self.revision(id, "1-aa", body)) else { throw SupportError("the connection has failed") }
        while true {
            try await flush()
            if let reply = replies.removeValue(forKey: token) { return reply }
            guard let asked = requests.first else {
                try await receive()
                continue
            }
            requests.removeFirst()
            guard asked.profile.hasSuffix("Attachment") else { throw SupportError("\(asked.profile) came instead of getAttachment") }
            if let given = answer(asked.profile) {
                self.answer(asked, given)
            } else {
                blip.reply(to: asked.number, OutgoingReply(error: BLIPErrorReply(domain: "HTTP", code: 404, message: "not here")))
            }
        }
    }

    /// Pulls everything there is, once, and returns the revision of each document by its id.
    package func pull(since: String? = nil) async throws -> [String: String] {
        var properties: BLIPProperties = [:]
        if let since { properties.append("since", since) }
        let subscribed = try await ask(OutgoingRequest(profile: "subChanges", properties: properties))
        if let error = subscribed.error { throw SupportError("subChanges was refused: \(error)") }
        var documents: [String: String] = [:]
        var expected = 0
        var isCaughtUp = false
        while !isCaughtUp || expected > 0 {
            let request = try await request()
            switch request.profile {
            case "changes":
                let rows = try JSONValue(parsing: Array(request.body.readableBytesView)).asArray ?? []
                if rows.isEmpty { isCaughtUp = true }
                expected += rows.count
                answer(request, "[\(rows.map { _ in "[]" }.joined(separator: ","))]")
            case "rev":
                expected -= 1
                documents[request.properties["id"] ?? ""] = request.properties["rev"] ?? ""
                answer(request)
            case "norev":
                expected -= 1
                answer(request)
            default: throw SupportError("unexpected request: \(request.profile)")
            }
        }
        try await flush()
        return documents
    }

    private func answer(_ request: IncomingRequest, _ body: String = "") {
        if !request.isNoReply { blip.reply(to: request.number, OutgoingReply(body: ByteBuffer(string: body))) }
    }
}

/// A client's frames, made by hand.
package enum WebSocketFrame {
    /// The mask key is 0, which leaves the payload as it is.
    package static func binary(_ payload: [UInt8], opcode: UInt8 = 2, isFinal: Bool = true) -> [UInt8] {
        var bytes: [UInt8] = [(isFinal ? 0x80 : 0) | opcode]
        switch payload.count {
        case ..<126: bytes.append(0x80 | UInt8(payload.count))
        case ..<65_536: bytes += [0x80 | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
        default: bytes += [0x80 | 127] + (0..<8).reversed().map { UInt8(truncatingIfNeeded: payload.count >> ($0 * 8)) }
        }
        return bytes + [0, 0, 0, 0] + payload
    }
}
