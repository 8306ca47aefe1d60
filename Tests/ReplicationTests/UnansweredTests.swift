import BLIP
import Environment
import HTTPServer
import Interfaces
import NIOCore
import Replication
import Synchronization
import TestSupport
import Testing
import Transport

/// A replicator knows since when its peer has kept it waiting, until the peer answers.
@Suite(.timeLimit(.minutes(10)))
struct UnansweredTests {
    /// A wall clock that a test moves; the other clock is this machine's.
    private final class MovedTime: TimeSource {
        private let now = Mutex<Int64>(1_000_000)
        var environment: Environment { Environment(time: self, random: WithoutJitter()) }
        func move(_ seconds: Int64) { now.withLock { $0 += seconds } }
        func wallSeconds() -> Int64 { now.withLock { $0 } }
        func monotonicNanoseconds() -> UInt64 { SystemTime().monotonicNanoseconds() }
        func sleep(nanoseconds: UInt64) async throws { try await SystemTime().sleep(nanoseconds: nanoseconds) }
    }

    /// Holds up an answer until it is opened, once.
    private final class Gate: Sendable {
        private let state = Mutex(false)
        func open() { state.withLock { $0 = true } }
        /// Whether it was open; closes it again.
        func passes() -> Bool {
            state.withLock { isOpen in
                defer { isOpen = false }
                return isOpen
            }
        }
    }

    private static let place = [("collection", "0")]

    /// Waits until the peer owes something, and returns since when.
    private func debt(of replicator: Replicator) async throws -> Int64 {
        try await eventually("the peer owes something") { await replicator.unansweredSince() }
    }

    private func expectNone(_ replicator: Replicator) async throws {
        try await eventually("the peer owes nothing") { await replicator.unansweredSince() == nil }
    }

    @Test("an answer, the first list of a backlog and a requested revision are each owed until they arrive")
    func messages() async throws {
        let a = try TestDatabase("a")
        let time = MovedTime()
        let listener = FakeListener { $0.profile == "getCollections" ? nil : OutgoingReply() }
        let replicator = Replicator(ReplicatorConfiguration(a, .pull, continuous: true), listener, environment: time.environment)
        await replicator.start()
        for await peer in listener.peers {
            for await request in peer.requests where request.profile == "getCollections" {
                let since = try await debt(of: replicator)
                time.move(100)
                #expect(await replicator.unansweredSince() == since)
                peer.reply(to: request.number, OutgoingReply(json: "[{}]"))
                break
            }
            for await request in peer.requests where request.profile == "subChanges" { break }
            // The answer to that request is not a list.
            try await eventually("the backlog is owed") { await replicator.unansweredSince() == time.wallSeconds() }
            time.move(100)
            _ = await peer.ask("changes", Self.place, #"[[1,"a","1-aa"],[2,"b","1-bb"]]"#)
            #expect(await peer.ask("changes", Self.place, "null")?.error == nil)
            #expect(await peer.ask("rev", Self.place + [("id", "a"), ("rev", "1-aa"), ("sequence", "1")], "{}")?.error == nil)
            #expect(try await a.count() == 1)
            let since = try await debt(of: replicator)
            // Lists that nobody waits for do not settle anything.
            time.move(100)
            for _ in 0..<3 { #expect(await peer.ask("changes", Self.place, "[]")?.error == nil) }
            #expect(await replicator.unansweredSince() == since)
            #expect(await peer.ask("rev", Self.place + [("id", "b"), ("rev", "1-bb"), ("sequence", "2")], "{}")?.error == nil)
            #expect(await replicator.wait { $0.activity == .idle } != nil)
            #expect(await replicator.unansweredSince() == nil)
            break
        }
        await replicator.stop()
    }

    @Test("a _changes that sends only spaces and a _bulk_get that hangs are owed until they are answered; a feed without news is not")
    func requests() async throws {
        let a = try TestDatabase("a")
        let time = MovedTime()
        try await CouchServer.with { server, target in
            let gate = Gate()
            server.change { $0.edit("doc", "{}") }
            let troubled = Mutex<Set<String>>([])
            server.trouble { request, _ in
                let isFirst = troubled.withLock { $0.insert(request.path).inserted }
                guard isFirst, ["/db/_changes", "/db/_bulk_get"].contains(request.path) else { return nil }
                return HTTPResponse(status: 503, headers: ["Retry-After": "0"], body: .stream { writer in
                    while !gate.passes() {
                        try await writer.write(ByteBuffer(string: " "))
                        try await Task.sleep(for: .milliseconds(10))
                    }
                })
            }
            let replicator = Replicator(
                ReplicatorConfiguration(a, to: target, .pull, continuous: true), try DatabaseClient(target), environment: time.environment)
            await replicator.start()
            for path in ["/db/_changes", "/db/_bulk_get"] {
                try await eventually("\(path) is requested") { troubled.withLock { $0.contains(path) } }
                try await eventually("the answer is owed") { await replicator.unansweredSince() == time.wallSeconds() }
                let since = try await debt(of: replicator)
                time.move(100)
                #expect(await replicator.unansweredSince() == since)
                gate.open()
                try await eventually("the request is answered") { await replicator.unansweredSince() != since }
            }
            #expect(await replicator.wait { $0.activity == .idle } != nil)
            try await expectNone(replicator)
            time.move(100)
            try await expectNone(replicator)
            #expect(try await a.count() == 1)
            await replicator.stop()
        }
    }
}
