import Documents
import Environment
import HTTPServer
import Interfaces
import Replication
import Synchronization
import Testing
import Transport

/// Tokens that expire and how they are replaced, and how many connections a replication takes.
@Suite(.timeLimit(.minutes(5)))
struct CouchLoginTests {
    @Test("a replication in both directions needs a few connections, not one for each request")
    func connections() async throws {
        let a = try TestDatabase()
        try await a.fill(0..<1_500, prefix: "a-")
        try await CouchServer.with { server, target in
            server.change { tree in for n in 0..<1_500 { tree.edit("b-\(n)", "{\"n\":\(n)}") } }
            let status = await Replicator(ReplicatorConfiguration(a, to: target), try DatabaseClient(target)).run()
            #expect(status.error == nil && status.counts.pushed == 1_500 && status.counts.pulled == 1_500, "\(status)")
            let (callers, requests) = server.state.withLock { ($0.callers.count, $0.requests.count) }
            // There are a few at a time, and some that replace connections that the server ended.
            #expect(callers <= 15 && requests > 30, "\(callers) connections for \(requests) requests")
        }
    }

    @Test("an expired bearer token is read again, once for all requests that need it; if there is no new one, the status says so")
    func renewed() async throws {
        let a = try TestDatabase()
        try await a.fill(0..<500)
        try await CouchServer.with { server, target in
            // The content of a file that another program writes.
            let file = Mutex("one")
            let reads = Mutex(0)
            server.state.withLock { $0.token = "one" }
            let client = try DatabaseClient(target) { configuration in
                configuration.refresh = { configuration in
                    reads.withLock { $0 += 1 }
                    configuration.credentials = .bearer(file.withLock { $0 })
                }
            }
            server.trouble { [server] request, _ in
                // The token is replaced in the middle of the push.
                guard request.path == "/db/_bulk_docs" else { return nil }
                return server.state.withLock { state in
                    guard state.token == "one" else { return nil }
                    state.token = "two"
                    file.withLock { $0 = "two" }
                    return .error(status: 401, error: "unauthorized", reason: "Token expired")
                }
            }
            let first = await Replicator(ReplicatorConfiguration(a, to: target, .push), client).run()
            #expect(first.error == nil && first.counts.pushed == 500, "\(first)")
            #expect(server.tree.documents.count == 500)
            // The token expires, and nobody writes a new one.
            server.state.withLock { $0.token = "three" }
            let second = await Replicator(ReplicatorConfiguration(a, to: target, .push), client).run()
            #expect(second.error?.code == 401 && second.error?.kind == .needsAction && second.error?.message.contains("two") == false, "\(second)")
        }
    }

    /// Counts the tokens that it makes.
    private final class Maker: TokenSource {
        let made = Mutex(0)
        let givesSessions = false

        func token(replicator: String, remote: String) async -> Result<PeerToken, PolicyFailure> {
            let number = made.withLock { made in
                made += 1
                return made
            }
            return .success(PeerToken(text: "made-\(number)", seconds: 3600))
        }
    }

    @Test("tokens that are made here are kept while they are valid, and a new one is made when one is refused")
    func made() async throws {
        let a = try TestDatabase()
        try await a.fill(0..<500)
        try await CouchServer.with { server, target in
            server.state.withLock { $0.token = "made-1" }
            let maker = Maker()
            let environment = JumpingTime().environment
            let tokens = SuppliedTokens(maker, replicator: "r", remote: target, environment: environment)
            let client = try DatabaseClient(target) { $0.credentials = .supplied(tokens) }
            for _ in 0..<2 {
                let status = await Replicator(ReplicatorConfiguration(a, to: target, .push), client).run()
                #expect(status.error == nil && maker.made.withLock { $0 } == 1, "\(status)")
            }
            server.state.withLock { $0.token = "made-2" }
            try await a.fill(500..<600)
            let renewed = await Replicator(ReplicatorConfiguration(a, to: target, .push), client).run()
            #expect(renewed.error == nil && renewed.counts.pushed == 100 && maker.made.withLock { $0 } == 2, "\(renewed)")
            server.state.withLock { $0.token = "nobody's" }
            let refused = await Replicator(ReplicatorConfiguration(a, to: target, .push), client).run()
            #expect(refused.error?.code == 401 && refused.error?.kind == .needsAction, "\(refused)")
        }
    }

