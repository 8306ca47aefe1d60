import Digests
import Documents
import DocumentStore
import Encodings
import HTTPServer
import NIOCore
import Replication
import Synchronization
import Testing
import Transport

/// The answers that a peer may give to a request for an attachment, or for the rest of one.
@Suite(.timeLimit(.minutes(5)))
struct CouchDownloadAnswerTests {
    private static let size = 1 << 20
    private static let cut = 512 << 10
    private let bytes = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 9) }
    private let others = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 17 &+ 3) }

    private typealias Answer = @Sendable (_ number: Int, _ request: HTTPRequest) -> HTTPResponse

    /// Sends part of something, and then either breaks off or ends as if that were all.
    private static func part(
        _ bytes: [UInt8], from: Int = 0, to end: Int, status: Int = 200, headers: HeaderList = [:], saysLength: Bool = true, breaks: Bool = true
    ) -> HTTPResponse {
        .stream(status: status, headers: headers, length: saysLength ? bytes.count - from : nil) { writer in
            for start in stride(from: from, to: end, by: 64 << 10) {
                try await writer.write(ByteBuffer(bytes: bytes[start..<min(start + 64 << 10, end)]))
            }
            if breaks, end < bytes.count { throw HTTPError(500, "cut") }
        }
    }

    private static func rest(_ bytes: [UInt8], _ request: HTTPRequest, headers: HeaderList = [:]) -> HTTPResponse {
        let from = request.headers.first("Range").flatMap { Int($0.dropFirst(6).dropLast()) } ?? 0
        guard from > 0 else { return part(bytes, to: bytes.count, headers: headers) }
        var headers = headers
        headers.set("Content-Range", "bytes \(from)-\(bytes.count - 1)/\(bytes.count)")
        return part(bytes, from: from, to: bytes.count, status: 206, headers: headers)
    }

    private struct Outcome {
        var status: ReplicatorStatus
        var stored: [UInt8]?
        var ranges: [String]
        var conditions: [String?]
        var sleeps: [Int]
    }

    /// - Parameter change: changes what the document says about the attachment.
    private func pull(change: (@Sendable (inout JSONObject) -> Void)? = nil, _ answer: @escaping Answer) async throws -> Outcome {
        let (a, time, bytes) = (try TestDatabase(), JumpingTime(), bytes)
        let asked = Mutex<[(String, String?)]>([])
        var outcome: Outcome?
        try await CouchServer.with { server, target in
            server.change { _ = $0.edit("log", "{}", attachments: ["big": .init(type: "application/octet-stream", bytes: bytes, revpos: 1)]) }
            let tree = server.tree
            server.trouble { request, _ in
                if request.path == "/db/_bulk_get", let change, let leaf = tree.documents["log"]?.leaves.first, var object = tree.json("log", leaf)?.asObject,
                    var attachments = object["_attachments"]?.asObject, var entry = attachments["big"]?.asObject
                {
                    change(&entry)
                    attachments["big"] = .object(entry)
                    object["_attachments"] = .object(attachments)
                    let found: JSONValue = ["ok": .object(object)]
                    let results: JSONValue = ["results": [["id": "log", "docs": .array([found])]]]
                    return .json(results.text)
                }
                guard request.path == "/db/log/big" else { return nil }
                let number = asked.withLock { asked in
                    asked.append((request.headers.first("Range") ?? "whole", request.headers.first("If-Range")))
                    return asked.count - 1
                }
                return answer(number, request)
            }
            let configuration = ReplicatorConfiguration(a, to: target, .pull) { $0.retry.maximumAttempts = 1 }
            let status = await Replicator(configuration, try DatabaseClient(target), environment: time.environment).run()
            var stored: [UInt8]?
            if let body = try await a.body("log"), let text = try JSONValue(parsing: body)["_attachments"]?["big"]?["digest"]?.asString {
                let digest = try BlobDigest(text)
                stored = try await a.database.blobs.perform { try $0.read(digest) }
            }
            let calls = asked.withLock { $0 }
            outcome = Outcome(status: status, stored: stored, ranges: calls.map(\.0), conditions: calls.map(\.1), sleeps: time.sleeps)
        }
        return try #require(outcome)
    }

    @Test("a peer that is too busy to send the rest is asked again at the time that it names, whatever its response contained", arguments: [429, 502, 503, 504])
    func putOff(status: Int) async throws {
        let bytes = bytes
        let outcome = try await pull { number, request in
            switch number {
            case 0: Self.part(bytes, to: Self.cut)
            case 1: HTTPResponse(status: status, headers: ["Retry-After": "7"], body: .buffer(ByteBuffer(string: "{}")))
            default: Self.rest(bytes, request)
            }
        }
        #expect(outcome.stored == bytes && outcome.ranges.count == 3 && outcome.sleeps.contains(7), "\(outcome.status) \(outcome.ranges) \(outcome.sleeps)")
    }

    @Test("a peer that sends one byte at a time is given up, and is asked again only after a pause")
    func byteByByte() async throws {
        let bytes = bytes
        let outcome = try await pull { number, request in
            let from = request.headers.first("Range").flatMap { Int($0.dropFirst(6).dropLast()) } ?? 0
            // It ends without an error, so that the byte arrives.
            let headers: HeaderList = ["Content-Range": "bytes \(from)-\(from)/\(bytes.count)"]
            return number == 0 ? Self.part(bytes, to: Self.cut) : HTTPResponse(status: 206, headers: headers, body: .buffer(ByteBuffer(bytes: [bytes[from]])))
        }
        #expect(outcome.stored == nil && outcome.status.error != nil && outcome.ranges.count == 4, "\(outcome.status) \(outcome.ranges)")
        #expect(outcome.sleeps.prefix(3) == [1, 2, 4], "\(outcome.sleeps)")
    }

    @Test("a download that was begun for one version is not completed with another", arguments: [true, false])
    func changed(knowsIfRange: Bool) async throws {
        let (bytes, others) = (bytes, others)
        let outcome = try await pull(change: { $0["digest"] = "md5-of-something-else" }) { number, request in
            switch number {
            case 0: Self.part(others, to: Self.cut, headers: ["ETag": "\"a\""])
            case 1 where knowsIfRange: Self.part(bytes, to: bytes.count, headers: ["ETag": "\"b\""])
            default: Self.rest(bytes, request, headers: ["ETag": "\"b\""])
            }
        }
        #expect(outcome.stored == bytes, "\(outcome.status) \(outcome.ranges)")
        #expect(outcome.conditions.prefix(2).map { $0 ?? "none" } == ["none", "\"a\""], "\(outcome.conditions)")
        #expect(outcome.ranges.count == (knowsIfRange ? 2 : 3) && outcome.ranges.last.map { $0 == "whole" } == !knowsIfRange, "\(outcome.ranges)")
    }

    @Test("the digest reveals parts that do not belong together, and they are discarded")
    func damaged() async throws {
        let (bytes, others) = (bytes, others)
        let joined = try await pull { number, request in number == 0 ? Self.part(others, to: Self.cut) : Self.rest(bytes, request) }
        #expect(joined.stored == bytes && joined.ranges.count == 3 && joined.ranges.last == "whole", "\(joined.status) \(joined.ranges)")
        // If the peer's own attachment is damaged, nothing helps, but other documents do not wait for it.
        let whole = try await pull { _, request in Self.rest(others, request) }
        #expect(whole.stored == nil && whole.ranges.count == 1 && whole.status.error == nil, "\(whole.status) \(whole.ranges)")
        // The digest of an attachment that the peer has compressed is that of the compressed bytes.
        let packed = try await pull(change: { ($0["encoding"], $0["encoded_length"]) = ("gzip", 10) }) { _, request in Self.rest(others, request) }
        #expect(packed.stored == others, "\(packed.status) \(packed.ranges)")
    }

    @Test("a part that ends early does not count as the end of the attachment, even if the document does not state the total length")
    func short() async throws {
        let bytes = bytes
        let outcome = try await pull(change: { ($0["length"], $0["digest"]) = (.none, "sha1-unknown") }) { number, request in
            switch number {
            case 0: Self.part(bytes, to: Self.cut)
            case 1:
                HTTPResponse(
                    status: 206,
                    headers: ["Content-Range": "bytes \(request.headers.first("Range")?.dropFirst(6).dropLast() ?? "")-\(bytes.count - 1)/\(bytes.count)"],
                    body: .buffer(ByteBuffer(bytes: bytes[(Int(request.headers.first("Range")?.dropFirst(6).dropLast() ?? "") ?? 0)..<(Self.cut + 1_000)])))
            default: Self.rest(bytes, request)
            }
        }
        #expect(outcome.stored == bytes && outcome.ranges.count == 3, "\(outcome.status) \(outcome.ranges)")
    }
}
