import DocumentStore
import Documents
import Interfaces
import Logging
import Replication

/// What peers may pull, for operators: a peer without a channel gets nothing, which otherwise nothing tells.
extension PeerListener {
    /// `channels_of_peer`: channels of a peer that are named; any more are only counted.
    static let shownChannels = 5

    /// The channels that a peer may pull, in any of the collections that it may use.
    struct PeerChannels: Sendable {
        /// In ascending order, without the public one.
        var names: [String]
        /// Neither a sync function nor its login limits it, or it has the channel `*` in every collection.
        var isAll: Bool
    }

    /// - Throws: ``StoreError``.
    func channels(of principal: Principal, in database: Database) async throws -> PeerChannels {
        let configuration = passiveConfiguration(database, principal, subprotocol: .generation3)
        guard configuration.channelPeer != nil else { return PeerChannels(names: ["*"], isAll: true) }
        let collections = database.collections.filter { configuration.mayUse($0.name) }
        let each = try await database.read { transaction -> [[String]] in
            try collections.map { try transaction.channels($0, of: principal.name, login: principal.channels ?? [], roles: principal.roles ?? []) }
        }
        let isAll = !each.isEmpty && each.allSatisfy { $0.contains("*") }
        return PeerChannels(names: Set(each.joined().map { ExactName($0) }).map(\.text).sorted(), isAll: isAll)
    }

    /// What helps users of a `password-file` who have no channels.
    package static let channelsRemedy =
        "nightjar user permit USER --channel CHANNEL gives a user channels; or have the sync function grant them with access() or role(), or use an authenticator plugin that "
        + "returns channels"

    /// Says that an authenticated user of a listener with a sync function may pull nothing but what everybody may.
    func noteMissingChannels(_ principal: Principal, in database: Database, _ logger: Logger) async {
        guard policies.syncFunction != nil, let user = principal.name,
            let channels = try? await self.channels(of: principal, in: database), channels.names.isEmpty
        else { return }
        logger.notice(
            """
            user \(user) has no channel in database \(database.name): it pulls only public documents (channel "!"); if it should have more, have the \
            authenticator give it channels or roles, or the sync function with access() or role()
            """, metadata: ["user": "\(user)", "database": "\(database.name)"])
    }

    /// Reports of peers and feeds with the channels of each.
    ///
    /// - Parameter rows: as the status has them.
    func withChannels(_ rows: [JSONValue]) async throws -> [JSONValue] {
        struct Key: Hashable {
            var address: String
            var database: String
            var user: String?
        }
        let connected = state.withLock { $0.connections.values.map { ($0.peer.address, $0.peer.database, $0.principal) } }
        var principals: [Key: Principal] = [:]
        for (address, database, principal) in connected + callers.all.map({ ($0.address, $0.database, $0.principal) }) {
            principals[Key(address: address, database: database, user: principal.name)] = principal
        }
        var result: [JSONValue] = []
        for row in rows {
            let key = Key(address: row["address"]?.asString ?? "", database: row["database"]?.asString ?? "", user: row["user"]?.asString)
            guard var object = row.asObject, let principal = principals[key], let database = databases(key.database),
                let channels = try? await self.channels(of: principal, in: database)
            else {
                // It has gone meanwhile.
                result.append(row)
                continue
            }
            object["channels"] = .array(channels.names.prefix(Self.shownChannels).map { .string($0) })
            object["more_channels"] = JSONOutput.number(max(0, channels.names.count - Self.shownChannels))
            object["all_channels"] = .bool(channels.isAll)
            result.append(.object(object))
        }
        return result
    }
}
