import Agent
import AgentConfiguration
import ArgumentParser
import Documents
import DocumentStore
import NIOPosix

/// Where an agent is, or the data folder of one that is not running.
struct LocationOptions: ParsableArguments, Sendable {
    @Option(name: .long, help: ArgumentHelp("The agent's configuration file.", valueName: "file"), completion: .file())
    var config: String?

    @Option(
        name: .long,
        help: ArgumentHelp("The agent's data folder (default: the configuration's, or ./nightjar-data).", valueName: "folder"), completion: .directory)
    var data: String?

    /// The whole configuration, which must be valid.
    func settings() throws -> AgentSettings {
        guard let config else { return AgentSettings.embeddedDefault(data: data, plugins: nil) }
        do { return try AgentSettings.load(path: config, overrides: .init(data: data, plugins: nil)) } catch { throw error.withWayAround(config) }
    }

    /// The same for a command that needs no secret; see ``AgentSettings/readWithoutSecrets(_:_:)``.
    func settingsWithoutSecrets() throws -> AgentSettings {
        guard let config else { return try settings() }
        do { return try AgentSettings.readWithoutSecrets(config, .init(data: data, plugins: nil)) } catch let error as ConfigurationProblems { throw error.withWayAround(config) }
    }

    /// The same, but just enough of it to find the agent and its data folder.
    func place() throws -> AgentSettings {
        guard let config else { return AgentSettings.embeddedDefault(data: data, plugins: nil) }
        return try AgentSettings.place(config, .init(data: data, plugins: nil))
    }

    /// The fleet settings in the configuration; nil if there are none.
    func fleet() throws -> FleetSettings? {
        guard let config else { return nil }
        return try fleetSettings(config).fleet
    }

    private func fleetSettings(_ config: String) throws -> AgentSettings {
        do { return try AgentSettings.fleet(path: config, overrides: .init(data: data, plugins: nil)) } catch { throw error.withWayAround(config) }
    }

    /// This agent's name in its fleet; nil if unknown.
    func fleetID() throws -> String? {
        guard let config else { return nil }
        let settings = try fleetSettings(config)
        return settings.fleet?.id ?? PeerIdentifier.made(data: settings.data.value)
    }

    /// The databases with a collection, as far as the configuration tells, or without one the running agent.
    func databases(with collection: String) async throws -> [String] {
        if let config {
            return try fleetSettings(config).databases
                .filter { $0.collections.contains { $0.value.description == collection } }.map(\.name.value)
        }
        guard let client = try AgentClient.find(try place(), group: MultiThreadedEventLoopGroup.singleton) else { return [] }
        let databases = try await client.request("GET", "/api/status")["databases"]?.asArray ?? []
        return databases.compactMap { database in
            let has = database["collections"]?.asArray?.contains { $0["name"]?.asString == collection } ?? false
            return has ? database["name"]?.asString : nil
        }
    }

    /// The running agent.
    func agent() throws -> AgentClient { try AgentClient.require(try place(), group: MultiThreadedEventLoopGroup.singleton) }

    /// The running agent, also where it runs on another data folder than its file says now.
    func agentAnywhere() throws -> AgentClient {
        let group = MultiThreadedEventLoopGroup.singleton
        // A folder that is named is meant.
        return try data == nil ? AgentClient.requireAnywhere(try place(), group: group) : agent()
    }

    /// Runs with the documents of a collection, and releases a folder's lock afterwards.
    func withDocuments<T>(
        of name: String, absence: DocumentPlace.Absence = .fails, _ work: (DocumentPlace) async throws -> T
    ) async throws -> T {
        let group = MultiThreadedEventLoopGroup.singleton
        let found = try place()
        // For a folder, the configuration's collections and resolvers are needed; an agent has them itself.
        let settings = try AgentClient.find(found, group: group) == nil ? try settings() : found
        if case .creates = absence, let config, try AgentClient.find(found, group: group) == nil { try Self.check(name, config, settings) }
        let place = try await DocumentPlace.find(name, settings: settings, group: group, absence: absence)
        defer { place.close() }
        return try await work(place)
    }

    /// An agent would not open a database that its configuration does not name, so a typing error must not create one.
    private static func check(_ name: String, _ config: String, _ settings: AgentSettings) throws {
        let database = try DocumentAccess.parse(name).database
        guard settings.database(named: database) == nil, !DatabaseFolders.exists("\(settings.data.value)/\(database).nightjar") else { return }
        let hint = NearestName.hint(for: database, among: settings.databases.map(\.name.value), otherwise: "it has")
        throw AgentError(.notFound, "\(config) has no database \"\(database)\"\(hint)")
    }
}

extension DocumentPlace.Absence {
    /// For commands that write.
    ///
    /// - Parameter check: throws if nothing of what is to be stored can be, so that no empty database or collection is left behind.
    static func createsAndReports(check: @escaping DocumentPlace.Check = { _, _, _ in }) -> Self {
        .creates(report: { Output.errorLine("nightjar: \($0)") }, check: check)
    }
}
