import BLIP
import Documents
import DocumentStore
import Interfaces
import NIOCore
import Replication
import Synchronization
import Testing

/// A digest in a document is a name, not a right: whoever sends a document proves that it has the blobs, or sends them.
@Suite(.timeLimit(.minutes(10)))
struct BlobProofTests {
    private static let secret = Array("the minutes of the board".utf8)
    private static let digest = BlobDigest.of(secret).text
    private static let body = "{\"photo\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":\(secret.count)}}"
    private static let first = "1-aa00000000000000000000000000000000000001"
    private static let second = "2-aa00000000000000000000000000000000000002"

    /// Which blobs a peer has, and how it answers requests about them.
    private struct Holder: Sendable {
        var blobs: [[UInt8]] = []
        var proves = true
        var sends = true
        /// Whether its proofs are made with another blob.
        var lies = false

        @Sendable func answer(_ request: IncomingRequest) -> OutgoingReply? {
            let held = blobs.first { BlobDigest.of($0).text == request.properties["digest"] }
            switch request.profile {
            case "proveAttachment":
                let nonce = [UInt8](request.body.readableBytesView)
                if lies { return OutgoingReply(json: BlobDigest.of([UInt8(nonce.count)] + nonce).text) }
                guard proves, let held else { return OutgoingReply(error: "BLIP", 404, "no handler for message") }
                return OutgoingReply(json: BlobDigest.of([UInt8(nonce.count)] + nonce + held).text)
            case "getAttachment":
                guard sends, let held else { return OutgoingReply(error: "LiteCore", 7, "No such blob") }
                return OutgoingReply(body: ByteBuffer(bytes: held))
            case "changes": return OutgoingReply(json: "[]")
            default: return OutgoingReply()
            }
        }
    }

    /// The requests that a session has sent to its peer.
    private final class Questions: Sendable {
        private let profiles = Mutex([String]())
        var all: [String] { profiles.withLock { $0.filter { $0.hasSuffix("Attachment") } } }
        func add(_ profile: String) { profiles.withLock { $0.append(profile) } }
    }

    private func peer(_ hub: Hub, _ holder: Holder) async throws -> (Peer, Questions) {
        let questions = Questions()
        let peer = try await Peer(hub) { request in
            questions.add(request.profile)
            return holder.answer(request)
        }
        await peer.begin()
        return (peer, questions)
    }

    private func push(_ peer: Peer, _ id: String, _ body: String = body, _ revision: String = first, _ history: String = "") async -> Int? {
        await peer.ask("rev", [("collection", "0"), ("id", id), ("rev", revision), ("history", history)], body)?.error?.code
    }

    private func hubWithSecret() async throws -> TestDatabase {
        let database = try TestDatabase("hub")
        _ = try await database.blob(Self.secret)
        try await database.put("minutes", Self.body)
        return database
    }

    // MARK: - Peers that push

    @Test(arguments: ["body", "_attachments"])
    func aDigestAloneGivesNothing(_ place: String) async throws {
        let database = try await hubWithSecret()
        let (peer, questions) = try await peer(Hub(database), Holder())
        let body = place == "body" ? Self.body : "{\"_attachments\":{\"x\":{\"digest\":\"\(Self.digest)\",\"length\":24,\"stub\":true,\"revpos\":1}}}"
        #expect(await push(peer, "mine", body) != nil)
        #expect(questions.all == ["proveAttachment", "getAttachment"])
        #expect(try await database.get("mine") == nil)
        // The document is not there, for this peer or for others.
        for other in [peer, try await self.peer(Hub(database), Holder()).0] {
            let reply = await other.ask("getAttachment", [("collection", "0"), ("docID", "mine"), ("digest", Self.digest)])
            #expect(reply?.error?.code == 403)
        }
        // Other documents are accepted.
        #expect(await push(peer, "plain", "{}") == nil)
    }

    @Test func aPeerWithTheBlobProvesItOnce() async throws {
        let database = try await hubWithSecret()
        let (peer, questions) = try await peer(Hub(database), Holder(blobs: [Self.secret]))
        #expect(await push(peer, "mine") == nil)
        #expect(await push(peer, "again") == nil)
        #expect(questions.all == ["proveAttachment"])
        #expect(try await database.body("again") == Self.body)
    }

    @Test func aPeerThatCannotProveItSendsTheBlob() async throws {
        let database = try await hubWithSecret()
        let (peer, questions) = try await peer(Hub(database), Holder(blobs: [Self.secret], proves: false))
        #expect(await push(peer, "mine") == nil)
        #expect(await push(peer, "again") == nil)
        #expect(questions.all == ["proveAttachment", "getAttachment"])
    }

    @Test func afterAWrongProofNoFurtherOneIsRequested() async throws {
        let database = try await hubWithSecret()
        let other = Array("another".utf8)
        let digest = try await database.blob(other)
        let (peer, questions) = try await peer(Hub(database), Holder(blobs: [other], lies: true))
        #expect(await push(peer, "mine") != nil)
        #expect(try await database.get("mine") == nil)
        #expect(await push(peer, "other", "{\"x\":{\"@type\":\"blob\",\"digest\":\"\(digest)\"}}") == nil)
        #expect(questions.all == ["proveAttachment", "getAttachment", "getAttachment"])
    }

    /// Bytes that do not match the digest prove nothing, and do not replace what is here.
    @Test func wrongBytesDoNotReplaceTheStoredBlob() async throws {
        let database = try await hubWithSecret()
        let (peer, _) = try await peer(Hub(database), Holder())
        let liar = try await Peer(Hub(database)) { request in
            request.profile == "getAttachment" ? OutgoingReply(json: "something") : OutgoingReply(error: "HTTP", 404)
        }
        await liar.begin()
        #expect(await push(liar, "mine") == 400)
        let digest = try BlobDigest(Self.digest)
        #expect(try await database.database.blobs.perform { try $0.read(digest) } == Self.secret)
        #expect(await push(peer, "plain", "{}") == nil)
    }

    // MARK: - What the peer may have anyway

    @Test func blobsOfThePreviousRevisionNeedNoProof() async throws {
        let database = try await hubWithSecret()
        let current = try #require(try await database.get("minutes")).revision
        let (peer, questions) = try await peer(Hub(database), Holder())
        #expect(await push(peer, "minutes", Self.body.dropLast() + ",\"read\":true}", Self.second, current.text) == nil)
        #expect(questions.all.isEmpty)
    }

    /// Looking up which blobs a document named means reading it, for which a pusher may only have to send a few bytes.
    @Test func blobsOfALargeDocumentAreProvedAgain() async throws {
        let database = try await hubWithSecret()
        let current = try #require(try await database.get("minutes")).revision
        var configuration = PassiveConfiguration(listener: "hub", database: database.database)
        configuration.limits.knownBlobBytes = Self.body.utf8.count - 1
        let (peer, questions) = try await peer(Hub(configuration), Holder(blobs: [Self.secret]))
        #expect(await push(peer, "minutes", Self.body, Self.second, current.text) == nil)
        #expect(questions.all == ["proveAttachment"])
    }

    /// The peer may write the document but not see it: the blobs that it names are not the peer's.
    @Test(arguments: ["channels", "filter"])
    func blobsOfADocumentThatThePeerCannotSeeHaveToBeProved(_ bound: String) async throws {
        let database = try await hubWithSecret()
        let current = try #require(try await database.get("minutes")).revision
        var configuration = PassiveConfiguration(listener: "hub", database: database.database)
        if bound == "channels" {
            configuration.principal = Principal(name: "ben", channels: ["red"])
        } else {
            configuration.pushFilter = TestFilter { document, _ in document.id == doc("minutes") ? .reject : .pass }
        }
        let (peer, questions) = try await peer(Hub(configuration), Holder())
        #expect(await push(peer, "minutes", Self.body.dropLast() + ",\"mine\":true}", Self.second, current.text) != nil)
        #expect(questions.all == ["getAttachment"])
        #expect(try await database.get("minutes")?.revision == current)
    }

    /// The kind of request would tell the peer whether somebody's document contains these bytes.
    @Test(arguments: ["channels", "filter"])
    func aLimitedPeerIsAskedInTheSameWayWhetherTheBlobIsHereOrNot(_ bound: String) async throws {
        let database = try await hubWithSecret()
        var configuration = PassiveConfiguration(listener: "hub", database: database.database)
        if bound == "channels" {
            configuration.principal = Principal(name: "ben", channels: ["red"])
        } else {
            configuration.pushFilter = TestFilter { document, _ in document.id == doc("minutes") ? .reject : .pass }
        }
        let hub = Hub(configuration)
        var refusals: [Int?] = []
        for blob in [Self.secret, Array("what nobody has sent".utf8)] {
            let digest = BlobDigest.of(blob).text
            let body = "{\"photo\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":\(blob.count)}}"
            let (thief, asked) = try await peer(hub, Holder())
            refusals.append(await push(thief, "mine-\(blob.count)", body))
            #expect(asked.all == ["getAttachment"])
            // A peer that has the blob sends it.
            let (owner, questions) = try await peer(hub, Holder(blobs: [blob]))
            #expect(await push(owner, "mine-\(blob.count)", body) == nil)
            #expect(questions.all == ["getAttachment"])
        }
        #expect(refusals[0] != nil && refusals[0] == refusals[1], "\(refusals)")
    }

    // MARK: - Between agents

    @Test func twoDevicesWithTheSamePhoto() async throws {
        let (a, b, hub) = (try await hubWithSecret(), try await hubWithSecret(), try TestDatabase("hub"))
        try await b.put("copy", Self.body)
        for device in [a, b] {
            let status = await replicate(device, Hub(hub))
            #expect(status.error == nil && status.counts.failed == 0)
        }
        #expect(try await hub.contents() == b.contents())
    }

    /// A remote that we pull from may know the digest of a blob that we have for other reasons.
    @Test func aRemoteGetsNothingByNamingADigest() async throws {
        let device = try await hubWithSecret()
        let listener = listener(Holder())
        let replicator = Replicator(ReplicatorConfiguration(device, .pull, continuous: true), listener)
        await replicator.start()
        let remote = try #require(await subscribed(listener))
        await offer("theirs", remote)
        remote.send(remote.request("changes", [("collection", "0")], "[]", noReply: true))
        #expect(await replicator.wait { $0.activity == .idle }?.counts.held == 1)
        #expect(try await device.get("theirs") == nil)
        // Nor does it get the blob by asking for it, whichever document it names.
        for id in ["theirs", "minutes", nil] {
            let properties = [("collection", "0"), ("digest", Self.digest)] + (id.map { [("docID", $0)] } ?? [])
            for profile in ["getAttachment", "proveAttachment"] {
                let reply = await remote.ask(profile, properties, profile == "getAttachment" ? "" : "a nonce of some bytes")
                #expect(reply?.error?.code == 403, "\(profile) \(id ?? "")")
            }
        }
        await replicator.stop()
    }

    /// A request for a proof would tell it that somebody's document contains these bytes, so that it is asked to send them, whatever is here.
    @Test func aRemoteThatIsNotPushedEverythingHasToSendTheBlob() async throws {
        for isHere in [true, false] {
            let device = isHere ? try await hubWithSecret() : try TestDatabase("device")
            let questions = Questions()
            let status = try await pull(device, listener(Holder(blobs: [Self.secret]), questions), "theirs")
            #expect(status.error == nil && status.counts.pulled == 1)
            #expect(try await device.body("theirs") == Self.body)
            #expect(questions.all == ["getAttachment"])
        }
    }

    /// Another document names a blob that the remote has given before: the blob is not sent again, even on another connection.
    @Test func aRemoteNeedNotSendABlobTwice() async throws {
        let device = try TestDatabase("device")
        #expect(try await pull(device, listener(Holder(blobs: [Self.secret])), "theirs").counts.pulled == 1)
        let questions = Questions()
        let status = try await pull(device, listener(Holder(), questions), "others")
        #expect(status.error == nil && status.counts.pulled == 1)
        #expect(try await device.body("others") == Self.body)
        #expect(questions.all == [])
        // This does not hold for a blob that only a document of our own names.
        let own = try await hubWithSecret()
        #expect(try await pull(own, listener(Holder()), "theirs").counts.held == 1)
    }

    private static let broken = FilterVerdict.failed(PolicyFailure(plugin: "test-filter", version: "1", kind: "plugin_error", message: "broken"))

    /// A blob that was proved before a filter held the document need not be proved again. By then the remote would no longer do so.
    @Test func aHeldDocumentIsReleasedWithoutTheRemote() async throws {
        let device = try await hubWithSecret()
        let filter = TestFilter { _, _ in .pass }
        let holder = Holder(blobs: [Self.secret])
        // The filter breaks after the document has passed, when its blob is requested.
        let remote = FakeListener { request in
            if request.profile.hasSuffix("Attachment") { filter.become("2") { _, _ in Self.broken } }
            return request.profile == "getCollections" ? OutgoingReply(json: "[{}]") : holder.answer(request)
        }
        var status = try await pull(device, remote, "theirs", filter)
        #expect(status.error == nil && status.counts.held >= 1 && status.counts.pulled == 0)
        filter.become("3") { _, _ in .pass }
        status = try await pull(device, listener(Holder()), nil, filter)
        #expect(status.error == nil && status.counts.pulled == 1)
        #expect(try await device.body("theirs") == Self.body)
    }

    /// No blob is requested for a document that a filter cannot decide about, until it can.
    @Test func blobsOfAHeldDocumentAreNotRequested() async throws {
        let device = try TestDatabase("device")
        let filter = TestFilter { _, _ in Self.broken }
        let questions = Questions()
        var status = try await pull(device, listener(Holder(blobs: [Self.secret]), questions), "theirs", filter)
        #expect(status.error == nil && status.counts.held == 1 && questions.all == [])
        filter.become("2") { _, _ in .pass }
        status = try await pull(device, listener(Holder(blobs: [Self.secret]), questions), nil, filter)
        #expect(status.error == nil && status.counts.pulled == 1 && questions.all == ["getAttachment"])
        #expect(filter.questions == ["theirs", "theirs"])
    }

    // MARK: - A listener played by the test

    private func listener(_ holder: Holder, _ questions: Questions = Questions()) -> FakeListener {
        FakeListener { request in
            questions.add(request.profile)
            return request.profile == "getCollections" ? OutgoingReply(json: "[{}]") : holder.answer(request)
        }
    }

    /// Returns the other end once it has asked for changes.
    private func subscribed(_ listener: FakeListener) async -> Peer? {
        for await peer in listener.peers {
            for await request in peer.requests where request.profile == "subChanges" { return peer }
        }
        return nil
    }

    private func offer(_ id: String, _ remote: Peer) async {
        let wish = await remote.ask("changes", [("collection", "0")], "[[1,\"\(id)\",\"\(Self.first)\",0,90]]")
        #expect(wish.map { String(buffer: $0.body) } == "[[]]")
        remote.send(remote.request("rev", [("collection", "0"), ("id", id), ("rev", Self.first), ("sequence", "1")], Self.body))
    }

    private func pull(_ device: TestDatabase, _ listener: FakeListener, _ id: String?, _ filter: TestFilter? = nil) async throws -> ReplicatorStatus {
        let replicator = Replicator(ReplicatorConfiguration(device, .pull) { $0.only { $0.pullFilter = filter } }, listener)
        await replicator.start()
        let remote = try #require(await subscribed(listener))
        if let id { await offer(id, remote) }
        remote.send(remote.request("changes", [("collection", "0")], "[]", noReply: true))
        return await replicator.waitUntilStopped()
    }
}
