import BLIP
import Documents
import NIOCore

@testable import Replication

/// A peer that pushes one document with a photo to a listener, as often as it is told to.
struct PhotoPusher {
    let peer: Peer
    private let body: String

    init(_ bytes: [UInt8], to database: TestDatabase) async throws { try await self.init(bytes, to: Hub(database)) }

    /// - Parameter isAsked: called when the listener asks for the photo.
    init(_ bytes: [UInt8], to hub: Hub, isAsked: @escaping @Sendable () -> Void = {}) async throws {
        body = "{\"photo\":{\"@type\":\"blob\",\"digest\":\"\(BlobDigest.of(bytes).text)\",\"length\":\(bytes.count)}}"
        peer = try await Peer(hub) { request in
            guard request.profile == "getAttachment" else { return OutgoingReply() }
            isAsked()
            return OutgoingReply(body: ByteBuffer(bytes: bytes))
        }
        await peer.begin()
    }

    /// - Returns: the error code, or nil if it was accepted.
    func push() async -> Int? {
        await peer.ask("rev", [("collection", "0"), ("id", "photo"), ("rev", "1-aa"), ("history", "")], body)?.error?.code
    }
}
