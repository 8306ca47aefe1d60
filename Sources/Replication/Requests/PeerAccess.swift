// For CouchDBServer: peers that use HTTP requests. The counterpart for Couchbase Lite sessions is Driver/Passive/PassiveService.
import DocumentStore
import Documents
import Interfaces
import Synchronization

/// The channels that the authenticator reported for users, as last recorded in the store. A session records them once; with individual requests, a
/// write for each would cost more than the request.
package final class PeerAccess: Sendable {
    /// `noted_users`: beyond this number, all are recorded again.
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

    /// Records the channels that the authenticator reported for a peer in a collection, unless they are already recorded.
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
