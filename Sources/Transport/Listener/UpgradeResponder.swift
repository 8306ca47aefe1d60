import Encodings
import HTTPServer
import Interfaces
import Logging
import NIOCore

/// Answers the requests to a ``WebSocketListener``: replication connections become WebSockets, all others go to the delegate.
struct UpgradeResponder: Sendable {
    let configuration: WebSocketListener.Configuration
    let delegate: any ListenerDelegate
    let places: WebSocketPlaces
    let logger: Logger

    /// - Throws: ``HTTPError`` when an upgrade is refused.
    func respond(to request: HTTPRequest) async throws -> HTTPResponse {
        guard let database = RequestTarget.replicationDatabase(path: request.path) else { return try await delegate.respond(to: request) }
        return try await upgrade(request, database)
    }

    private func upgrade(_ request: HTTPRequest, _ databaseBytes: Substring.UTF8View) async throws -> HTTPResponse {
        let offer: WebSocketHandshake.Offer
        switch WebSocketHandshake.check(method: request.method, headers: request.headers, speaking: configuration.protocols) {
        case .success(let checked): offer = checked
        case .failure(let refusal):
            if let protocols = refusal.unknownProtocols {
                logger.warning(
                    "a peer was turned away: none of the protocols that it offers is supported here",
                    metadata: [
                        "peer": "\(request.connection.remoteAddress)", "offered": "\(protocols.joined(separator: ", "))",
                        "spoken": "\(configuration.protocols.joined(separator: ", "))",
                    ])
            }
            throw refused(refusal.status, refusal.reason, refusal.headers)
        }
        guard let database = PercentEncoding.decode(databaseBytes), !database.isEmpty else {
            throw refused(400, "the path names no database: \(request.path)")
        }
        guard request.body.isEmpty else { throw refused(400, "an upgrade request has no body") }
        guard !places.isStopping else { throw refused(503, "the listener is stopping") }
        guard let place = places.reserve() else {
            let limit = NamedLimit("max_connections", configuration.limits.maxConnections)
            configuration.refused(limit, request.connection.origin)
            throw refused(503, "the listener carries as many connections as \(limit.name) (\(limit.value)) allows")
        }
        let upgradeRequest = UpgradeRequest(
            database: database, path: request.path, query: request.query, headers: request.headers,
            remoteAddress: request.connection.remoteAddress, origin: request.connection.origin,
            offeredProtocols: offer.offeredProtocols, selectedProtocol: offer.selectedProtocol, basicCredentials: request.basicCredentials,
            securePeer: request.securePeer)
        let decision = await delegate.authorize(upgradeRequest)
        switch decision {
        case .refuse(let status, let reason, let headers):
            place.relinquish()
            throw refused(status, reason, headers)
        case .accept(let chosen, let context):
            let protocolName = chosen ?? offer.selectedProtocol
            guard offer.offeredProtocols.contains(where: { $0.utf8.elementsEqual(protocolName.utf8) }) else {
                place.relinquish()
                logger.error("the delegate chose a protocol that was not offered", metadata: ["protocol": "\(protocolName)"])
                throw refused(500, "internal error in the choice of the protocol")
            }
            return .upgrade(takeover(upgradeRequest, accept: offer.accept, protocolName: protocolName, place, context))
        }
    }

    private func takeover(
        _ request: UpgradeRequest, accept: String, protocolName: String, _ place: WebSocketPlaces.Place, _ context: (any Sendable)?
    ) -> ProtocolUpgrade {
        let correlation = CorrelationID.accepted(request.headers.first(CorrelationID.header)) ?? configuration.newCorrelationID?()
        let peerHasBothNames = request.headers.first(Subprotocol.versionsHeader) != nil
        return ProtocolUpgrade(
            response: ByteBuffer(
                string: WebSocketHandshake.switchingProtocols(
                    accept: accept, protocolName: protocolName, correlationID: correlation, saysBothNames: peerHasBothNames)),
            takeOver: { channel in
                let connection = WebSocketConnection(
                    side: .server, channel: channel, protocolName: protocolName, peerDescription: request.remoteAddress,
                    securePeer: request.securePeer, correlationID: correlation, peerHasBothNames: peerHasBothNames, heartbeat: configuration.heartbeat,
                    limits: configuration.limits,
                    onEnd: { _ in place.relinquish() })
                guard place.hold(connection) else { throw HTTPError(503, "the listener is stopping") }
                return ProtocolUpgrade.Takeover(handler: connection) {
                    connection.begin()
                    delegate.accepted(connection, request: request, context: context)
                }
            },
            abandoned: { place.relinquish() })
    }

    /// A refused upgrade ends its connection.
    private func refused(_ status: Int, _ reason: String, _ headers: HeaderList = [:]) -> HTTPError {
        var headers = headers
        headers.set("Connection", "close")
        return HTTPError(status, reason, headers: headers)
    }
}

extension HTTPRequest {
    /// User and password in `Authorization: Basic`.
    package var basicCredentials: BasicCredentials? { WebSocketHandshake.basicCredentials(headers) }
    /// The token in `Authorization: Bearer`.
    package var bearerToken: String? { WebSocketHandshake.bearerToken(headers) }
    /// The identity established by the secure layer; nil without one.
    package var securePeer: SecurePeer? { connection.identity as? SecurePeer }
}

extension SecurePeer: PeerIdentity {}
