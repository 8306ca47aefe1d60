import Discovery
import Interfaces
import NIOCore
import Transport

/// Looks a listener up by its announced name for each connection, because its address may change.
package struct DiscoveryConnector: TransportConnector {
    let name: String
    let client: DiscoveredClient
    let group: any EventLoopGroup


    package func connect() async throws -> any MessageTransport {
        let service: FoundService
        do throws(DiscoveryError) { service = try await ServiceLookup.find(name, group: group) } catch {
            try Task.checkCancellation()
            throw ReplicationError(network: .unknownHost, message: "discover:\(name): \(error); \(error.remedy)")
        }
        return try await client.connect(to: service)
    }
}

/// Connects to a listener that was found on the local network.
struct DiscoveredClient: Sendable {
    /// The remote database; nil if the listener has only one.
    let database: String?
    let usesTLS: Bool
    /// Its URL is a placeholder.
    var client: WebSocketClient.Configuration
    /// Creates a client like the configured one for another address.
    let makeClient: @Sendable (WebSocketClient.Configuration) -> WebSocketClient

    func connect(to service: FoundService) async throws -> any MessageTransport {
        let path = try remoteDatabase(service)
        // An announcement must not decide about encryption: a stranger could announce a listener without TLS.
        guard service.text.usesTLS == usesTLS else {
            let words = usesTLS ? "clear text, and the target asks for TLS (tls=off takes clear text)" : "TLS, and the target says tls=off"
            throw ReplicationError(network: .unknownHost, message: "discover:\(service.name): \(service.host) announces \(words)")
        }
        var failure: (any Error)?
        for address in service.addresses {
            var place = client
            place.url.host = address
            place.url.port = service.port
            place.url.path = "/\(path)"
            do { return try await makeClient(place).connect() } catch let error as ReplicationError where error.domain == .network { failure = error }
        }
        throw failure ?? ReplicationError(network: .unknownHost, message: "discover:\(service.name): \(service.host) has no address")
    }

    private func remoteDatabase(_ service: FoundService) throws -> String {
        if let database { return database }
        guard service.text.databases.count == 1, let only = service.text.databases.first else {
            let names = service.text.databases.joined(separator: ", ")
            throw ReplicationError(
                network: .invalidURL,
                message: "discover:\(service.name) has \(names.isEmpty ? "no database that it names" : "the databases \(names)"): "
                    + "name one with database=NAME behind the question mark of the target")
        }
        return only
    }
}
