import Documents
import DocumentStore
import Environment
import Logging
import NIOCore
import Replication
import TestSupport
import Testing

@testable import CouchDBServer
@testable import HTTPServer

/// What requests hold of the memory budget while they come, and what their answers do until they are read.
@Suite struct RequestMemoryTests {
    /// CouchDB's API for one database, without a socket.
    private final class Served: Sendable {
        let budget: MemoryBudget
        let memory: AnswerMemory
        private let folder: TemporaryFolder
        private let database: Database
        private let host: CouchHost
        private let server: CouchServer

        init() throws {
            budget = MemoryBudget(limit: 64 << 20)
            memory = AnswerMemory(budget, time: SystemTime())
            folder = try TemporaryFolder()
            database = try Database.open(folder: folder.path("main.nightjar"), name: "main")
            let peer = PassiveConfiguration(listener: "edge", database: database)
            let nobody = HTTPError(401, "nobody")
            host = CouchHost(
                version: "1", uuid: "u", environment: .system, logger: Logger(label: "test"), memory: memory,
                databases: ["main"], admit: { _, _ in CouchHost.Admitted(peer) }, authenticate: { _ in throw nobody },
                session: { _ in throw nobody }, filter: { _, _ in throw nobody })
            server = CouchServer(host)
        }

        deinit { database.close() }

        func respond(_ method: String, _ target: String, _ type: String, _ pipe: BodyPipe) async throws -> HTTPResponse {
            try await server.respond(to: request(method, target, type, pipe))
        }

        /// With the whole body.
        func ask(_ method: String, _ target: String, _ body: String = "") async throws -> HTTPResponse {
            try await respond(method, target, "application/json", Self.pipe(body))
        }

        /// What a request's answer is made with.
        func call(_ target: String) async throws -> CouchCall {
            let asked = request("GET", target, "application/json", Self.pipe(""))
            return try await CouchServer.call(host, asked, "main") { [host] in try await host.admit(asked, $0) }
        }

        private func request(_ method: String, _ target: String, _ type: String, _ pipe: BodyPipe) -> HTTPRequest {
            let memory = BodyMemory(ConnectionTable(limits: HTTPLimits(), memory: budget)) {}
            return HTTPRequest(
                method: method, uri: target, headers: ["Content-Type": type],
                body: RequestBody(pipe: pipe, declaredLength: nil, limit: .unlimited, memory: memory),
                connection: ConnectionInfo(remoteAddress: "127.0.0.1", origin: "127.0.0.1", drain: DrainSignal()))
        }

        private static func pipe(_ body: String) -> BodyPipe {
            let pipe = BodyPipe { _ in }
            if !body.isEmpty { pipe.push(ByteBuffer(string: body)) }
            pipe.end(.success(()))
            return pipe
        }
    }

    @Test("the document in a multipart body counts while it comes, and until it is stored")
    func related() async throws {
        let served = try Served()
        let pipe = BodyPipe { _ in }
        let answer = Task { try await served.respond("PUT", "/main/doc", "multipart/related; boundary=b", pipe).status }
        let text = String(repeating: "x", count: 300_000)
        pipe.push(ByteBuffer(string: "--b\r\nContent-Type: application/json\r\n\r\n{\"text\":\"\(text)"))
        try await eventually("what came of the document counts") { served.budget.used > 299_000 }
        pipe.push(ByteBuffer(string: "\"}\r\n--b--"))
        pipe.end(.success(()))
        #expect(try await answer.value == 201)
        try await eventually("its memory is given back") { served.budget.used == 0 }
    }

    @Test("small documents are read at once, a few at a time, while answers that nobody reads hold the memory")
    func small() async throws {
        let served = try Served()
        let ids = (0..<40).map { "doc-\($0)" }
        for id in ids { #expect(try await served.ask("PUT", "/main/\(id)", "{\"text\":\"\(String(repeating: "x", count: 1_000))\"}").status == 201) }
        let unread = (0..<2).map { _ in served.memory.answer { Issue.record("an answer is cut") } }
        for answer in unread { answer.hold((32 << 20) - (64 << 10)) }
        for target in ["/main/doc-1", "/main/doc-1?revs=true&conflicts=true"] { #expect(try await served.ask("GET", target).status == 200, "\(target)") }
        #expect(try await served.ask("PUT", "/main/other", "{}").status == 201)

        let reading = DocumentReading(call: try await served.call("/main/_bulk_get"))
        let questions = try ids.map { DocumentReading.Question(id: try DocumentID($0), wanted: .leaves) }
        let page = try await reading.page(questions[...], withTrees: true)
        #expect(page.count > 2 && page.count < 10 && page.allSatisfy { $0.revisions.count == 1 }, "\(page.count)")

        for query in ["include_docs=true", "style=all_docs", "style=all_docs&include_docs=true"] {
            let call = try await served.call("/main/_changes?\(query)")
            let feed = ChangesReading(call: call, question: try await ChangesQuestion(call))
            var (place, found) = (ChannelPlace(), 0)
            while true {
                let page = try await feed.page(from: place, limit: .max)
                #expect(page.rows.count < 40, "\(query): \(page.rows.count)")
                (place, found) = (page.place, found + page.rows.count)
                if page.isEnd { break }
            }
            #expect(found == 41, "\(query): \(found)")
        }
        withExtendedLifetime(unread) {}
    }

    @Test("a batch of unknown length counts while it comes")
    func batch() async throws {
        let served = try Served()
        let pipe = BodyPipe { _ in }
        let answer = Task { try await served.respond("POST", "/main/_bulk_docs", "application/json", pipe).status }
        pipe.push(ByteBuffer(string: "{\"docs\":[{\"_id\":\"a\",\"text\":\"\(String(repeating: "x", count: 300_000))"))
        try await eventually("what came of the batch counts") { served.budget.used > 299_000 }
        pipe.push(ByteBuffer(string: "\"}]}"))
        pipe.end(.success(()))
        #expect(try await answer.value == 201)
        try await eventually("its memory is given back") { served.budget.used == 0 }
    }

    @Test("a long answer to _revs_diff goes out piece by piece, and counts until it has gone")
    func revisionsDifference() async throws {
        let served = try Served()
        let pipe = BodyPipe { _ in }
        let asked = (0..<3_000).map { "\"d\($0)\":[\"1-\(String(repeating: "ab", count: 16))\"]" }
        pipe.push(ByteBuffer(string: "{\(asked.joined(separator: ","))}"))
        pipe.end(.success(()))
        var answer: HTTPResponse? = try await served.respond("POST", "/main/_revs_diff", "application/json", pipe)
        guard case .stream(length: let length?, _)? = answer?.body else {
            Issue.record("the answer goes out at once: \(answer.map { "\($0.status)" } ?? "")")
            return
        }
        #expect(length > 100_000 && served.budget.used >= length, "\(served.budget.used) of \(length) bytes")
        answer = nil
        try await eventually("its memory is given back") { served.budget.used == 0 }
    }
}
