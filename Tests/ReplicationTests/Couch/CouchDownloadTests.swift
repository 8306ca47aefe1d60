import Documents
import DocumentStore
import HTTPServer
import NIOCore
import Replication
import Synchronization
import Testing
import Transport

/// Attachments whose connection breaks during the download.
@Suite(.timeLimit(.minutes(5)))
struct CouchDownloadTests {
    /// How the peer answers a request for the rest.
    enum Rest: CaseIterable {
        case part
        /// It does not support ranges.
        case whole
        /// It sends a different part from the one that was requested.
        case wrongPart
    }

    private let bytes = (0..<(2 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 9) }

    /// Answers the requests for the attachment, and cuts each answer off after a number of bytes.
    private func cut(_ server: CouchServer, _ cuts: [Int], _ rest: Rest) -> CallLog {
        let log = CallLog()
        let bytes = bytes
        server.trouble { request, _ in
            guard request.path == "/db/log/big" else { return nil }
            let range = request.headers.first("Range")
            let number = log.add(range ?? "whole")
            let asked = range.flatMap { Int($0.dropFirst(6).dropLast()) } ?? 0
            let from = rest == .whole ? 0 : rest == .wrongPart && asked > 0 ? asked + 1 : asked
            let end = number < cuts.count ? min(from + cuts[number], bytes.count) : bytes.count
            let isPart = asked > 0 && rest != .whole
            let headers: HeaderList = isPart ? ["Content-Range": "bytes \(from)-\(bytes.count - 1)/\(bytes.count)"] : [:]
            return .stream(status: isPart ? 206 : 200, headers: headers, length: bytes.count - from) { writer in
                for start in stride(from: from, to: end, by: 64 << 10) {
                    try await writer.write(ByteBuffer(bytes: bytes[start..<min(start + 64 << 10, end)]))
                }
                if end < bytes.count { throw HTTPError(500, "cut") }
            }
        }
        return log
    }

    final class CallLog: Sendable {
        private let lines = Mutex<[String]>([])
        var all: [String] { lines.withLock { $0 } }
        /// - Returns: how many lines there were before.
        func add(_ line: String) -> Int {
            lines.withLock { lines in
                lines.append(line)
                return lines.count - 1
            }
        }
    }

    private func pull(_ server: CouchServer, _ target: String) async throws -> (TestDatabase, ReplicatorStatus) {
        let a = try TestDatabase()
        let attachment = CouchTree.Attachment(type: "application/octet-stream", bytes: bytes, revpos: 1)
        server.change { _ = $0.edit("log", "{\"n\":1}", attachments: ["big": attachment]) }
        let time = JumpingTime()
        let configuration = ReplicatorConfiguration(a, to: target, .pull) { $0.retry.maximumAttempts = 1 }
        return (a, await Replicator(configuration, try DatabaseClient(target), environment: time.environment).run())
    }

    private func expectWhole(_ database: TestDatabase) async throws {
        let body = try JSONValue(parsing: try await database.body("log") ?? "null")
        let digest = try BlobDigest(body["_attachments"]?["big"]?["digest"]?.asString ?? "")
        let stored = try await database.database.blobs.perform { try $0.read(digest) }
        #expect(stored == bytes)
    }

    @Test("only what did not arrive is requested again, however often the connection breaks", arguments: [Rest.part, .whole])
    func resumed(_ rest: Rest) async throws {
        try await CouchServer.with { server, target in
            let size = 64 << 10
            let log = cut(server, rest == .part ? [3 * size, size, 5 * size, size, size] : [3 * size, 4 * size, 9 * size], rest)
            let (a, status) = try await pull(server, target)
            #expect(status.error == nil && status.counts.pulled == 1, "\(status)")
            try await expectWhole(a)
            let starts = log.all.dropFirst().compactMap { Int($0.dropFirst(6).dropLast()) }
            #expect(log.all.first == "whole" && starts.count == log.all.count - 1, "\(log.all)")
            // Bytes sent before a cut need not have arrived. Nothing is requested from the beginning again, and nothing twice.
            #expect(starts.allSatisfy { $0 > 0 } && starts == starts.sorted(), "\(log.all)")
        }
    }

    @Test("a part that does not begin where the last one ended is refused and not stored")
    func wrongPart() async throws {
        try await CouchServer.with { server, target in
            let log = cut(server, [1 << 20], .wrongPart)
            let (a, status) = try await pull(server, target)
            #expect(try await a.body("log") == nil && log.all.count == 2, "\(status) \(log.all)")
        }
    }

    @Test("a new connection resumes where the previous one was given up")
    func anotherConnection() async throws {
        try await CouchServer.with { server, target in
            let log = cut(server, [1 << 20, 0, 0, 0], .part)
            let (a, status) = try await pull(server, target)
            #expect(try await a.body("log") == nil && log.all.count == 4, "\(status) \(log.all)")
            let configuration = ReplicatorConfiguration(a, to: target, .pull) { $0.retry.maximumAttempts = 1 }
            let again = await Replicator(configuration, try DatabaseClient(target)).run()
            #expect(again.error == nil && again.counts.pulled == 1, "\(again)")
            try await expectWhole(a)
            let start = log.all.count == 5 ? Int(log.all[4].dropFirst(6).dropLast()) : nil
            #expect(start ?? 0 >= 64 << 10, "\(log.all)")
        }
    }

    @Test("a document that is offered again with each attempt counts once")
    func countedOnce() async throws {
        try await CouchServer.with { server, target in
            let log = cut(server, [0, 0], .part)
            let a = try TestDatabase()
            let attachment = CouchTree.Attachment(type: "application/octet-stream", bytes: bytes, revpos: 1)
            server.change { tree in
                _ = tree.edit("log", "{}", attachments: ["big": attachment])
                for id in ["x", "y", "z"] { _ = tree.edit(id, "{}") }
            }
            let configuration = ReplicatorConfiguration(a, to: target, .pull) { $0.retry.maximumAttempts = 5 }
            let status = await Replicator(configuration, try DatabaseClient(target), environment: JumpingTime().environment).run()
            #expect(status.error == nil && log.all.count == 3, "\(status) \(log.all)")
            #expect(status.counts.completed == 4 && status.counts.total == 4 && status.counts.pulled == 4, "\(status)")
        }
    }

    @Test("a peer that breaks off again and again without sending a byte is given up")
    func noProgress() async throws {
        try await CouchServer.with { server, target in
            let log = cut(server, [1 << 20, 0, 0, 0, 0, 0, 0, 0], .part)
            let (a, status) = try await pull(server, target)
            #expect(try await a.body("log") == nil && status.error != nil && log.all.count == 4, "\(status) \(log.all)")
        }
    }
}
