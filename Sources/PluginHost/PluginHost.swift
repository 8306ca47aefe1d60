import Environment
import Interfaces
import Logging
import LuaRuntime

/// The plugins of one folder: loads them, keeps them in line with the files, and runs their hooks on threads of its own.
///
/// Every answer of a hook that cannot be had is a failure (`FilterVerdict.failed` and its like), never a yes.
package final class PluginHost: Sendable {
    let core: HostCore
    private let supervisor: Supervisor

    /// Starts the threads; nothing is loaded before `start()`.
    ///
    /// - Parameters:
    ///   - folder: holds `NAME.lua`, `NAME/init.lua` and `lib/`. It or a folder above it may be a link that flips. It need not exist yet.
    ///   - only: of all that is in the folder only this plugin counts, and the folder is not looked through: it may be anybody's.
    ///   - configurationFolder: where paths in parameters of type "file" begin; the plugins folder comes second.
    ///   - proof: asked before a version comes into force.
    ///   - versionsFolder: where versions that were in force are kept, for a rollback and for a start with a file that is refused;
    ///     nil keeps none. Made when needed, in a folder that is there.
    ///   - supplied: plugins from elsewhere, asked for at each reading of the folder; they take the place of files.
    ///   - seal: whose signatures the files of the folder need, asked for at each reading; nil: they need none.
    ///   - environment: its monotonic clock is the one that breakers and limits go by.
    package init(
        folder: String, only: String? = nil, configurationFolder: String? = nil, limits: PluginHostLimits = PluginHostLimits(),
        services: any PluginServices = NoPluginServices(), proof: any PluginProof = NoPluginProof(),
        versionsFolder: String? = nil, supplied: @escaping @Sendable () -> [SuppliedPlugin] = { [] },
        seal: @escaping @Sendable () -> PluginSeal? = { nil }, logger: Logger = Logger(label: "plugin"),
        environment: Environment
    ) throws(PluginError) {
        core = try HostCore(
            folder: folder, only: only, configurationFolder: configurationFolder, limits: limits, services: services, proof: proof,
            versionsFolder: versionsFolder, supplied: supplied, seal: seal, logger: logger, environment: environment)
        do {
            supervisor = try Supervisor(core)
        } catch {
            core.pool.close()
            throw error
        }
    }

    /// `source` of the log lines that plugins write themselves; they have a limit of their own (`log lines`).
    package static let logSource = "plugin"

    deinit { supervisor.post(.stop) }

    /// Loads every plugin and begins to watch the folder. What is wrong shows in `status()` and events; it does not throw.
    ///
    /// - Parameters:
    ///   - names: those that will be used. One whose file is gone is served as it was last. Tests that have not passed before run
    ///     afterwards: what needs such a plugin waits for them, and logins are asked to come again. Nil to have all tests run first.
    ///   - barred: those of which no version serves that is not there now, since whoever made the last one is not trusted any more.
    package func start(using names: Set<String>? = nil, barring barred: Set<String> = []) async {
        core.expected.withLock { $0 = names?.subtracting(barred) }
        core.barred.withLock { $0 = barred }
        await withCheckedContinuation { supervisor.post(.start($0)) }
    }

    /// Tests end, and what waits for them is refused. The agent stops.
    package func beginShutdown() { core.beginStopping() }

    /// Ends the threads. Calls that run finish, those that wait are refused.
    package func shutdown() async { await supervisor.stop() }

    // MARK: Uses

    /// One use of a plugin's push_filter.
    ///
    /// - Parameters:
    ///   - params: an object, or `.missing` for none.
    ///   - usedBy: the place, as status shows it and errors begin: "replicator hub push_filter".
    ///   - limits: for each call; nil for the plugin's own.
    /// - Returns: keeps working over reloads; the plugin forgets it when it is released.
    package func pushFilter(
        plugin: String, params: LuaValue = .missing, usedBy: String, limits: LuaCallLimits? = nil
    ) throws(PluginError) -> any DocumentFilter {
        PluginFilter(use: try use(plugin, .pushFilter, params, usedBy, limits))
    }

    /// One use of a plugin's pull_filter; see `pushFilter`.
    package func pullFilter(
        plugin: String, params: LuaValue = .missing, usedBy: String, limits: LuaCallLimits? = nil
    ) throws(PluginError) -> any DocumentFilter {
        PluginFilter(use: try use(plugin, .pullFilter, params, usedBy, limits))
    }

    /// One use of a plugin's transform; see `pushFilter`.
    package func transform(
        plugin: String, params: LuaValue = .missing, usedBy: String, limits: LuaCallLimits? = nil
    ) throws(PluginError) -> any DocumentTransform {
        PluginTransform(use: try use(plugin, .transform, params, usedBy, limits))
    }

    /// One use of a plugin's resolve; see `pushFilter`.
    package func resolver(
        plugin: String, params: LuaValue = .missing, usedBy: String, limits: LuaCallLimits? = nil
    ) throws(PluginError) -> any ConflictResolver {
        PluginResolver(use: try use(plugin, .resolve, params, usedBy, limits))
    }

    /// One use of a plugin's authenticate_password; see `pushFilter`.
    package func passwordAuthenticator(
        plugin: String, params: LuaValue = .missing, usedBy: String, limits: LuaCallLimits? = nil
    ) throws(PluginError) -> any PasswordAuthenticator {
        PluginPasswordAuthenticator(use: try use(plugin, .authenticatePassword, params, usedBy, limits))
    }

    /// One use of a plugin's authenticate_certificate; see `pushFilter`.
    package func certificateAuthenticator(
        plugin: String, params: LuaValue = .missing, usedBy: String, limits: LuaCallLimits? = nil
    ) throws(PluginError) -> any CertificateAuthenticator {
        PluginCertificateAuthenticator(use: try use(plugin, .authenticateCertificate, params, usedBy, limits))
    }

    /// One use of a plugin's token, or of its get_session; see `pushFilter`.
    package func tokenSource(
        plugin: String, params: LuaValue = .missing, usedBy: String, limits: LuaCallLimits? = nil
    ) throws(PluginError) -> any TokenSource {
        let hook = PluginListing(try versionInForce(try known(plugin))).loginHook
        return PluginTokens(use: try use(plugin, hook, params, usedBy, limits), givesSessions: hook == .getSession)
    }

    /// A plugin's on_status and on_documents; see `pushFilter`.
    package func observer(plugin: String, params: LuaValue = .missing, usedBy: String) throws(PluginError) -> PluginObserver {
        let hook = PluginListing(try versionInForce(try known(plugin))).observerHook
        return try PluginObserver(plugin, hears: hook) { hook throws(PluginError) in
            try self.use(plugin, hook, params, "\(usedBy) \(hook.rawValue)", nil)
        }
    }

    /// One use of a plugin's sync; see `pushFilter`.
    package func syncFunction(
        plugin: String, params: LuaValue = .missing, usedBy: String, limits: LuaCallLimits? = nil
    ) throws(PluginError) -> any SyncFunction {
        PluginSyncFunction(use: try use(plugin, .sync, params, usedBy, limits))
    }

    /// What is wrong with parameters for the version in force; empty if nothing is. Files that parameters name are not read.
    package func validate(params: LuaValue, forPlugin plugin: String) throws(PluginError) -> [ParameterProblem] {
        try versionInForce(try known(plugin)).declarations.problems(in: params)
    }

    /// The parameters that the version in force wants as lists; none where there is no such plugin.
    package func listParameters(of plugin: String) -> Set<String> {
        guard let version = try? versionInForce(try known(plugin)) else { return [] }
        return Set(version.declarations.all.filter { $0.kind == .array }.map(\.name))
    }

    /// - Parameter shadow: of a candidate: where its comparisons are counted.
    func use(
        _ plugin: String, _ hook: LuaHook, _ params: LuaValue, _ usedBy: String, _ limits: LuaCallLimits?, shadow: ShadowTally? = nil
    ) throws(PluginError) -> PluginUse {
        while true {
            let record = try known(plugin)
            let version = try versionInForce(record)
            let preparation = try UsePreparation(version, hook: hook, params: params, usedBy: usedBy, files: core.files)
            let number = LoadedVersion.nextSerial()
            let versions = EventHub<String>(kept: 16)
            let most = core.limits.usesPerPlugin
            enum Entry { case made, again, full }
            let entry = record.change { fields -> Entry in
                // Another version came into force, or the plugin was removed, since we looked.
                guard !fields.isRemoved, fields.inForce?.serial == version.serial else { return .again }
                guard fields.uses.count < most else { return .full }
                fields.uses[number] = PluginRecord.Registration(
                    usedBy: usedBy, hook: hook, params: params, texts: preparation.texts, fileProblems: [:], versions: versions,
                    breaker: record.newBreaker(hook), limits: limits, shadow: shadow)
                fields.prepared[number] = preparation.prepared
                return .made
            }
            switch entry {
            case .again: continue
            case .full: throw .limit(name: "uses of a plugin", limit: most, plugin: plugin)
            case .made: break
            }
            // Only files have to be watched at once; a refused or missing version may be waiting for its uses to change.
            if !preparation.texts.isEmpty { supervisor.post(.usesChanged) }
            return PluginUse(record, number: number, hook: hook, pool: core.pool, versions: versions) {
                [weak supervisor] record in
                if record.read({ $0.isMissing || $0.refused != nil }) { supervisor?.post(.usesChanged) }
            }
        }
    }

    private func known(_ plugin: String) throws(PluginError) -> PluginRecord {
        if let record = core.record(named: plugin), !record.read({ $0.isRemoved }) { return record }
        guard PluginName.isValid(plugin) else { throw .invalidName(plugin) }
        let names = core.allRecords().map(\.name)
        throw .unknown(plugin: plugin, folder: core.folder, nearest: PluginName.nearest(to: plugin, among: names))
    }

    private func versionInForce(_ record: PluginRecord) throws(PluginError) -> LoadedVersion {
        let (version, refused) = record.read { ($0.inForce, $0.refused) }
        if let version { return version }
        throw .refused(
            plugin: record.name,
            problem: refused?.problem ?? PluginProblem(plugin: record.name, file: "\(record.name).lua", message: "is not loaded yet"))
    }

    // MARK: What is there

    /// Reads the folder now, trying refused versions again, and asks again about what is held because a plugin failed.
    ///
    /// - Parameter name: whose verdict is wanted and whose rollback ends; all plugins are brought up to date in any case. Empty if
    ///   there is no such plugin.
    package func reload(_ name: String? = nil) async -> [ReloadVerdict] {
        await withCheckedContinuation { supervisor.post(.reload(name, $0)) }
    }

    /// Puts an older version into force for all uses at one moment, after the same checks as a reload. It holds, also over a
    /// restart, until the plugin's files change or `reload` names the plugin. Nothing is written into the plugins folder.
    ///
    /// - Parameter version: the beginning of a kept version; nil for the one before the version in force.
    package func rollBack(_ name: String, to version: String? = nil) async throws(PluginError) -> ReloadVerdict {
        let result: Result<ReloadVerdict, PluginError> = await withCheckedContinuation {
            supervisor.post(.rollback(name, to: version, $0))
        }
        return try result.get()
    }

    /// Asks again about everything that is held because a plugin failed, also where it is not called any more.
    ///
    /// - Parameter name: nil for all plugins.
    /// - Returns: the plugins that were asked to, with the number of places that use them.
    package func retry(_ name: String? = nil) throws(PluginError) -> [(plugin: String, uses: Int)] {
        let records = if let name { [try known(name)] } else { core.allRecords() }
        return records.map { ($0.name, $0.retry()) }
    }

    /// The plugins in force, ascending by name.
    package func list() -> [PluginListing] {
        core.allRecords().compactMap { record in
            record.read { $0.inForce }.map { PluginListing($0) }
        }
    }

    /// Every plugin, also those that are refused or gone, ascending by name.
    package func status() -> [PluginStatus] { core.allRecords().map { $0.status() } }

    /// The files of the version in force: the plugin's own, the modules that it can reach, and its tests, with paths from the plugins folder.
    package func source(_ plugin: String) throws(PluginError) -> (version: String, files: [(path: String, bytes: [UInt8])]) {
        let source = try versionInForce(try known(plugin)).source
        let modules = source.modules.values.sorted { $0.path < $1.path }
        return (source.version, ([source.main] + modules + (source.tests.map { [$0] } ?? [])).map { (path: $0.path, bytes: $0.bytes) })
    }

    /// The text in force of a file that one use of a plugin has as a parameter, where it is and what tells it from another.
    package func text(of parameter: String, plugin: String, usedBy: String) -> (bytes: [UInt8], path: String, digest: [UInt8])? {
        core.record(named: plugin)?.read { fields in
            fields.uses.values.first { $0.usedBy.utf8.elementsEqual(usedBy.utf8) }?.texts[parameter].map { ($0.bytes, $0.path, $0.digest) }
        }
    }

    /// Whether the folder has files of this plugin, be they right or not.
    package func folderHas(_ plugin: String) -> Bool {
        let scan = FolderScan.read(core.folder, core.limits, only: core.only)
        return scan.sources[plugin] != nil || scan.refused[plugin] != nil
    }

    /// What is wrong with the folder itself and with files that are no plugin's.
    package func folderProblems() -> [PluginProblem] { core.folderProblems.withLock { $0 } }

    /// What happens from now on. A listener that does not keep up loses the oldest events.
    package func events() -> AsyncStream<PluginEvent> { core.events.stream() }
}

extension PluginListing {
    init(_ version: LoadedVersion) {
        self.init(
            name: version.source.name, file: version.source.main.path, version: version.source.version,
            description: version.description, hooks: version.hookNames, parameters: version.declarations.all)
    }
}
