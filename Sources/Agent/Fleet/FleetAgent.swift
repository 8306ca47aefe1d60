import AgentConfiguration
import Documents
import DocumentStore
import Environment
import Glibc
import Logging
import PluginHost

/// The agent's handling of the fleet's documents.
extension Agent {
    /// A configuration with the fleet's fragments that were last in force.
    nonisolated func withFleet(_ settings: AgentSettings) throws -> AgentSettings {
        guard let store = fleetStore else { return try FleetStore.withFleet(settings) }
        return store.overlay(settings)
    }

    /// - Throws: if what was last in force cannot be read.
    func openFleetStore(_ settings: AgentSettings) throws {
        guard fleetStore == nil, let store = try FleetStore.of(settings) else { return }
        shared.withLock { $0.fleetStore = store }
    }

    /// Starts following the documents, according to these settings.
    func startFleet(_ settings: AgentSettings) throws {
        guard let wanted = settings.fleet, let store = fleetStore, let database = database(wanted.database.value) else { return }
        let fleet = try FleetService(
            wanted, data: settings.data.value, store: store, limits: PluginHostLimits(settings.pluginLimits),
            hands: FleetService.Hands(
                plugins: { [weak self] in self?.plugins },
                uses: { [weak self] name in Set(self?.plugins?.status().first { $0.name == name }?.usedBy ?? []).sorted() },
                rollback: { [weak self] name in self?.plugins?.status().first { $0.name == name }?.rolledBack },
                configure: { [weak self] fragments, name in try await self?.configure(fragments, name) ?? [] },
                waiting: { [weak self] in self?.waitingForStart ?? [] }, leftOut: { [weak self] in self?.settings.refusedFragments ?? [] }),
            environment: environment, logger: logs.logger(.plugin))
        shared.withLock { $0.fleet = fleet }
        fleetWatch = Task { await fleet.run(database) }
    }

    /// Does not wait for it to end: it may itself be waiting for its turn to configure.
    func stopFleet() {
        fleetWatch?.cancel()
        fleetWatch = nil
        shared.withLock { $0.fleet = nil }
    }

    /// Applies new settings, which decide whose documents count; plugins that they do not vouch for are ended.
    func followFleet(_ settings: AgentSettings) async {
        fleetStore?.follow(settings.fleet ?? FleetSettings())
        _ = await plugins?.reload()
    }

    /// The signed document that something comes from.
    static func report(_ document: FleetDocument) -> JSONValue {
        JSONOutput.object([
            "version": JSONOutput.number(document.version), "key": JSONOutput.text(document.key.map(String.init(describing:))),
        ])
    }

    /// Null without a fleet configuration.
    nonisolated func fleetReport() -> JSONValue {
        guard let fleet, let store = fleetStore else { return .null }
        let used = store.used.map { document in
            JSONOutput.object([
                "kind": .string(document.item.kind.rawValue), "name": .string(document.item.name), "version": JSONOutput.number(document.version),
                "withdrawn": .bool(document.isWithdrawal), "key": JSONOutput.text(document.key.map(String.init(describing:))),
            ])
        }
        return JSONOutput.object([
            "used": .array(used),
            "refused": .array(
                fleet.refusals.map { refused in
                    JSONOutput.object([
                        "id": .string(refused.id), "reason": .string(refused.reason), "since": .string(Timestamp.format(refused.since)),
                    ])
                }),
            "at_next_start": .array(waitingForStart.map { .string($0) }),
        ])
    }

    nonisolated func addFleet(to text: inout PrometheusText) {
        guard let fleet, let store = fleetStore else { return }
        text.add(.gauge, "nightjar_fleet_refused", "Signed documents of the fleet that are not used.", [], fleet.refusals.count)
        for document in store.used where !document.isWithdrawal {
            text.add(
                .gauge, "nightjar_fleet_version", "The version of the fleet's that is in force.",
                [("kind", document.item.kind.rawValue), ("name", document.item.name)], document.version)
        }
    }

    nonisolated func fleetAttention() -> [Attention] {
        (fleet?.refusals ?? []).map {
            Attention(
                .fleetRefused, "fleet \($0.id)", since: $0.since, "is refused, and what was in force stays in force: \($0.reason)",
                remedy: "publish a correct version; nightjar fleet status on the hub shows which gateways refuse it")
        }
    }
}

extension FleetStore {
    /// Nil if the configuration has no fleet.
    static func of(_ settings: AgentSettings) throws(AgentError) -> FleetStore? {
        guard let fleet = settings.fleet, !fleet.database.value.isEmpty, settings.knowsDataFolder else { return nil }
        return try FleetStore(data: settings.data.value, fleet)
    }

    /// A configuration with the fragments that were last in force, as far as its own keys vouch for them.
    package static func withFleet(_ settings: AgentSettings) throws(AgentError) -> AgentSettings {
        guard settings.fleet?.acceptConfig.isEmpty == false, let store = try of(settings) else { return settings }
        return store.overlay(settings)
    }

    func overlay(_ settings: AgentSettings) -> AgentSettings {
        guard let fleet = settings.fleet, !fleet.acceptConfig.isEmpty else { return settings }
        return settings.overlaid(with: fragments(by: fleet))
    }
}

extension AgentSettings {
    /// Plugins from the fleet do not need an operator's folder.
    private var ownPluginsFolder: String? {
        guard let fleet, fleet.acceptedKinds.contains(.plugin) else { return nil }
        return "\(data.value)/fleet/plugins"
    }

    /// Where plugins are looked for; nil for nowhere.
    var pluginsPlace: (folder: String, isOperators: Bool)? {
        if let folder = plugins?.value { return (folder, true) }
        return ownPluginsFolder.map { ($0, false) }
    }
}
