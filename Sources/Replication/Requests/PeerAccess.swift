// For CouchDBServer: peers that speak in requests. A session of Couchbase Lite has Driver/Passive/PassiveService.
import DocumentStore
import Documents
import Interfaces
import Synchronization

/// What the authenticator said of users' channels, as it was last noted in the store. A session notes it once; requests come one by one, and
/// a write for each would cost more than the request.
package final class PeerAccess: Sendable {
    /// `noted_users`: beyond, all are noted anew.
    private static let limit = 10_000

    private struct Key: Hashable {
        var database: String
        var collection: Int
        var peer: ChannelPeer
    }

    private struct Said: Equatable {
        var channels: [String]
        var roles: [String]
    }

    private let noted = Mutex<[Key: Said]>([:])

    package init() {}

    /// Notes what the authenticator said of a peer's channels in a collection, unless that is known.
    package func note(_ configuration: PassiveConfiguration, _ collection: Collection) async throws {
        guard let peer = configuration.channelPeer else { return }
        let key = Key(database: configuration.database.name, collection: collection.id, peer: peer)
        let said = Said(channels: configuration.principal.channels ?? [], roles: configuration.principal.roles ?? [])
        if noted.withLock({ $0[key] }) == said { return }
        try await configuration.database.write {
            try $0.setAccess(of: peer, collection, channels: said.channels, roles: said.roles)
        }
        noted.withLock { noted in
            if noted.count >= Self.limit { noted = [:] }
            noted[key] = said
        }
    }
}
