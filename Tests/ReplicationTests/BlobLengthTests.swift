import BLIP
import Documents
import DocumentStore
import Interfaces
import NIOCore
import Replication
import Testing

/// Policies decide by the length that a document gives for a blob, before the blob is here: it has to be the true one.
@Suite(.timeLimit(.minutes(10)))
struct BlobLengthTests {
    private static let blob = [UInt8](repeating: 7, count: 300_000)
    private static let digest = BlobDigest.of(blob).text

    /// A peer that has the blob and sends it, or proves that it has it.
    private func peer(_ database: TestDatabase, proves: Bool = false) async throws -> Peer {
        let peer = try await Peer(Hub(database)) { request in
            switch request.profile {
            case "getAttachment": return OutgoingReply(body: ByteBuffer(bytes: Self.blob))
            case "proveAttachment":
                guard proves else { return OutgoingReply(error: "BLIP", 404, "no handler for message") }
                let nonce = [UInt8](request.body.readableBytesView)
                return OutgoingReply(json: BlobDigest.of([UInt8(nonce.count)] + nonce + Self.blob).text)
            case "changes": return OutgoingReply(json: "[]")
            default: return OutgoingReply()
            }
        }
        await peer.begin()
        return peer
    }

    private func push(_ peer: Peer, _ id: String, _ body: String) async -> Int? {
        await peer.ask("rev", [("collection", "0"), ("id", id), ("rev", "1-aa00000000000000000000000000000000000001"), ("history", "")], body)?.error?.code
    }

    private static func inline(_ length: String, more: String = "") -> String { "{\"p\":{\"@type\":\"blob\",\"digest\":\"\(digest)\"\(length.isEmpty ? "" : ",\"length\":\(length)")\(more)}}" }
    private static func attached(_ length: String) -> String { "{\"_attachments\":{\"p\":{\"stub\":true,\"revpos\":1,\"digest\":\"\(digest)\",\"length\":\(length)}}}" }

    @Test(arguments: ["3", "0", "-5", "2.5", "299999", "300001", "1e3"], [true, false])
    func aFalseLengthIsRefused(_ length: String, _ isHere: Bool) async throws {
        let database = try TestDatabase("hub")
        if isHere { _ = try await database.blob(Self.blob) }
        let peer = try await peer(database, proves: isHere)
        #expect(await push(peer, "inline", Self.inline(length)) == 400)
        #expect(await push(peer, "attached", Self.attached(length)) == 400)
        for id in ["inline", "attached"] { #expect(try await database.get(id) == nil) }
        #expect(await push(peer, "true", Self.inline("300000")) == nil)
        #expect(try await database.get("true") != nil)
        // Once it was shown, its true length is still compared.
        #expect(await push(peer, "again", Self.inline(length)) == 400)
    }

    @Test func oneThatIsNotGivenOrIsThatOfDecodedContentIsNotCompared() async throws {
        let database = try TestDatabase("hub")
        let peer = try await peer(database)
        #expect(await push(peer, "without", Self.inline("")) == nil)
        #expect(await push(peer, "null", Self.inline("null")) == nil)
        #expect(await push(peer, "encoded", Self.inline("900000", more: ",\"encoding\":\"gzip\"")) == nil)
    }

    @Test func aBlobThatIsNamedTwiceHasOneLength() async throws {
        let database = try TestDatabase("hub")
        let peer = try await peer(database)
        func twice(_ first: String, _ second: String) -> String { "{\"a\":[\(Self.inline(first)),\(Self.inline(second))]}" }
        #expect(await push(peer, "differ", twice("300000", "3")) == 400)
        #expect(await push(peer, "hidden", twice("", "3")) == 400)
        #expect(await push(peer, "same", twice("300000", "300000")) == nil)
        #expect(await push(peer, "one", twice("", "300000")) == nil)
    }
}
