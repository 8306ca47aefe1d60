import Documents
import TestSupport

extension Attack {
    /// Requests of a few bytes, for whose answers a whole blob has to be read.
    static let proofs: [Attack] = [
        Attack(testDescription: "200 requests to prove a blob of 24 MB, each with a different nonce", prepare: { try await store($0, blob) }) { hub in
            var frames = HandmadeFrames()
            let properties = HandmadeFrames.properties(("Profile", "proveAttachment"), ("digest", BlobDigest.of(blob).text), ("docID", "photo"))
            let bytes = (0..<200).flatMap { WebSocketFrame.binary(frames.request(properties: properties, body: Array("a nonce, \($0)".utf8))) }
            let socket = try await WebSocketProbe.connect(port: try hub.port("edge"), path: "/main/_blipsync")
            return Sent(requests: 200, flows: [socket.pour(bytes)])
        },
    ]

    private static let blob = [UInt8](repeating: 0x5A, count: 24 << 20)

    /// Stores a document with a blob, as if a peer had brought both.
    private static func store(_ hub: AgentProcess, _ blob: [UInt8]) async throws {
        let digest = BlobDigest.of(blob)
        try hub.folder.write("data/main.nightjar/blobs/\(digest.hex)", bytes: blob)
        let saved = try await hub.put(
            "main", "photo", "{\"photo\":{\"@type\":\"blob\",\"digest\":\"\(digest.text)\",\"length\":\(blob.count)}}")
        guard saved.status < 300 else { throw SupportError("the document with a blob was not stored: \(saved)") }
        // Makes sure that a proof is given: if the document were missing, the refusals would cost nothing either.
        let peer = try await Peer.connect(hub)
        let reply = try await peer.ask(.init(profile: "proveAttachment", properties: ["digest": digest.text, "docID": "photo"], body: .init(string: "nonce")))
        if let error = reply.error { throw SupportError("no proof was given: \(error)") }
        try await peer.close()
    }
}
