import DocumentStore
import Environment
import Logging
import NIOCore
import Replication
import TestSupport
import Testing

@testable import CouchDBServer
@testable import HTTPServer

/// Documents that come with their attachments behind them.
@Suite struct RelatedUploadTests {
    @Test("the document in a multipart body counts while it comes, and until it is stored")
    func counts() async throws {
        let folder = try TemporaryFolder()
        let database = try Database.open(folder: folder.path("main.nightjar"), name: "main")
        defer { database.close() }
        let peer = PassiveConfiguration(listener: "edge", database: database)
        let budget = MemoryBudget(limit: 64 << 20)
        let nobody = HTTPError(401, "nobody")
        let host = CouchHost(
            version: "1", uuid: "u", environment: .system, logger: Logger(label: "test"), memory: AnswerMemory(budget, time: SystemTime()),
            databases: ["main"], admit: { _, _ in CouchHost.Admitted(peer) }, authenticate: { _ in throw nobody },
            session: { _ in throw nobody }, filter: { _, _ in throw nobody })
        let server = CouchServer(host)
        let pipe = BodyPipe { _ in }
        let answer = Task {
            let memory = BodyMemory(ConnectionTable(limits: HTTPLimits(), memory: budget)) {}
            let request = HTTPRequest(
                method: "PUT", uri: "/main/doc", headers: ["Content-Type": "multipart/related; boundary=b"],
                body: RequestBody(pipe: pipe, declaredLength: nil, limit: .unlimited, memory: memory),
                connection: ConnectionInfo(remoteAddress: "127.0.0.1", origin: "127.0.0.1", drain: DrainSignal()))
            return try await server.respond(to: request).status
        }
        let text = String(repeating: "x", count: 300_000)
        pipe.push(ByteBuffer(string: "--b\r\nContent-Type: application/json\r\n\r\n{\"text\":\"\(text)"))
        try await eventually("what came of the document counts") { budget.used > 299_000 }
        pipe.push(ByteBuffer(string: "\"}\r\n--b--"))
        pipe.end(.success(()))
        #expect(try await answer.value == 201)
        try await eventually("its memory is given back") { budget.used == 0 }
    }
}
