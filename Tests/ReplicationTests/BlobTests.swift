import Documents
import DocumentStore
import Interfaces
import Replication
import Synchronization
import TestRandomness
import TestSupport
import Testing

/// Documents with blobs.
@Suite(.timeLimit(.minutes(10)))
struct BlobTests {
    private func bytes(_ count: Int, _ seed: UInt64) -> [UInt8] {
        var random = SeededGenerator(seed: seed)
        return (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
    }

    private func body(_ digest: String, _ count: Int, type: String = "image/png") -> String {
        "{\"photo\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":\(count),\"content_type\":\"\(type)\"}}"
    }

    private func has(_ database: TestDatabase, _ digest: String) async throws -> Bool {
        let digest = try BlobDigest(digest)
        return try await database.database.blobs.perform { $0.contains(digest) }
    }

    @Test func aMegabyteInEachDirection() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let there = try await a.blob(bytes(1 << 20, 1))
        let back = try await b.blob(bytes(1 << 20, 2))
        let zeros = try await b.blob([UInt8](repeating: 0, count: 3 << 20))
        try await a.put("there", body(there, 1 << 20))
        try await b.put("back", body(back, 1 << 20))
        try await b.put("zeros", body(zeros, 3 << 20, type: "text/plain"))
        let status = await replicate(a, Hub(b))
        #expect(status.error == nil && status.counts.pushed == 1 && status.counts.pulled == 2)
        #expect(status.counts.blobBytesSent == 1 << 20 && status.counts.blobBytesReceived == 4 << 20 && status.blobs.isEmpty)
        #expect(try await has(b, there))
        #expect(try await has(a, back))
        #expect(try await has(a, zeros))
        #expect(try await a.contents() == b.contents())
    }

    /// Only the blobs that were on their way when the connection was cut are sent again; those that had arrived are not.
    @Test func aCutAffectsOnlyTheBlobsUnderWay() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let size = 5 << 20
        var digests: [String] = []
        for seed in 0..<4 { digests.append(try await a.blob(bytes(size, UInt64(seed)))) }
        let members = digests.enumerated().map { "\"b\($0)\":{\"@type\":\"blob\",\"digest\":\"\($1)\",\"length\":\(size)}" }
        try await a.put("film", "{\(members.joined(separator: ","))}")
        // With frames of 16 KiB, 12 of 20 MiB have arrived by then.
        // One at a time: of four at once none might be complete. The next is requested once the one before it is stored.
        var listener = PassiveConfiguration(listener: "hub", database: b.database)
        listener.limits.blobFetches = 1
        let hub = Hub(listener, owner: b) { $0 == 0 ? (.init(cutsAt: 12 << 6), .init()) : (.init(), .init()) }
        let replicator = Replicator(ReplicatorConfiguration(a, .push), hub, environment: JumpingTime().environment)
        let status = await replicator.run()
        #expect(status.error == nil && status.counts.pushed == 1 && hub.connections == 2)
        for digest in digests { #expect(try await has(b, digest)) }
        let sent = replicator.lifetime.bytesSent
        #expect(sent > 20 << 20 && sent < 27 << 20, "\(sent) bytes were sent for 20 MiB; all again would be 32 MiB")
    }

