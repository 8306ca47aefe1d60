import AgentConfiguration
import DocumentStore
import Environment
import Interfaces
import Logging
import NIOCore
import Replication
import Synchronization
import TestSupport
import Testing
import Transport

@testable import Agent
@testable import HTTPServer

/// How often the credentials of a request are judged that names several databases.
@Suite("Credentials of a request")
struct CredentialsOnceTests {
    /// A clock that stands still, and counts how often it is looked at: once for each token with a valid signature.
    private final class CountingClock: TimeSource {
        static let now: Int64 = 1_800_000_000
        private let looks = Mutex(0)
        var count: Int { looks.withLock { $0 } }

        func monotonicNanoseconds() -> UInt64 { 0 }
        func wallSeconds() -> Int64 {
            looks.withLock { $0 += 1 }
            return Self.now
        }
        func sleep(nanoseconds: UInt64) async throws {}
    }

    /// A listener without a socket. Under all of its names there is the same database.
    private final class Served: Sendable {
        let listener: PeerListener
        let clock = CountingClock()
        let names = (10..<30).map { "db\($0)" }
        private let folder: TemporaryFolder
        private let database: Database
        private let signer: TokenSigner

        init() throws {
            folder = try TemporaryFolder()
            signer = try TokenSigner(.ed25519)
            let database = try Database.open(folder: folder.path("main.nightjar"), name: "main")
            self.database = database
            var tokens = TokenSettings()
            tokens.keys = Located(try folder.write("keys", signer.webKeys()))
            var settings = ListenerSettings()
            settings.databases = names.map { Located($0) }
            listener = PeerListener(
                settings: settings, share: (connections: 1, http: 1),
                policies: ListenerPolicies(tokens: try TokenAuthenticator.make(tokens, listener: "edge", time: clock)), security: nil,
                databases: { _ in database }, logins: LoginQueue(), limits: ReplicationLimits(), memory: MemoryBudget(limit: 64 << 20),
                environment: .system, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            listener.startCouch()
            listener.state.withLock { $0.isOpen = true }
        }

        deinit { database.close() }

        func token(_ more: String = "") throws -> String { try signer.token("{\"sub\":\"ada\",\"exp\":\(CountingClock.now + 600)\(more)}") }

        /// - Parameter keys: in the body of a POST; nil for a GET.
        func information(_ keys: [String]?, _ token: String, cookie: String? = nil) async throws -> (status: Int, text: String) {
            var headers: HeaderList = ["Authorization": "Bearer \(token)", "Content-Type": "application/json"]
            if let cookie { headers.add("Cookie", cookie) }
            var pipe: BodyPipe?
            if let keys {
                let body = BodyPipe { _ in }
                body.push(ByteBuffer(string: "{\"keys\":[\(keys.map { "\"\($0)\"" }.joined(separator: ","))]}"))
                body.end(.success(()))
                pipe = body
            }
            let answer = try await listener.respond(
                to: HTTPRequest(
                    method: keys == nil ? "GET" : "POST", uri: "/_dbs_info", headers: headers,
                    body: RequestBody(pipe: pipe, declaredLength: keys == nil ? 0 : nil, limit: .unlimited),
                    connection: ConnectionInfo(remoteAddress: "127.0.0.1:1", origin: "127.0.0.1", drain: DrainSignal())))
            guard case .buffer(let text) = answer.body else { throw SupportError("an answer in pieces") }
            return (answer.status, String(buffer: text))
        }
    }

    @Test("are judged once, whatever number of databases it names")
    func once() async throws {
        let served = try Served()
        let token = try served.token()
        let asked: [[String]?] = [nil, served.names, Array(repeating: served.names[0], count: 100), ["none", served.names[1], "no.such"]]
        for (number, keys) in asked.enumerated() {
            let answer = try await served.information(keys, token)
            #expect(answer.status == 200 && answer.text.contains("\"info\""), "\(answer)")
            #expect(served.clock.count == number + 1, "\(keys?.count ?? 0) names")
        }
        let refused = try await served.information(served.names, TokenSigner(.ed25519).token("{\"sub\":\"ada\",\"exp\":9999999999}"))
        #expect(refused.status == 401 && served.clock.count == asked.count, "\(refused)")
    }

    @Test("do not count in a database where its cookie stands for a session, and what that session's user may not see is not shown")
    func sessions() async throws {
        let served = try Served()
        let ben = Principal(name: "ben", collections: ["plant.readings"])
        let proof = PeerAuthentication.Proof.password(BasicCredentials(username: "ben", password: "x"))
        let own = served.names[7]
        let id = served.listener.sessions.open(own, ben, proof, generation: served.listener.authenticatorGeneration)
        let answer = try await served.information(nil, try served.token(), cookie: "\(PeerSessions.cookie)=\(id)")
        #expect(answer.status == 200 && served.clock.count == 1, "\(answer)")
        for name in served.names { #expect(answer.text.contains("\"\(name)\"") == (name != own), "\(name)") }
        let nobody = try await served.information([own], "a.b.c", cookie: "\(PeerSessions.cookie)=\(id)")
        #expect(nobody.status == 401, "\(nobody)")
    }
}
