import BLIP
import Documents
import Interfaces
import Logging
import NIOCore

/// Logs what crosses the wire. It sees only the protocol's messages, never headers or credentials, and message bodies only if the configuration asks
/// for them.
public struct WireLog: Sendable {
    /// For messages: at level debug, and at level trace with their properties.
    private var network: Logger
    /// For documents: at level debug.
    private var sync: Logger
    private let showsBodies: @Sendable () -> Bool

    public init(network: Logger, sync: Logger, showsBodies: @escaping @Sendable () -> Bool) {
        self.network = network
        self.sync = sync
        self.showsBodies = showsBodies
    }

    /// A copy for one connection.
    func with(_ transport: any MessageTransport, _ metadata: Logger.Metadata) -> WireLog {
        var copy = self
        var metadata = metadata
        metadata["peer"] = "\(transport.peerDescription)"
        if let correlation = transport.correlationID { metadata["correlation"] = "\(correlation)" }
        for (key, value) in metadata {
            copy.network[metadataKey: key] = value
            copy.sync[metadataKey: key] = value
        }
        return copy
    }

    func sent(_ request: OutgoingRequest) {
        note("sent \(request.profile)", nil, request.properties, request.body)
    }

    func sent(reply: OutgoingReply, to number: UInt64) {
        note("sent a reply to request \(number)\(reply.error.map { ": \($0)" } ?? "")", nil, reply.properties, reply.body)
    }

    func sentBlob(to number: UInt64) { note("sending a blob as reply to request \(number)", nil, [:], ByteBuffer()) }

    func received(_ request: IncomingRequest) {
        note("received \(request.profile.prefix(40))", request.number, request.properties, request.body)
    }

    func received(reply: IncomingReply, to profile: String) {
        note("received a reply to \(profile)\(reply.error.map { ": \($0)" } ?? "")", nil, reply.properties, reply.body)
    }

    private func note(_ what: @autoclosure () -> String, _ number: UInt64?, _ properties: BLIPProperties, _ body: ByteBuffer) {
        guard network.logLevel <= .debug else { return }
        var metadata: Logger.Metadata = ["bytes": "\(body.readableBytes)"]
        if let number { metadata["request"] = "\(number)" }
        guard network.logLevel <= .trace else { return network.debug("\(what())", metadata: metadata) }
        if !properties.isEmpty {
            let text = properties.pairs.map { "\($0.key): \($0.value)" }.joined(separator: ", ")
            metadata["properties"] = "\(Self.cut(Array(text.utf8), BLIPBounds.loggedPropertyBytes))"
        }
        if body.readableBytes > 0, showsBodies() {
            metadata["body"] = "\(Self.cut(Array(body.readableBytesView.prefix(BLIPBounds.loggedBodyBytes + 1)), BLIPBounds.loggedBodyBytes))"
        }
        network.trace("\(what())", metadata: metadata)
    }

    private static func cut(_ bytes: [UInt8], _ limit: Int) -> String {
        bytes.count > limit ? String(decoding: bytes.prefix(limit), as: UTF8.self) + "…" : String(decoding: bytes, as: UTF8.self)
    }

    /// Logs what happened to a document.
    func note(_ event: DocumentEvent) {
        guard sync.logLevel <= .debug else { return }
        let way = event.direction == .push ? "pushed" : "pulled"
        var metadata: Logger.Metadata = ["collection": "\(event.collection)"]
        if event.isDeleted { metadata["deleted"] = "true" }
        if event.isAccessRemoved { metadata["access_removed"] = "true" }
        sync.debug("\(event.error == nil ? way : "not \(way)") \(event.id)\(event.error.map { ": \($0)" } ?? "")", metadata: metadata)
    }
}

extension SessionRole {
    /// The connection's own wire log, if there is one.
    func wireLog(_ transport: any MessageTransport) -> WireLog? {
        switch self {
        case .active(let active): active.replicator.wireLog?.with(transport, ["replicator": "\(active.replicator.name)"])
        case .passive(let passive): passive.wireLog?.with(transport, ["listener": "\(passive.listener)"])
        }
    }
}

extension BLIPDialect.Pending {
    /// The profile of the request that awaits its reply.
    var profile: String {
        switch self {
        case .opening(_, let byName): byName ? Profile.getCollections : Profile.getCheckpoint
        case .proposals: Profile.proposeChanges
        case .changes: Profile.changes
        case .revision(let trip): "\(Profile.rev) \(trip.id)"
        case .subscription: Profile.subChanges
        case .checkpointSave: Profile.setCheckpoint
        case .checkpointFetch: Profile.getCheckpoint
        case .blob: Profile.getAttachment
        case .proof: Profile.proveAttachment
        }
    }
}
