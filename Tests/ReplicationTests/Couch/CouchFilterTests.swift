import Documents
import Replication
import Testing
import Transport

/// Filters that the source applies.
@Suite(.timeLimit(.minutes(5)))
struct CouchFilterTests {
    private func pull(_ database: TestDatabase, _ target: String, _ filter: SourceFilter?, continuous: Bool = false) async throws -> ReplicatorStatus {
        let configuration = ReplicatorConfiguration(database, to: target, .pull) { $0.collections[0].sourceFilter = filter }
        return await Replicator(configuration, try DatabaseClient(target)).run()
    }

    @Test("a selector and a named filter with parameters are sent to the source, and each choice has its own progress")
    func filters() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            server.change { tree in for n in 0..<100 { tree.edit("doc-\(n)", "{\"n\":\(n),\"kind\":\"\(n % 2 == 0 ? "even" : "odd")\"}") } }
            let even = SourceFilter.selector(["kind": "even"])
            let first = try await pull(a, target, even)
            #expect(first.error == nil && first.counts.pulled == 50 && first.counts.total == 50, "\(first)")
            #expect(try await a.body("doc-1") == nil)
            // The same choice continues where it was.
            #expect(try await pull(a, target, even).counts.total == 0)
            // Another filter starts from the beginning, but what is already here is not fetched again.
            let above = SourceFilter.named("readings/above", parameters: [("minimum", "97")])
            let second = try await pull(a, target, above)
            #expect(second.error == nil && second.counts.pulled == 2, "\(second)")
            #expect(try await a.body("doc-97") != nil)
            #expect(try await a.body("doc-95") == nil)
            let lower = SourceFilter.named("readings/above", parameters: [("minimum", "95")])
            #expect(try await pull(a, target, lower).counts.pulled == 1)
            // Without a filter, everything that is left is pulled.
            #expect(try await pull(a, target, nil).counts.pulled == 47)
        }
    }

    @Test("the order in which a selector or parameters are written makes no difference to the choice")
    func identity() {
        #expect(SourceFilter.selector(["a": 1, "b": ["c": 2, "d": 3]]) == .selector(["b": ["d": 3, "c": 2], "a": 1]))
        #expect(SourceFilter.selector(["a": 1]) != .selector(["a": 2]))
        #expect(SourceFilter.named("x/y", parameters: [("a", "1"), ("b", "2")]) == .named("x/y", parameters: [("b", "2"), ("a", "1")]))
        #expect(SourceFilter.named("x/y", parameters: [("a", "1&b=2")]) != .named("x/y", parameters: [("a", "1"), ("b", "2")]))
    }

    @Test("if the source does not know the filter, the error quotes the source")
    func unknown() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            server.trouble { request, _ in
                request.path == "/db/_changes" ? .error(status: 404, error: "not_found", reason: "missing json key: filters") : nil
            }
            let status = try await pull(a, target, .named("no/such", parameters: []))
            #expect(status.error?.code == 404 && status.error?.message.contains("missing json key: filters") == true, "\(status)")
            // The error must not show parameters, which may be secret, since many people read errors.
            let other = try await pull(try TestDatabase(), target, .named("no/such", parameters: [("key", "hush314")]))
            #expect(other.error?.message.contains("_changes") == true && other.error?.message.contains("hush314") == false, "\(other)")
        }
    }
}
