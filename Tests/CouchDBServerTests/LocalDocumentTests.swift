import DocumentStore
import Environment
import Logging
import Replication
import TestSupport
import Testing

@testable import CouchDBServer
@testable import HTTPServer

/// `_local` documents are bounded in number and size, and not in how often they are asked for at once.
@Suite struct LocalDocumentTests {
    @Test("a _local document takes room in the memory budget until its client has taken it")
    func room() async throws {
        let folder = try TemporaryFolder()
        let database = try Database.open(folder: folder.path("main.nightjar"), name: "main")
        defer { database.close() }
        let peer = PassiveConfiguration(listener: "edge", database: database)
        let body = Array("{\"text\":\"\(String(repeating: "x", count: 900_000))\"}".utf8)
        _ = try await database.write { transaction in
            try transaction.setPeerCheckpoint(peer.checkpointOwner, id: "_local/large", body: body, expectedRevision: nil, within: peer.checkpointBounds)
        }
        let budget = MemoryBudget(limit: 64 << 20)
        let nobody = HTTPError(401, "nobody")
        let host = CouchHost(
            version: "1", uuid: "u", environment: .system, logger: Logger(label: "test"), memory: AnswerMemory(budget, time: SystemTime()),
            databases: ["main"], admit: { _, _ in CouchHost.Admitted(peer) }, authenticate: { _ in throw nobody },
            session: { _ in throw nobody }, filter: { _, _ in throw nobody })
        let server = CouchServer(host)
        func get(_ id: String) async throws -> HTTPResponse {
            try await server.respond(
                to: HTTPRequest(
                    method: "GET", uri: "/main/_local/\(id)", headers: [:], body: RequestBody(pipe: nil, declaredLength: nil, limit: .unlimited),
                    connection: ConnectionInfo(remoteAddress: "127.0.0.1", origin: "127.0.0.1", drain: DrainSignal())))
        }
        for count in 1...3 {
            var unread: [HTTPResponse] = []
            for _ in 0..<count { unread.append(try await get("large")) }
            #expect(budget.used >= count * body.count, "\(budget.used) bytes for \(count) answers")
            guard case .stream(length: let length, _)? = unread.last?.body else {
                Issue.record("the answer goes out at once: \(unread)")
                return
            }
            #expect(length.map { $0 > body.count } == true && unread.last?.status == 200)
            unread = []
            #expect(budget.used == 0)
        }
        await #expect(throws: HTTPError.self) { try await get("none") }
        #expect(budget.used == 0)
    }
}
