import Environment
import LuaRuntime

/// What `nightjar check` finds in a plugins folder: the plugins that load, and all problems.
package struct PluginCheck: Sendable {
    package let plugins: [PluginListing]
    /// Ordered by file.
    package let problems: [PluginProblem]
    private let versions: [String: LoadedVersion]
    private let folder: String
    private let files: ParameterFiles

    /// Loads every plugin in a sandbox without services and discards it; runs no hooks.
    ///
    /// - Parameters:
    ///   - mayBeAbsent: a missing folder counts as empty, because nobody named one.
    ///   - versionsFolder: where an agent stores versions that were in force: those with passed tests are not tested again, as at the agent's
    ///     start; nil to test everything.
    ///   - only: loads only this plugin, whatever else is in the folder; nil for all.
    ///   - seal: the signatures that files in the folder need; nil for none.
    package static func run(
        folder: String, only: String? = nil, mayBeAbsent: Bool = false, configurationFolder: String? = nil, limits: PluginHostLimits = PluginHostLimits(),
        proof: any PluginProof = NoPluginProof(), versionsFolder: String? = nil, supplied: [SuppliedPlugin] = [], seal: PluginSeal? = nil,
        environment: Environment
    ) async throws(PluginError) -> PluginCheck {
        try await environment.runPlugin(name: "plugin-check", stackBytes: limits.stackBytes) {
            PluginCheck(
                folder: AbsolutePath.make(folder), only, mayBeAbsent, configurationFolder.map(AbsolutePath.make), limits, proof,
                VersionStore(folder: versionsFolder.map(AbsolutePath.make), limits: limits), supplied, seal, environment)
        }
    }

    private init(
        folder: String, _ only: String?, _ mayBeAbsent: Bool, _ configurationFolder: String?, _ limits: PluginHostLimits, _ proof: any PluginProof,
        _ store: VersionStore, _ supplied: [SuppliedPlugin], _ seal: PluginSeal?, _ environment: Environment
    ) {
        let scan = FolderScan.read(folder, limits, only: only, seal: seal, supplied: supplied, mayBeAbsent: mayBeAbsent)
        var problems = scan.problems + scan.refused.values
        if let failure = scan.failure { problems.append(PluginProblem(file: "", message: failure)) }
        var versions: [String: LoadedVersion] = [:]
        for (name, source) in scan.sources {
            switch VersionLoader.load(source, host: limits, pool: nil, environment) {
            case .failure(let problem): problems.append(problem)
            case .success(let version):
                versions[name] = version
                if !store.holds(source), let problem = proof.prove(PluginCandidate(version, limits, environment)) { problems.append(problem) }
            }
        }
        self.folder = folder
        self.versions = versions
        self.problems = problems.sorted { ($0.file, $0.line ?? 0) < ($1.file, $1.line ?? 0) }
        plugins = versions.values.map { PluginListing($0) }.sorted { $0.name < $1.name }
        files = ParameterFiles(folders: (configurationFolder.map { [$0] } ?? []) + [folder], limits: limits)
    }

    /// Why a use would be refused: no such plugin, no such hook, wrong parameters, unreadable files. Nil if it would work.
    package func problem(plugin: String, hook: LuaHook, params: LuaValue, usedBy: String) -> PluginError? {
        guard let version = versions[plugin] else {
            if !PluginName.isValid(plugin) { return .invalidName(plugin) }
            if let problem = problems.first(where: { $0.plugin == plugin }) { return .refused(plugin: plugin, problem: problem) }
            return .unknown(plugin: plugin, folder: folder, nearest: PluginName.nearest(to: plugin, among: versions.keys.sorted()))
        }
        do {
            _ = try UsePreparation(version, hook: hook, params: params, usedBy: usedBy, files: files)
            return nil
        } catch {
            return error
        }
    }
}

extension PluginCandidate {
    init(_ source: PluginSource, _ limits: PluginLimits, _ host: PluginHostLimits, _ environment: Environment) {
        self.init(
            name: source.name, version: source.version, file: source.main.path, source: source.main.bytes,
            tests: source.tests.map { ($0.path, $0.bytes) }, modules: PluginSource.Loader(source: source), limits: limits,
            testMilliseconds: host.testMilliseconds, environment: environment)
    }

    init(_ version: LoadedVersion, _ host: PluginHostLimits, _ environment: Environment) {
        self.init(version.source, version.limits, host, environment)
    }
}
