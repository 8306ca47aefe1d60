import AgentConfiguration
import Documents
import Encodings
import Environment
import LuaRuntime
import PluginHost
import TLS

/// `nightjar check`: everything that would make `run` fail, without starting anything.
package enum ConfigurationCheck {
    /// The findings: problems of the configuration and of the plugins, and the plugins that are fine.
    package struct Report: Sendable {
        package var problems: [String] = []
        /// What to do about a problem, by its text, where that is known.
        package var mends: [String: String] = [:]
        /// Settings that are valid but probably not intended.
        package var advice: [String] = []
        /// Certificates that are not valid today. An agent starts with them, but warns.
        package var certificates: [String] = []
        /// Secrets that other users can read. An agent uses them, but warns.
        package var exposed: [TLSFileError] = []
        package var plugins: [PluginListing] = []

        /// What is valid and should be looked at, in the order in which it is shown.
        package var warnings: [String] { advice + certificates + exposed.map(\.description) }
    }

    /// - Parameters:
    ///   - found: what is wrong with the file itself; `settings` then is the part of it that could be read.
    ///   - testsAll: whether to run plugins' tests that already passed in the agent.
    package static func run(
        _ settings: AgentSettings, _ environment: Environment, found: ConfigurationProblems? = nil, testsAll: Bool = true
    ) async throws -> Report {
        var report = Report()
        var problems = unavailable(settings)
        problems += tlsFiles(settings, .obstacles, environment)
        problems += [misplacedData(settings), misplacedLog(settings)].compactMap { $0 }
        report.certificates = tlsFiles(settings, .dates, environment).map(\.description)
        report.exposed = exposedSecrets(settings)
        // Reports each error in the file once, and nothing that merely follows from it.
        let places = Set((found?.problems ?? []).map(Place.init))
        problems.removeAll { places.contains(Place($0)) }
        problems += found?.problems ?? []
        problems = problems.enumerated().sorted { ($0.element.line, $0.element.column, $0.offset) < ($1.element.line, $1.element.column, $1.offset) }.map(\.element)
        report.problems += problems.map(\.description)
        if let omitted = found?.omitted, omitted > 0 { report.problems.append("and \(Plural.count(omitted, "problem")) more") }
        let lists = found == nil ? otherRevocationLists(settings) + untriedKeys(settings) + [AdminTokenFile.unused(settings), logAdvice(settings)].compactMap { $0 } : []
        if found == nil { report.advice = (settings.advice(plugins: nil) + lists).map(\.description) }
        report.advice += leftOut(settings)
        let unnamed = UnnamedDatabases(settings)
        if let unnamed {
            report.advice.append(unnamed.text)
            report.mends[unnamed.text] = unnamed.remedy
        }
        guard settings.knowsPluginsFolder else { return report }
        guard let (folder, isOperators) = settings.pluginsPlace else {
            for (reference, _, usedBy) in uses(settings, []) {
                report.problems.append(
                    ConfigurationProblem(
                        at: reference.plugin.position, "\(usedBy): there is no plugins folder that could hold \"\(reference.plugin.value)\""
                    ).description)
            }
            return report
        }
        let check = try await PluginCheck.run(
            folder: folder, mayBeAbsent: !isOperators, configurationFolder: settings.folder, limits: PluginHostLimits(settings.pluginLimits),
            proof: ProofByTests(), versionsFolder: testsAll ? nil : settings.pluginVersionsFolder, supplied: try suppliedPlugins(settings),
            seal: settings.pluginSeal, environment: environment)
        report.plugins = check.plugins
        if found == nil {
            let names = Set(check.plugins.map(\.name) + check.problems.map { pluginName($0.file) })
            report.advice = (settings.advice(plugins: names) + lists).map(\.description) + leftOut(settings) + [unnamed?.text].compactMap { $0 }
        }
        report.problems += check.problems.map { problem in
            guard problem.file.isEmpty, let place = settings.plugins?.position else { return problem.description }
            return ConfigurationProblem(at: place, "\(problem)").description
        }
        for problem in check.problems where problem.isOfSignature {
            report.mends[problem.description] = problem.plugin.map { PluginSeal.remedy($0, file: problem.file) }
        }
        let distrusted = try FleetStore.of(settings)?.distrustedPlugins ?? []
        for (reference, hook, usedBy) in uses(settings, check.plugins) {
            if let error = check.problem(
                plugin: reference.plugin.value, hook: hook, params: LuaValue(reference.params), usedBy: usedBy)
            {
                // A plugin that does not load is reported once, with its own file and line.
                if case .refused = error { continue }
                var problem = ConfigurationProblem(at: reference.place(of: error), reference.words(error))
                if case .unknown = error, distrusted.contains(reference.plugin.value) {
                    problem.message += "; the fleet's version of it is signed with a key that fleet.keys does not name, or fleet.accept takes no plugins"
                }
                if !places.contains(Place(problem)) { report.problems.append(problem.description) }
            }
        }
        let standing = standIns(settings, check)
        report.advice += standing
        for line in standing { report.mends[line] = "fix the plugin's file, or put it back" }
        return report
    }

    /// The fleet's plugins that were last in force.
    private static func suppliedPlugins(_ settings: AgentSettings) throws -> [SuppliedPlugin] { try FleetStore.of(settings)?.plugins ?? [] }

    /// Fragments that were in force and do not fit this configuration.
    private static func leftOut(_ settings: AgentSettings) -> [String] {
        settings.refusedFragments.map { "the fleet's configuration \($0.fragment.name), version \($0.fragment.version), is left out: \($0.problems)" }
    }

    /// Plugins in use whose files are unusable, but which run could still serve with the version that was last in force.
    private static func standIns(_ settings: AgentSettings, _ check: PluginCheck) -> [String] {
        guard settings.knowsDataFolder else { return [] }
        let sound = Set(check.plugins.map(\.name))
        let wrong = Set(check.problems.map(\.plugin))
        var told: Set<String> = []
        let distrusted = (try? FleetStore.of(settings))?.distrustedPlugins ?? []
        return uses(settings, check.plugins).compactMap { reference, _, _ in
            let name = reference.plugin.value
            guard !distrusted.contains(name), !sound.contains(name) || wrong.contains(name), told.insert(name).inserted,
                let version = KeptVersions.last(
                    name, in: settings.pluginVersionsFolder, limits: PluginHostLimits(settings.pluginLimits), seal: settings.pluginSeal)
            else { return nil }
            return "plugin \(name): run would serve version \(version), which was in force last and is kept in \(settings.pluginVersionsFolder), until the file is fixed"
        }
    }

    /// `plugins/NAME.lua` also names a plugin in a refusal.
    private static func pluginName(_ file: String) -> String {
        String((file.split(separator: "/").last ?? "").split(separator: ".").first ?? "")
    }

    private struct Place: Hashable {
        var file: String
        var line: Int
        var column: Int

        init(_ problem: ConfigurationProblem) { (file, line, column) = (problem.file, problem.line, problem.column) }
    }

    /// Every place that names a plugin, with the hook that it needs there.
    ///
    /// - Parameter plugins: the plugins that load; which hook of an authenticator is used depends on the hooks that it has.
    package static func uses(_ settings: AgentSettings, _ plugins: [PluginListing]) -> [(PluginReference, LuaHook, String)] {
        var uses: [(PluginReference, LuaHook, String)] = []
        for database in settings.databases {
            let name = "database \(database.name.value)"
            if let reference = database.conflictResolver { uses += judges(reference, .resolve, "\(name) conflict_resolver") }
            if let reference = database.validate { uses += judges(reference, .sync, "\(name) validate") }
        }
        for listener in settings.listeners {
            let name = "listener \(listener.name.value)"
            if let reference = listener.authenticator { uses.append((reference, listener.authenticatorHook(plugins), "\(name) authenticator")) }
            if let reference = listener.sync { uses += judges(reference, .sync, "\(name) sync") }
            if let reference = listener.pushFilter { uses += judges(reference, .pushFilter, "\(name) push_filter") }
            if let reference = listener.pullFilter { uses += judges(reference, .pullFilter, "\(name) pull_filter") }
        }
        for replicator in settings.replicators {
            let name = "replicator \(replicator.name.value)"
            if let reference = replicator.authenticator?.plugin { uses.append((reference, reference.listing(plugins)?.loginHook ?? .token, "\(name) authenticator")) }
            if let reference = replicator.selectPeer { uses.append((reference, .selectPeer, "\(name) select_peer")) }
            if let reference = replicator.observer { uses.append((reference, reference.listing(plugins)?.observerHook ?? .onStatus, "\(name) observer")) }
            for collection in replicator.collections {
                if let reference = collection.pushFilter { uses += judges(reference, .pushFilter, "\(name) push_filter") }
                if let reference = collection.pullFilter { uses += judges(reference, .pullFilter, "\(name) pull_filter") }
                if let reference = collection.pushTransform { uses.append((reference, .transform, "\(name) push_transform")) }
                if let reference = collection.pullTransform { uses.append((reference, .transform, "\(name) pull_transform")) }
                if let reference = collection.conflictResolver { uses += judges(reference, .resolve, "\(name) conflict_resolver") }
            }
        }
        return uses
    }

    /// Includes its shadow, which is checked like the serving plugin.
    private static func judges(_ reference: PluginReference, _ hook: LuaHook, _ place: String) -> [(PluginReference, LuaHook, String)] {
        [(reference, hook, place)] + (reference.shadow.map { [(PluginReference($0), hook, "\(place) shadow")] } ?? [])
    }

    /// A document's channels are the same for every peer, so all listeners that assign channels in one database must use the same sync function.
    private static func otherSyncFunctions(_ settings: AgentSettings) -> [ConfigurationProblem] {
        var first: [String: (listener: String, sync: PluginReference)] = [:]
        var problems: [ConfigurationProblem] = []
        for listener in settings.listeners {
            guard let sync = listener.sync else { continue }
            for database in listener.databases {
                guard let known = first[database.value] else {
                    first[database.value] = (listener.name.value, sync)
                    continue
                }
                // Shadows may differ: they only observe.
                guard known.sync.withoutShadow != sync.withoutShadow else { continue }
                problems.append(
                    ConfigurationProblem(
                        at: sync.position,
                        "listener \"\(listener.name.value)\": the database \"\(database.value)\" already has a different sync function on listener "
                            + "\"\(known.listener)\"; a database can have only one"))
            }
        }
        return problems
    }

    /// Settings that are valid, but that this version cannot carry out. An error is better than doing something else.
    static func unavailable(_ settings: AgentSettings) -> [ConfigurationProblem] {
        var problems: [ConfigurationProblem] = []
        for database in settings.databases where database.history.conflicts == 0 {
            let resolvers = [database.conflictResolver]
                + settings.replicators.filter { $0.database.value.utf8.elementsEqual(database.name.value.utf8) }
                .flatMap { $0.collections.map(\.conflictResolver) }
            for shadow in resolvers.compactMap({ $0?.shadow }) {
                problems.append(
                    ConfigurationProblem(
                        at: shadow.position,
                        "a shadow's differences are recorded in the conflict history, which \"history: { conflicts: 0 }\" of database \"\(database.name.value)\" turns off"))
            }
        }
        problems += otherSyncFunctions(settings)
        for replicator in settings.replicators {
            for collection in replicator.collections {
                for id in collection.documentIDs {
                    do { _ = try DocumentID(id.value) } catch { problems.append(ConfigurationProblem(at: id.position, "\(error)")) }
                }
            }
        }
        return problems
    }
}

extension AgentSettings {
    /// Where plugin versions that were in force are kept.
    var pluginVersionsFolder: String { "\(data.value)/plugin-versions" }
}

extension PluginReference {
    fileprivate func listing(_ plugins: [PluginListing]) -> PluginListing? { plugins.first { $0.name.utf8.elementsEqual(plugin.value.utf8) } }
}

extension ListenerSettings {
    /// What the authenticator judges: the certificate, if clients present one and the plugin judges certificates; otherwise name and password, in
    /// addition to a certificate verified against `roots`.
    func authenticatorHook(_ plugins: [PluginListing]) -> LuaHook {
        guard clientCertificates.value != .none, let name = authenticator?.plugin.value else { return .authenticatePassword }
        let offered = plugins.first { $0.name.utf8.elementsEqual(name.utf8) }?.hooks ?? []
        let authenticatesOnlyPasswords = offered.contains(LuaHook.authenticatePassword.rawValue) && !offered.contains(LuaHook.authenticateCertificate.rawValue)
        return authenticatesOnlyPasswords && !roots.isEmpty ? .authenticatePassword : .authenticateCertificate
    }
}
