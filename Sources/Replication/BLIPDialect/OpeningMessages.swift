import BLIP
import Documents
import Interfaces
import NIOCore

/// The first messages of the active side: which collections to replicate, and their checkpoints. A peer without collections has only the default one.
extension BLIPDialect {
    mutating func open(_ opening: Opening) {
        if opening.namesNoCollections, opening.isOnlyDefault { return askCheckpoint(opening) }
        let body = JSONValue.object(
            JSONObject([
                JSONObject.Member(key: "checkpoint_ids", value: .array(opening.checkpointIDs.map { .string($0) })),
                JSONObject.Member(key: "collections", value: .array(opening.collections.map { .string($0.wireName) })),
            ]))
        ask(OutgoingRequest(profile: Profile.getCollections, body: .init(bytes: body.serialize())), opening, byName: true)
    }

    private mutating func askCheckpoint(_ opening: Opening) {
        var message = OutgoingRequest(profile: Profile.getCheckpoint)
        message.properties.append(Property.client, opening.checkpointIDs[0])
        ask(message, opening, byName: false)
    }

    private mutating func ask(_ request: OutgoingRequest, _ opening: Opening, byName: Bool) {
        wire?.sent(request)
        guard let token = blip.send(request) else { return opening.done.resume(returning: nil) }
        pending[token] = .opening(opening, byName: byName)
    }

    mutating func accept(_ reply: IncomingReply, _ opening: Opening, byName: Bool) {
        if byName, let error = reply.error, error.domain == "BLIP", error.code == 404 {
            if opening.isOnlyDefault { return askCheckpoint(opening) }
            let names = opening.collections.map(\.description).joined(separator: ", ")
            return opening.fail(
                ReplicationError(
                    domain: .websocket, code: 404, message: "the peer knows no collections, and \(names) was asked for",
                    remedy: "the peer uses an older protocol: leave collections out of this replicator, or bring the peer up to date"))
        }
        do throws(ReplicationError) {
            let checkpoints = try byName ? readCollections(reply, opening) : [readCheckpoint(reply)]
            speak(byName ? .collections : .legacy, collections: checkpoints.count, isOnlyDefault: opening.isOnlyDefault)
            opening.done.resume(returning: .success(checkpoints))
        } catch {
            opening.fail(error)
        }
    }

    private func readCollections(_ reply: IncomingReply, _ opening: Opening) throws(ReplicationError) -> [PeerCheckpoint] {
        if let error = reply.error { throw ReplicationError(reply: error, to: Profile.getCollections) }
        // Before parsing, which is done on the event loop.
        guard reply.body.readableBytes <= limits.maximumCollectionsBytes else {
            throw Self.tooLong(
                "the peer's answer to getCollections has \(reply.body.readableBytes) bytes, max_collections_bytes is \(limits.maximumCollectionsBytes)")
        }
        guard case .array(let items)? = try? JSONValue(parsing: [UInt8](reply.body.readableBytesView)), items.count == opening.collections.count else {
            throw ReplicationError(domain: .blip, code: 400, message: "the peer's answer to getCollections cannot be read")
        }
        let missing = items.indices.filter { items[$0].asObject == nil }.map { opening.collections[$0].description }
        guard missing.isEmpty else {
            let these = missing.count == 1 ? "it" : "them"
            throw ReplicationError(
                domain: .websocket, code: 404, message: "the remote database has no collection \(missing.joined(separator: ", "))",
                remedy: "add \(these) to collections of that database there (on a Nightjar, then nightjar reload), let this login use \(these), or take \(these) "
                    + "out of collections of this replicator")
        }
        var checkpoints: [PeerCheckpoint] = []
        for item in items {
            guard case .object(let object) = item else { continue }
            var checkpoint = PeerCheckpoint(body: object.isEmpty ? nil : item.serialize())
            // LiteCore puts the token under rev, Sync Gateway under _rev.
            for key in ["rev", "_rev"] {
                if case .string(let text)? = object[key] { checkpoint.token = text }
            }
            checkpoints.append(checkpoint)
        }
        return checkpoints
    }

    private func readCheckpoint(_ reply: IncomingReply) throws(ReplicationError) -> PeerCheckpoint {
        if let error = reply.error {
            guard error.code == 404, error.domain == "HTTP" else { throw ReplicationError(reply: error, to: Profile.getCheckpoint) }
            return PeerCheckpoint()
        }
        guard reply.body.readableBytes <= limits.maximumCheckpointBytes else {
            throw Self.tooLong("the checkpoint that the peer keeps has \(reply.body.readableBytes) bytes, max_checkpoint_bytes is \(limits.maximumCheckpointBytes)")
        }
        return PeerCheckpoint(body: [UInt8](reply.body.readableBytesView), token: reply.properties[Property.rev] ?? "")
    }

    /// A peer returns only what this side had it keep, which is short.
    private static func tooLong(_ message: String) -> ReplicationError {
        ReplicationError(domain: .http, code: 413, message: message, remedy: "check what answers at target, and the peer's version")
    }
}
