import BLIP
import Documents
import DocumentStore
import NIOCore
import Replication
import Synchronization
import TestRandomness
import Testing
import Transport

/// Whole sessions of well-framed nonsense: whatever a peer says, the worst that may happen is that its own session is closed, and
/// other peers must not be disturbed. The seed is printed with each failure.
@Suite(.timeLimit(.minutes(10)))
struct SessionFuzzTests {
    /// Makes requests that are right, nearly right or completely wrong.
    private struct Nonsense {
        var random: SeededGenerator

        private let profiles = [
            "getCollections", "getCheckpoint", "setCheckpoint", "subChanges", "unsubChanges", "changes", "proposeChanges", "rev", "rev", "rev", "norev",
            "getAttachment", "proveAttachment", "getRev", "", "x",
        ]
        private let keys = [
            "collection", "client", "rev", "since", "continuous", "batch", "activeOnly", "filter", "channels", "versioning", "future", "id", "sequence", "history",
            "deleted", "noconflicts", "deltaSrc", "error", "reason", "conflictIncludesRev", "digest", "docID", "compress", "Error-Code", "Profile",
        ]
        private let values = [
            "", "0", "1", "-1", "true", "false", "7", "99999999999999999999", "\"3::9\"", "cp-x", "1-cc", "doc-1", "doc-2", "_x", "1-aa", "2-bb", "3-cc,2-bb,1-aa",
            "1-aa,2-bb", "zz", "null", "[]", "{}", "\u{FFFD}\u{1F600}", "rev-trees", "version-vectors", "sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA=", "nonsense", "\n\t\u{1}",
        ]
        private let bodies = [
            "", "null", "[]", "{}", "[1]", "[[]]", "{\"a\":1}", "nonsense", "{\"docIDs\":[\"doc-1\",7]}", "[[1,\"doc-1\",\"1-aa\"]]", "[[\"doc-1\",\"1-aa\"]]",
            "[[\"doc-1\",\"2-bb\",\"1-aa\"],[\"doc-2\",\"1-aa\",null,5],7,null]", "[[1,\"doc-1\",\"1-aa\",4],[2,\"doc-2\",\"2-bb\",true,77],[\"3::9\",\"\",\"1-aa\"]]",
            "{\"_removed\":true}", "{\"_id\":1,\"_deleted\":true,\"_attachments\":{\"blob_/a\":7,\"x\":{\"digest\":\"sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA=\"}}}",
            "{\"b\":{\"@type\":\"blob\",\"digest\":\"sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA=\",\"length\":-1}}", "{\"b\":{\"@type\":\"blob\",\"digest\":7}}",
            "{\"checkpoint_ids\":[\"a\"],\"collections\":[\"_default\"]}", "[0,409,{\"status\":409,\"rev\":\"1-aa\"},304,null,\"x\"]", "[{},null]", "[{\"rev\":7,\"local\":\"x\"}]",
        ]

        mutating func pick<T>(_ list: [T]) -> T { list[Int.random(in: 0..<list.count, using: &random)] }

        mutating func body() -> ByteBuffer {
            switch Int.random(in: 0..<20, using: &random) {
            case 0: return ByteBuffer(bytes: (0..<Int.random(in: 0..<300, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) })
            case 1: return ByteBuffer(string: String(repeating: "[", count: Int.random(in: 0..<500, using: &random)))
            case 2:
                var bytes = Array(pick(bodies).utf8)
                if !bytes.isEmpty { bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random) }
                return ByteBuffer(bytes: bytes)
            default: return ByteBuffer(string: pick(bodies))
            }
        }

        mutating func properties(_ usual: [(String, String)]) -> BLIPProperties {
            var properties = BLIPProperties()
            for (key, value) in usual where Int.random(in: 0..<12, using: &random) != 0 { properties.append(key, value) }
            for _ in 0..<Int.random(in: 0..<4, using: &random) { properties.append(pick(keys), pick(values)) }
            return properties
        }

