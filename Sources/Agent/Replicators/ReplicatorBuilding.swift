import AgentConfiguration
import Documents
import DocumentStore
import Logging
import NIOCore
import Replication
import Transport

/// Makes replicators from their settings.
enum ReplicatorBuilding {
    static func make(
        _ settings: ReplicatorSettings, database: Database, policies: PolicySource, group: any EventLoopGroup, logger: Logger
    ) throws -> Replicator {
        let target = settings.target.value
        guard target.scheme == .ws else {
            throw ConfigurationProblem(at: settings.target.position, unsupported(target.scheme))
        }
        var collections: [CollectionReplication] = []
        let databaseSettings = policies.settings.database(named: settings.database.value)
        for wanted in settings.collections {
            let name = CollectionName(wanted.collection.value)
            let usedBy = "replicator \(settings.name.value)"
            let resolver = wanted.conflictResolver ?? databaseSettings?.conflictResolver
            var collection = CollectionReplication(
                collection: name,
                pushFilter: try wanted.pushFilter.map { try policies.pushFilter($0, usedBy: "\(usedBy) push_filter") },
                pullFilter: try wanted.pullFilter.map { try policies.pullFilter($0, usedBy: "\(usedBy) pull_filter") },
                resolver: try resolver.map { try policies.resolver($0, usedBy: "\(usedBy) conflict_resolver") })
            if !wanted.documentIDs.isEmpty {
                collection.documentIDs = try wanted.documentIDs.map { id in
                    do { return try DocumentID(id.value) } catch { throw ConfigurationProblem(at: id.position, "\(error)") }
                }
            }
            if !wanted.channels.isEmpty { collection.channels = wanted.channels.map(\.value) }
            collections.append(collection)
        }
        let configuration = ReplicatorConfiguration(
            name: settings.name.value, database: database, target: target.text,
            type: ReplicatorType(rawValue: settings.direction.rawValue) ?? .pushAndPull, isContinuous: settings.continuous,
            collections: collections,
            retry: RetryMachine.Settings(
                maximumAttempts: settings.maxAttempts.value, maximumWaitSeconds: settings.maxAttemptWaitTime.value),
            autoPurge: settings.enableAutoPurge)
        return Replicator(configuration: configuration, connector: try connector(settings, group: group), logger: logger)
    }

    private static func connector(_ settings: ReplicatorSettings, group: any EventLoopGroup) throws -> any TransportConnector {
        var client: WebSocketClient.Configuration
        do { client = WebSocketClient.Configuration(url: try EndpointURL(settings.target.value.text)) } catch {
            throw ConfigurationProblem(at: settings.target.position, "\(error)")
        }
        client.userAgent = "nightjar/\(AgentVersion.number)"
        client.heartbeat = .seconds(Int64(settings.heartbeat.value))
        client.networkInterface = settings.networkInterface?.value
        for header in settings.headers { client.headers.add(header.name.value, header.value.revealed) }
        switch settings.authenticator {
        case .basic(let username, let password):
            client.credentials = .basic(BasicCredentials(username: username.value, password: password.revealed))
            // In clear text a password is sent only when it is asked for.
            client.sendsCredentialsUpFront = false
            client.sessions = SessionCookies()
        case .bearer(let token): client.credentials = .bearer(token.value.revealed)
        case .session(let id, let cookie, _): client.cookies = "\(cookie)=\(id.revealed)"
        case .identity(let identity):
            throw ConfigurationProblem(at: identity.position, "client certificates need TLS, which this version does not speak yet")
        case nil: break
        }
        return WebSocketClient(client, group: group)
    }

    static func unsupported(_ scheme: ReplicatorTarget.Scheme) -> String {
        switch scheme {
        case .wss, .https: "TLS is not available in this version: expected a target beginning with ws://"
        default: "targets beginning with \(scheme.rawValue): are not available in this version: expected ws://HOST[:PORT]/DATABASE"
        }
    }
}

extension CollectionName {
    init(_ reference: CollectionReference) {
        self = (try? CollectionName(parsing: reference.description)) ?? .default
    }
}

/// The version that status and the User-Agent header show.
public enum AgentVersion {
    public static let number = "0.1.0"
}