    private func iam(_ target: String, _ key: String) throws -> DatabaseClient {
        let url = try EndpointURL(target.replacing("/db", with: "/identity/token"))
        let environment = JumpingTime().environment
        let tokens = IAMTokens(url, group: loops, environment: environment) { IAMTokens.Way() } key: { key }
        return try DatabaseClient(target) { $0.credentials = .iam(tokens) }
    }

    @Test("an API key is exchanged for a token, and again only when the token expires or is refused")
    func tokens() async throws {
        let a = try TestDatabase()
        try await a.fill(0..<500)
        try await CouchServer.with { server, target in
            server.state.withLock { $0.apiKey = "the-key" }
            let client = try iam(target, "the-key")
            func given() -> Int { server.state.withLock { $0.tokensGiven } }
            let first = await Replicator(ReplicatorConfiguration(a, to: target, .push), client).run()
            #expect(first.error == nil && first.counts.pushed == 500 && given() == 1, "\(first)")
            let second = await Replicator(ReplicatorConfiguration(a, to: target, .push), client).run()
            #expect(second.error == nil && given() == 1, "\(second)")
            // The service revokes the token in the middle of a run.
            try await a.fill(500..<600)
            server.trouble { [server] request, _ in
                guard request.path == "/db/_bulk_docs" else { return nil }
                return server.state.withLock { state in
                    guard state.token == "iam-1" else { return nil }
                    state.token = "revoked"
                    return .error(status: 401, error: "unauthorized", reason: "Token rejected")
                }
            }
            let third = await Replicator(ReplicatorConfiguration(a, to: target, .push), client).run()
            #expect(third.error == nil && third.counts.pushed == 100 && given() == 2, "\(third)")
        }
    }

    @Test("a key that the service does not accept is an error that somebody has to fix, and the error does not show the key")
    func wrongKey() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            server.state.withLock { $0.apiKey = "the-key" }
            let status = await Replicator(ReplicatorConfiguration(a, to: target, .push), try iam(target, "a-guess")).run()
            #expect(status.error?.code == 401 && status.error?.kind == .needsAction, "\(status)")
            let message = status.error?.sentence ?? ""
            #expect(message.contains("BXNIM0415E") && message.contains("iam_api_key") && !message.contains("a-guess"), "\(message)")
        }
    }

    @Test("the token service is reached with the network interface, TLS and proxy that are configured at the time of the request")
    func way() async throws {
        let a = try TestDatabase()
        try await a.fill(0..<3)
        try await CouchServer.with { server, target in
            server.state.withLock { $0.apiKey = "the-key" }
            let way = Mutex(IAMTokens.Way(networkInterface: "no-such-if"))
            let url = try EndpointURL(target.replacing("/db", with: "/identity/token"))
            let environment = JumpingTime().environment
            let tokens = IAMTokens(url, group: loops, environment: environment) { way.withLock { $0 } } key: { "the-key" }
            let client = try DatabaseClient(target) { $0.credentials = .iam(tokens) }
            let configuration = ReplicatorConfiguration(a, to: target, .push) { $0.retry.maximumAttempts = 1 }
            let first = await Replicator(configuration, client).run()
            #expect(first.error?.message.contains("no-such-if") == true, "\(first)")
            way.withLock { $0.networkInterface = "127.0.0.1" }
            let second = await Replicator(configuration, client).run()
            #expect(second.error == nil && second.counts.pushed == 3, "\(second)")
        }
    }
}