        mutating func request() -> OutgoingRequest {
            let profile = pick(profiles)
            var usual = [("collection", "0")]
            switch profile {
            case "rev", "norev":
                usual += [("id", "doc-\(Int.random(in: 0..<9, using: &random))"), ("rev", pick(["1-aa", "1-bb", "2-aa", "2-bb", "3-cc"])), ("sequence", pick(["1", "2", "\"3::9\""]))]
                if Bool.random(using: &random) { usual.append(("history", pick(["1-aa", "2-bb,1-aa", "1-bb"]))) }
            case "getCheckpoint", "setCheckpoint": usual += [("client", "cp-x"), ("rev", pick(["", "1-cc", "2-cc"]))]
            case "getAttachment", "proveAttachment": usual += [("digest", "sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA=")]
            default: break
            }
            return OutgoingRequest(
                profile: profile, properties: properties(usual), body: body(), isCompressed: Bool.random(using: &random),
                isUrgent: Int.random(in: 0..<5, using: &random) == 0, isNoReply: Int.random(in: 0..<8, using: &random) == 0)
        }

        mutating func reply() -> OutgoingReply {
            if Int.random(in: 0..<6, using: &random) == 0 {
                return OutgoingReply(error: pick(["HTTP", "BLIP", "LiteCore", "", "WebSocket"]), pick([0, 400, 403, 404, 409, 422, 500, 503, -1]), pick(values))
            }
            return OutgoingReply(properties: properties([("maxHistory", "50"), ("blobs", "true"), ("rev", "1-cc")]), body: body(), isCompressed: Bool.random(using: &random))
        }
    }

    @Test(arguments: UInt64(100)..<140)
    func aPassiveSession(_ seed: UInt64) async throws {
        let database = try TestDatabase("b")
        try await database.fill(0..<5)
        let hub = Hub(database)
        var nonsense = Nonsense(random: SeededGenerator(seed: seed))
        let replies = Locked(Nonsense(random: SeededGenerator(seed: seed &+ 1)))
        let peer = try await Peer(hub) { _ in replies.with { $0.reply() } }
        if seed % 4 != 0 { await peer.begin() }
        for _ in 0..<300 { peer.send(nonsense.request()) }
        // Once this is answered, everything before it has been processed, or else the connection was closed.
        _ = await peer.ask("getCheckpoint", [("client", "last")])
        // Other peers do not notice anything.
        let other = try TestDatabase("a")
        try await other.put("other", "{\"fine\":true}")
        let status = await replicate(other, hub)
        #expect(status.error == nil, "seed \(seed)")
        #expect(try await database.body("other") == "{\"fine\":true}", "seed \(seed)")
        peer.close()
        for await _ in peer.end { break }
        for line in try await database.contents() { #expect(line.contains("{"), "seed \(seed)") }
    }

    @Test(arguments: UInt64(200)..<240)
    func anActiveSession(_ seed: UInt64) async throws {
        let database = try TestDatabase("a")
        try await database.fill(0..<30)
        let state = Locked(Nonsense(random: SeededGenerator(seed: seed)))
        let listener = FakeListener { request in
            state.with { nonsense in
                // Mostly right, because otherwise the session would end at once.
                if request.profile == "getCollections", Int.random(in: 0..<10, using: &nonsense.random) != 0 { return OutgoingReply(json: "[{}]") }
                if request.profile == "subChanges", Int.random(in: 0..<5, using: &nonsense.random) != 0 { return OutgoingReply() }
                return nonsense.reply()
            }
        }
        let replicator = Replicator(ReplicatorConfiguration(database, continuous: true) { $0.retry = .init(maximumAttempts: 1) }, listener)
        await replicator.start()
        for await peer in listener.peers {
            for _ in 0..<200 { peer.send(state.with { $0.request() }) }
            _ = await peer.ask("getCheckpoint", [("client", "last")])
            peer.close(4002)
            for await _ in peer.end { break }
            break
        }
        await replicator.stop()
        let counts = replicator.rawCounts
        #expect(counts.completed <= counts.total, "seed \(seed): \(counts)")
        // What was here is still here: it can only be changed by revisions that fit.
        #expect(try await database.contents().count >= 30, "seed \(seed)")
    }
}

/// State shared with a closure.
final class Locked<State: Sendable>: Sendable {
    private let state: Mutex<State>
    init(_ state: State) { self.state = Mutex(state) }
    func with<R: Sendable>(_ body: (inout State) -> R) -> R { state.withLock { body(&$0) } }
}