    @Test func manyDocumentsWithBlobs() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        for index in 0..<150 {
            let digest = try await a.blob(bytes(5_000 + index, UInt64(index / 2)))
            try await a.put("doc-\(index)", body(digest, 5_000 + index))
        }
        let status = await replicate(a, Hub(b), .push)
        #expect(status.error == nil && status.counts.pushed == 150)
        let c = try TestDatabase("c")
        #expect(await replicate(c, Hub(b), .pull).counts.pulled == 150)
        #expect(try await c.contents() == a.contents())
    }

    /// There are more documents than are buffered before reading stops, although blobs come over the same connection.
    @Test func blobsGetThroughWhenTheBufferIsFull() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        for index in 0..<60 {
            let digest = try await a.blob(bytes(2_000, UInt64(index)))
            try await a.put("doc-\(index)", body(digest, 2_000).dropLast() + ",\"pad\":\"\(String(repeating: "p", count: 20_000))\"}")
        }
        var configuration = PassiveConfiguration(listener: "hub", database: b.database)
        configuration.limits.bufferedRevisionBytes = 50_000
        configuration.limits.insertionBatch = 5
        let status = await replicate(a, Hub(configuration), .push)
        #expect(status.error == nil && status.counts.pushed == 60)
        #expect(try await b.contents() == a.contents())
    }

    /// Both documents wait for one blob; the one for which it would be requested is purged on the other side, which is never announced.
    @Test("a document that was purged at the remote is no longer held, and holds up no other; with a push filter there or without", arguments: [false, true])
    func purged(_ isFiltered: Bool) async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let digest = try await b.blob(bytes(1_000, 8))
        for id in ["q2", "q3"] { try await b.put(id, body(digest, 1_000)) }
        let filter = isFiltered ? TestFilter { _, _ in .pass } : nil
        let hub = Hub(PassiveConfiguration(listener: "hub", database: b.database, pushFilter: filter), owner: b)
        let first = Replicator(ReplicatorConfiguration(a, .pull) { $0.limits.maximumBlobBytes = 10 }, hub)
        #expect(await first.run().counts.held == 2)
        let collection = try b.collection()
        #expect(try await b.database.write { try $0.purge(collection, doc("q2")) })
        let second = Replicator(ReplicatorConfiguration(a, .pull), hub)
        let status = await second.run()
        #expect(status.error == nil, "\(status)")
        #expect(try await second.heldDocuments().isEmpty)
        #expect(try await a.body("q3") == b.body("q3"))
        // If the blob was first requested for the other document, it has arrived, and this document with it.
        if try await a.get("q2") == nil {
            let told = second.waiting.refusedHere(.default, doc("q2"))
            #expect(told?.error.message.contains("the remote does not offer it any more") == true, "\(String(describing: told))")
        }
        // That is the end of it: nobody asks for it again.
        let connections = hub.connections
        #expect(await second.run().error == nil)
        #expect(hub.connections == connections + 1)
    }

    /// The document is neither stored without its blob nor skipped, and arrives once the blob is there.
    @Test func aBlobThatTheListenerLacks() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let missing = bytes(1_000, 7)
        let digest = BlobDigest.of(missing).text
        try await b.put("with", body(digest, 1_000))
        try await b.put("without", "{}")
        let replicator = Replicator(ReplicatorConfiguration(a, .pull), Hub(b))
        var status = await replicator.run()
        #expect(status.error == nil && status.counts.pulled == 1 && status.counts.held == 1 && status.counts.completed == status.counts.total)
        #expect(try await replicator.heldDocuments().map(\.1.id) == [doc("with")])
        #expect(try await a.get("with") == nil)
        // The listener still has the document when it is requested by name, so that it keeps waiting.
        status = await replicator.run()
        #expect(status.counts.pulled == 0 && status.counts.held == 1 && status.counts.completed == status.counts.total, "\(status)")
        #expect(try await replicator.heldDocuments().map(\.1.id) == [doc("with")])
        #expect(try await b.blob(missing) == digest)
        status = await replicator.run()
        #expect(status.counts.pulled == 1 && status.counts.held == 0)
        #expect(try await replicator.heldDocuments().isEmpty)
        #expect(try await has(a, digest))
    }

    @Test func aBlobThatThePusherLacks() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.put("with", body(BlobDigest.of(bytes(100, 8)).text, 100))
        try await a.put("without", "{}")
        let status = await replicate(a, Hub(b), .push)
        #expect(status.error == nil && status.counts.pushed == 1 && status.counts.held == 1 && status.counts.failed == 0)
        #expect(try await b.count() == 1)
    }

    // MARK: - Refused

    private func isGone(_ database: TestDatabase, _ digest: String) async throws {
        let digest = try BlobDigest(digest)
        try await eventually("the blob of a refused revision is removed") { database.database.blobs.size(digest) == nil }
    }

    /// From a peer that may not write, only documents arrive and no blobs; for what passes, the policy is asked once.
    @Test(arguments: [true, false])
    func blobsOfRefusedDocumentsAreNotSent(_ byFilter: Bool) async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let (alone, taken) = (try await a.blob(bytes(100_000, 1)), try await a.blob(bytes(100_000, 2)))
        func body(_ digest: String, _ more: String = "") -> String { "{\"x\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":100000}\(more)}" }
        try await a.put("refused", body(alone, ",\"no\":\"not here\""))
        try await a.put("taken", body(taken))
        let (filter, sync) = (TestFilter { document, _ in document.id.text == "refused" ? .reject : .pass }, TestSync())
        let hub = Hub(
            PassiveConfiguration(
                listener: "hub", database: b.database, pullFilter: byFilter ? filter : nil, syncFunction: byFilter ? nil : sync), owner: b)
        let status = await replicate(a, hub, .push)
        #expect(status.counts.pushed == 1 && status.counts.blobBytesSent == 100_000, "\(status)")
        #expect(try await !has(b, alone))
        #expect(try await has(b, taken))
        // A peer whose document is forbidden offers it once more.
        #expect((byFilter ? filter.questions : sync.questions).sorted() == ["refused", "refused", "taken"])
    }

    /// A version that comes into force while blobs arrive has the last word, and the blobs of what it refuses are removed.
    @Test func anotherVersionHasTheLastWord() async throws {
        let b = try TestDatabase("b")
        let photo = bytes(100_000, 6)
        let filter = TestFilter { _, _ in .pass }
        let hub = Hub(PassiveConfiguration(listener: "hub", database: b.database, pullFilter: filter), owner: b)
        let pusher = try await PhotoPusher(photo, to: hub) { filter.become("2") { _, _ in .reject } }
        #expect(await pusher.push() == 403)
        #expect(filter.questions == ["photo", "photo"])
        #expect(try await b.get("photo") == nil)
        try await isGone(b, BlobDigest.of(photo).text)
    }

    @Test func theSyncFunctionHasTheLastWord() async throws {
        let b = try TestDatabase("b")
        let photo = bytes(100_000, 7)
        let sync = TestSync { _, _ in .accepted(SyncAssignment()) }
        let hub = Hub(PassiveConfiguration(listener: "hub", database: b.database, syncFunction: sync), owner: b)
        let pusher = try await PhotoPusher(photo, to: hub) { sync.become("2") { _, _ in .rejected(reason: "no more") } }
        #expect(await pusher.push() == 403)
        #expect(sync.questions == ["photo", "photo"])
        try await isGone(b, BlobDigest.of(photo).text)
    }

    @Test func rejectedDocumentsLeaveNoBlobs() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let digest = try await b.blob(bytes(100_000, 3))
        try await b.put("x", body(digest, 100_000))
        let filter = TestFilter { _, _ in .reject }
        let replicator = Replicator(ReplicatorConfiguration(a, .pull) { $0.only { $0.pullFilter = filter } }, Hub(b))
        var status = await replicator.run()
        #expect(status.error == nil && status.counts.rejected == 1 && status.counts.blobBytesReceived == 0, "\(status)")
        #expect(try await !has(a, digest))
        // Another version lets it pass, and the blob is sent once more.
        filter.become("2") { _, _ in .pass }
        status = await replicator.run()
        #expect(status.error == nil && status.counts.pulled == 1, "\(status)")
        #expect(try await has(a, digest))
        #expect(try await a.contents() == b.contents())
    }

    /// A broken plugin may be fixed soon: the peer tries again, and has not sent any blobs for nothing.
    @Test func blobsOfUndecidedDocumentsAreNotSent() async throws {
        let b = try TestDatabase("b")
        let photo = bytes(100_000, 4)
        let filter = TestFilter { _, _ in .failed(PolicyFailure(plugin: "test-filter", version: "1", kind: "plugin_error", message: "broken")) }
        let asked = Mutex(0)
        let hub = Hub(PassiveConfiguration(listener: "hub", database: b.database, pullFilter: filter), owner: b)
        let pusher = try await PhotoPusher(photo, to: hub) { asked.withLock { $0 += 1 } }
        #expect(await pusher.push() == 503)
        #expect(asked.withLock { $0 } == 0)
        filter.become("2") { _, _ in .pass }
        #expect(await pusher.push() == nil)
        #expect(asked.withLock { $0 } == 1 && filter.questions.count == 2)
        #expect(try await b.get("photo") != nil)
    }

    /// The plugin breaks while the blob arrives, and the blob stays here for the next attempt.
    @Test func aPostponedDocumentKeepsItsBlobs() async throws {
        let b = try TestDatabase("b")
        let photo = bytes(100_000, 4)
        let filter = TestFilter { _, _ in .pass }
        let hub = Hub(PassiveConfiguration(listener: "hub", database: b.database, pullFilter: filter), owner: b)
        let isFirst = Mutex(true)
        let pusher = try await PhotoPusher(photo, to: hub) {
            guard isFirst.withLock({ $0 }) else { return }
            isFirst.withLock { $0 = false }
            filter.become("2") { _, _ in .failed(PolicyFailure(plugin: "test-filter", version: "2", kind: "plugin_error", message: "broken")) }
        }
        #expect(await pusher.push() == 503)
        #expect(try await has(b, BlobDigest.of(photo).text))
        filter.become("3") { _, _ in .pass }
        #expect(await pusher.push() == nil)
        #expect(try await b.get("photo") != nil)
    }
}
