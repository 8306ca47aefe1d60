import Documents
import DocumentStore
import Interfaces
import Replication
import TestSupport
import Testing

/// A connection between two Nightjar databases that began before either had versions.
@Suite(.timeLimit(.minutes(5)))
struct VersionRenewalTests {
    private func edit(_ database: TestDatabase) async throws {
        let collection = try database.collection()
        var incoming = IncomingRevision(id: doc("v"), revision: rev("1-aa"), history: RevisionHistory(), body: Array("{}".utf8))
        incoming.vector = try VectorHistory("18e9000000000005@QUxJQ0VBTElDRUFMSUNFQQ", history: "")
        incoming.revision = try RevisionID(named: "18e9000000000005@QUxJQ0VBTElDRUFMSUNFQQ")
        _ = try await database.database.write { [incoming] in try $0.insert(incoming, into: collection, conflicts: .refuse) }
    }

    @Test("it is renewed once when one of them gets versions, and then continues", arguments: [true, false])
    func renewed(atHub: Bool) async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true), hub)
        await replicator.start()
        try await b.put("first", "{}")
        try await a.wait { try await $0.body("first") != nil }
        #expect(hub.connections == 1)
        try await edit(atHub ? b : a)
        try await eventually("it reconnects") { hub.connections == 2 }
        for (from, to, id) in [(a, b, "there"), (b, a, "here")] {
            try await from.put(id, "{}")
            try await to.wait { try await $0.body(id) != nil }
        }
        await replicator.wait { $0.activity == .idle }
        #expect(hub.connections == 2)
        await replicator.stop()
    }

    @Test("a decision between revisions with ids brings no versions, so that the connection is not renewed")
    func decided() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        // By the versions that stand for their ids, our revision is the newer one.
        try await a.insert("d", "2-aa", ["1-aa"], body: #"{"at":"here"}"#)
        try await b.insert("d", "1-bb", body: #"{"at":"there"}"#)
        let hub = Hub(b)
        let resolver = TestResolver { _ in .remote }
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true) { $0.only { $0.resolver = resolver } }, hub)
        await replicator.start()
        try await a.wait { try await $0.body("d") == #"{"at":"there"}"# }
        try await b.put("last", "{}")
        try await a.wait { try await $0.body("last") != nil }
        await replicator.wait { $0.activity == .idle }
        #expect(hub.connections == 1 && !a.database.hasVersions && !b.database.hasVersions)
        await replicator.stop()
    }

    @Test("a peer that used ids continues where it was, first with versions and then with ids again")
    func goesOn() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.fill(0..<5, prefix: "up-")
        try await b.fill(0..<5, prefix: "down-")
        for (round, subprotocol) in [Subprotocol.generation3, .generation4, .generation3].enumerated() {
            let (here, there) = (TestFilter { _, _ in .pass }, TestFilter { _, _ in .pass })
            var configuration = PassiveConfiguration(listener: "hub", database: b.database, subprotocol: subprotocol)
            configuration.pushFilter = there
            try await a.put("here", "{\"round\":\(round)}")
            try await b.put("there", "{\"round\":\(round)}")
            let status = await replicate(a, Hub(configuration, owner: b)) { $0.only { $0.pushFilter = here } }
            #expect(status.error == nil)
            #expect(try await a.contents() == b.contents())
            #expect(here.questions.contains("here") && there.questions.contains("there"))
            // Nothing is looked at again.
            #expect(here.questions.contains { $0.hasPrefix("up-") } == (round == 0), "\(round): \(here.questions)")
            #expect(there.questions.contains { $0.hasPrefix("down-") } == (round == 0), "\(round): \(there.questions)")
        }
    }

    @Test("other connections are left alone, and so is one that began with versions")
    func leftAlone() async throws {
        let (a, b, c) = (try TestDatabase("a"), try TestDatabase("b"), try TestDatabase("c"))
        try await edit(a)
        try await edit(b)
        let hub = Hub(b)
        let peers = Hub(PassiveConfiguration(listener: "hub", database: a.database), owner: a, peersHaveBothNames: false)
        let replicators = [Replicator(ReplicatorConfiguration(a, continuous: true), hub), Replicator(ReplicatorConfiguration(c, continuous: true), peers)]
        for replicator in replicators { await replicator.start() }
        try await c.wait { try await $0.body("v") != nil }
        try await edit(c)
        try await a.put("last", "{}")
        try await b.wait { try await $0.body("last") != nil }
        for replicator in replicators { await replicator.wait { $0.activity == .idle } }
        #expect(hub.connections == 1 && peers.connections == 1)
        for replicator in replicators { await replicator.stop() }
    }
}
