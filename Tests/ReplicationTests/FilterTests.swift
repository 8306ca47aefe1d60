import Documents
import DocumentStore
import Interfaces
import Replication
import Synchronization
import Testing

/// Push and pull filters, on either side of the connection.
@Suite(.timeLimit(.minutes(10)))
struct FilterTests {
    private static func has(_ document: PolicyDocument, _ part: String) -> Bool {
        text(document.body)?.contains(part) == true
    }

    private func exclusions(_ database: TestDatabase, _ target: String = "ws://hub/db") async throws -> [Exclusion] {
        let collection = try database.collection()
        return try await database.database.read { transaction in
            guard let remote = try transaction.existingRemote(for: target) else { return [] }
            return try transaction.exclusions(collection, remote: remote, limit: 1_000)
        }
    }

    @Test func aPushFilterKeepsDocumentsBackUntilItChanges() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        for index in 0..<10 { try await a.put("doc-\(index)", "{\"secret\":\(index % 2 == 0)}") }
        let filter = TestFilter { document, context in
            #expect(context.direction == .push && context.replicator == "test" && context.database == "a")
            return Self.has(document, "true") ? .reject : .pass
        }
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true) { $0.only { $0.pushFilter = filter } }, hub)
        await replicator.start()
        var status = try #require(await replicator.wait { $0.activity == .idle && $0.counts.pushed == 5 })
        #expect(status.counts.rejected == 5 && status.counts.completed == status.counts.total)
        #expect(try await b.count() == 5)
        #expect(try await exclusions(a).count == 5)
        // A document that the filter lets through later, because it was edited, is no longer on the list.
        try await a.put("doc-4", "{\"secret\":false}")
        try await b.wait { try await $0.get("doc-4") != nil }
        filter.become("2") { document, _ in document.id.text == "doc-0" ? .reject : .pass }
        try await b.wait { try await $0.count() == 9 }
        // The last answers may still be on their way while the status is unchanged; what they settle shows in the list of exclusions.
        while try await exclusions(a).map(\.id.text) != ["doc-0"] { try await Task.sleep(for: .milliseconds(2)) }
        status = try #require(await replicator.wait { $0.activity == .idle && $0.counts.completed == $0.counts.total })
        await replicator.stop()
        #expect(try await exclusions(a).map(\.id.text) == ["doc-0"])
        #expect(try await b.get("doc-0") == nil)
        // A new run without the filter transfers the rest.
        await replicate(a, hub)
        #expect(try await b.contents() == a.contents())
        #expect(try await exclusions(a).isEmpty)
    }

    @Test func aFailingPushFilterHoldsDocuments() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await a.fill(0..<6)
        let filter = TestFilter { document, _ in document.id.text == "doc-3" ? .failed(PolicyFailure(plugin: "p", version: "1", kind: "plugin_timeout", message: "p.lua:9: too long")) : .pass }
        let replicator = Replicator(ReplicatorConfiguration(a, .push) { $0.only { $0.pushFilter = filter } }, hub)
        var status = await replicator.run()
        #expect(status.error == nil && status.counts.pushed == 5 && status.counts.held == 1)
        let held = try await replicator.heldDocuments()
        #expect(held.map(\.1.id.text) == ["doc-3"] && held.first?.1.error.contains("p.lua:9") == true && held.first?.1.plugin == "p")
        // Each run asks again about what is held.
        status = await replicator.run()
        #expect(status.counts.held == 1 && status.counts.pushed == 0)
        filter.become("2") { _, _ in .pass }
        status = await replicator.run()
        #expect(status.counts.pushed == 1)
        #expect(try await replicator.heldDocuments().isEmpty)
        #expect(try await b.count() == 6)
    }

    @Test func revisionsThatAPullFilterKeepsBackNeedNoNewPull() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        let large = "{\"secret\":true,\"x\" : \"" + String(repeating: "y", count: 3 << 20) + "\"}"
        try await b.put("large", large)
        var nested = "{\"secret\":true,\"n\":"
        nested += String(repeating: "[", count: 98) + String(repeating: "]", count: 98) + "}"
        try await b.put("nested", nested)
        for index in 0..<10 { try await b.put("doc-\(index)", "{ \"secret\" : \(index % 2 == 0), \"n\": 1.50 }") }
        let filter = TestFilter { document, context in
            #expect(context.direction == .pull)
            return Self.has(document, "true") ? .reject : .pass
        }
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true) { $0.only { $0.pullFilter = filter } }, hub)
        await replicator.start()
        var status = try #require(await replicator.wait { $0.activity == .idle && $0.counts.pulled == 5 })
        #expect(status.counts.rejected == 7 && status.counts.completed == status.counts.total)
        #expect(try await a.count() == 5)
        await replicator.stop()
        // The hub is not asked again: the revisions that wait here are enough.
        let asked = hub.counters.snapshot.pushed
        let again = Replicator(ReplicatorConfiguration(a, continuous: true) { $0.only { $0.pullFilter = filter } }, hub)
        await again.start()
        await again.wait { $0.activity == .idle }
        filter.become("2") { document, _ in document.id.text == "doc-0" ? .reject : .pass }
        try await a.wait { try await $0.count() == 11 }
        status = try #require(await again.wait { $0.activity == .idle && $0.counts.completed == $0.counts.total })
        #expect(status.counts.pulled == 6)
        #expect(hub.counters.snapshot.pushed == asked)
        #expect(try await a.body("large") == large)
        #expect(try await a.body("nested") == nested)
        #expect(try await a.body("doc-2") == "{ \"secret\" : true, \"n\": 1.50 }")
        #expect(try await exclusions(a).map(\.id.text) == ["doc-0"])
        await again.stop()
    }

    @Test func aFailingPullFilterHoldsAndLetsNothingPass() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await b.fill(0..<20)
        let filter = TestFilter { _, _ in .failed(PolicyFailure(plugin: "p", version: "1", kind: "plugin_error", message: "p.lua:1: no")) }
        let replicator = Replicator(ReplicatorConfiguration(a, .pull) { $0.only { $0.pullFilter = filter } }, hub)
        var status = await replicator.run()
        #expect(status.error == nil && status.counts.pulled == 0 && status.counts.held == 20 && status.counts.completed == status.counts.total)
        #expect(try await a.count() == 0)
        #expect(try await replicator.heldDocuments().count == 20)
        // An update of a held document replaces it.
        try await b.put("doc-1", "{\"v\":2}")
        filter.become("2") { _, _ in .pass }
        status = await replicator.run()
        #expect(status.error == nil)
        #expect(try await a.contents() == b.contents())
        #expect(try await replicator.heldDocuments().isEmpty)
    }

    @Test func aListenersPullFilterRefusesWithAStatus() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.put("good", "{}")
        try await a.put("bad", "{\"bad\":1}")
        try await a.put("unclear", "{\"unclear\":1}")
        let filter = TestFilter { document, context in
            #expect(context.listener == "hub" && context.direction == .pull)
            if Self.has(document, "bad") { return .reject }
            return Self.has(document, "unclear") ? .failed(PolicyFailure(plugin: "p", version: "1", kind: "plugin_error", message: "x")) : .pass
        }
        let hub = Hub(PassiveConfiguration(listener: "hub", database: b.database, pullFilter: filter))
        let replicator = Replicator(ReplicatorConfiguration(a), hub)
        var status = await replicator.run()
        #expect(status.error == nil && status.counts.pushed == 1 && status.counts.failed == 2)
        #expect(try await b.count() == 1)
        // Undecided documents come with the next run, and refused ones are offered in every run.
        filter.become("2") { document, _ in Self.has(document, "bad") ? .reject : .pass }
        status = await replicator.run()
        #expect(status.counts.pushed == 1)
        #expect(try await b.get("unclear") != nil)
        #expect(try await b.get("bad") == nil)
        try await a.put("bad", "{\"now\":\"good\"}")
        #expect(await replicator.run().counts.pushed == 1)
        #expect(try await b.count() == 3)
    }

    @Test func aContinuousPushOffersAgainWhatThePeerCouldNotAccept() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.fill(0..<3)
        let filter = TestFilter { _, _ in .failed(PolicyFailure(plugin: "p", version: "1", kind: "plugin_error", message: "x")) }
        let hub = Hub(PassiveConfiguration(listener: "hub", database: b.database, pullFilter: filter))
        let replicator = Replicator(
            ReplicatorConfiguration(a, .push, continuous: true) { $0.limits.deferralSeconds = 0; $0.limits.maximumDeferralSeconds = 0 }, hub)
        await replicator.start()
        await replicator.wait { $0.counts.failed >= 6 }
        filter.become("2") { _, _ in .pass }
        try await b.wait { try await $0.count() == 3 }
        await replicator.stop()
    }

    @Test func aListenersPushFilterLimitsWhatPeersPull() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        for index in 0..<10 { try await b.put("doc-\(index)", "{\"secret\":\(index % 2 == 0)}") }
        let filter = TestFilter { document, _ in Self.has(document, "true") ? .reject : .pass }
        let hub = Hub(PassiveConfiguration(listener: "hub", database: b.database, pushFilter: filter))
        let status = await replicate(a, hub)
        #expect(status.error == nil && status.counts.pulled == 5)
        #expect(try await a.count() == 5)
    }

    /// Otherwise it would be asked again for ever: once the blobs are here, nothing shows that the same filter has been asked before.
    @Test func aFilterWithoutAVersionCannotReplaceADocument() async throws {
        final class Nameless: DocumentFilter {
            let pluginName = "nameless"
            let version = ""
            let changesBodies = true
            let rounds = Mutex(0)

            func evaluate(_ documents: [PolicyDocument], _ context: PolicyContext) async -> [FilterVerdict] {
                let round = rounds.withLock { rounds in
                    rounds += 1
                    return rounds
                }
                return documents.map { document in
                    switch document.id.text {
                    case "passes": .pass
                    case "changes" where round < 50: .replace(document.body)
                    default: .reject
                    }
                }
            }

            func versionChanges() -> AsyncStream<String> { AsyncStream { $0.finish() } }
        }
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let digest = try await b.blob([UInt8](repeating: 7, count: 1_000))
        for id in ["passes", "changes", "stays"] {
            try await b.put(id, "{\"photo\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":1000}}")
        }
        let filter = Nameless()
        let status = await replicate(a, Hub(b)) { $0.only { $0.pullFilter = filter } }
        #expect(status.error == nil && status.counts.pulled == 1 && status.counts.held == 1 && status.counts.rejected == 1, "\(status)")
        #expect(filter.rounds.withLock { $0 } < 10)
        #expect(try await a.count() == 1)
    }

    /// A filter with too few verdicts does not let anything through, and does not stop the rest.
    @Test func aFilterWithTooFewVerdicts() async throws {
        struct Silent: DocumentFilter {
            let pluginName = "silent"
            let version = "1"
            func evaluate(_ documents: [PolicyDocument], _ context: PolicyContext) async -> [FilterVerdict] { [] }
            func versionChanges() -> AsyncStream<String> { AsyncStream { $0.finish() } }
        }
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.fill(0..<5, prefix: "a-")
        try await b.fill(0..<5, prefix: "b-")
        let status = await replicate(a, Hub(b)) {
            $0.only {
                $0.pushFilter = Silent()
                $0.pullFilter = Silent()
            }
        }
        #expect(status.error == nil && status.counts.held == 10 && status.counts.pushed == 0 && status.counts.pulled == 0)
    }
}
