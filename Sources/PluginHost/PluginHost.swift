import Environment
import Interfaces
import Logging
import LuaRuntime

/// The plugins in one folder: loads them, follows changes of their files, and runs their hooks on its own threads.
///
/// If a hook gives no answer, that is a failure (`FilterVerdict.failed` and similar), never an approval.
package final class PluginHost: Sendable {
    let core: HostCore
    private let supervisor: Supervisor

    /// Starts the threads; nothing is loaded before `start()`.
    ///
    /// - Parameters:
    ///   - folder: contains `NAME.lua`, `NAME/init.lua` and `lib/`. It or a folder above it may be a link that changes. It need not exist
    ///     yet.
    ///   - only: uses only this plugin, without examining the rest of the folder, which may be somebody else's.
    ///   - configurationFolder: the base of paths in parameters of type "file"; the plugins folder is tried second.
    ///   - proof: called before a version is put in force.
    ///   - versionsFolder: where versions that were in force are stored, for rollbacks and for a start with a refused file; nil to store
    ///     none. Created when needed, in an existing folder.
    ///   - supplied: plugins from other sources, queried at each reading of the folder; they replace files.
    ///   - seal: the signatures that files in the folder need, queried at each reading; nil for none.
    ///   - environment: its monotonic clock is used for breakers and limits.
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

    /// The `source` of log lines written by plugins; these have their own limit (`log lines`).
    package static let logSource = "plugin"

    deinit { supervisor.post(.stop) }

    /// Loads every plugin and starts watching the folder. Problems are reported in `status()` and events, not thrown.
    ///
    /// - Parameters:
    ///   - names: the plugins that will be used. If the file of one is missing, its last version serves. Tests that have not passed before
    ///     run afterwards: whatever needs such a plugin waits for them, and logins are asked to try again. Nil to run all tests first.
    ///   - barred: plugins of which no stored version may serve, since the author of the last one is no longer trusted.
    package func start(using names: Set<String>? = nil, barring barred: Set<String> = []) async {
        core.expected.withLock { $0 = names?.subtracting(barred) }
        core.barred.withLock { $0 = barred }
        await withCheckedContinuation { supervisor.post(.start($0)) }
    }

    /// Called when the agent stops: ends tests, and refuses whatever waits for them.
    package func beginShutdown() { core.beginStopping() }

    /// Ends the threads. Running calls finish, waiting ones are refused.
    package func shutdown() async { await supervisor.stop() }

    // MARK: Uses

    /// One use of a plugin's push_filter.
    ///
    /// - Parameters:
    ///   - params: an object, or `.missing` for none.
    ///   - usedBy: the place, in the form that status shows and that errors begin with: "replicator hub push_filter".
    ///   - limits: for each call; nil for the plugin's own limits.
    /// - Returns: a policy that keeps working across reloads; the plugin forgets it when it is released.
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

    /// One use of a plugin's select_peer; see `pushFilter`.
    package func peerSelector(
        plugin: String, params: LuaValue = .missing, usedBy: String, limits: LuaCallLimits? = nil
    ) throws(PluginError) -> any PeerSelector {
        PluginPeerSelector(use: try use(plugin, .selectPeer, params, usedBy, limits), pluginName: plugin)
    }

    /// One use of a plugin's sync; see `pushFilter`.
    package func syncFunction(
        plugin: String, params: LuaValue = .missing, usedBy: String, limits: LuaCallLimits? = nil
    ) throws(PluginError) -> any SyncFunction {
        PluginSyncFunction(use: try use(plugin, .sync, params, usedBy, limits))
    }

    /// What is wrong with parameters for the version in force; empty if nothing is. Files named in parameters are not read.
    package func validate(params: LuaValue, forPlugin plugin: String) throws(PluginError) -> [ParameterProblem] {
        try versionInForce(try known(plugin)).declarations.problems(in: params)
    }

    /// The parameters that the version in force expects as lists; empty if there is no such plugin.
    package func listParameters(of plugin: String) -> Set<String> {
        guard let version = try? versionInForce(try known(plugin)) else { return [] }
        return Set(version.declarations.all.filter { $0.kind == .array }.map(\.name))
    }

    /// A use that suits only a version which other uses keep out waits for that version, see ``promoteSuccessors()``.
    ///
    /// - Parameter shadow: for a candidate: where its comparisons are counted.
    func use(
        _ plugin: String, _ hook: LuaHook, _ params: LuaValue, _ usedBy: String, _ limits: LuaCallLimits?, shadow: ShadowTally? = nil
    ) throws(PluginError) -> PluginUse {
        while true {
            let record = try known(plugin)
            let version = try versionInForce(record)
            let preparation: UsePreparation
            var waits = false
            do { preparation = try UsePreparation(version, hook: hook, params: params, usedBy: usedBy, files: core.files) } catch {
                guard let successor = record.read({ $0.successor }),
                    let suited = try? UsePreparation(successor, hook: hook, params: params, usedBy: usedBy, files: core.files)
                else { throw error }
                (preparation, waits) = (suited, true)
            }
            let number = LoadedVersion.nextSerial()
            let versions = EventHub<String>(kept: 16)
            let most = core.limits.usesPerPlugin
            enum Entry { case made, again, full }
            let entry = record.change { [waits] fields -> Entry in
                // Since the lookup, another version was put in force, or the plugin was removed.
                guard !fields.isRemoved, fields.inForce?.serial == version.serial else { return .again }
                guard fields.uses.count < most else { return .full }
                fields.uses[number] = PluginRecord.Registration(
                    usedBy: usedBy, hook: hook, params: params, texts: preparation.texts, fileProblems: [:], versions: versions,
                    breaker: record.newBreaker(hook), limits: limits, shadow: shadow)
                if !waits { fields.prepared[number] = preparation.prepared }
                return .made
            }
            switch entry {
            case .again: continue
            case .full: throw .limit(name: "uses of a plugin", limit: most, plugin: plugin)
            case .made: break
            }
            // Only files have to be watched at once; a refused or missing version may be waiting for a change of its uses.
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

    // MARK: Plugins and versions

    /// Reads the folder now, retrying refused versions, and offers what was held because of failing plugins again.
    ///
    /// - Parameter name: the plugin whose verdict is returned and whose rollback ends; all plugins are updated in any case. The result is
    ///   empty if there is no such plugin.
    package func reload(_ name: String? = nil) async -> [ReloadVerdict] {
        await withCheckedContinuation { supervisor.post(.reload(name, $0)) }
    }

    /// Puts versions in force that were refused because of uses which a changed configuration has replaced, and for which new uses wait. Older uses
    /// that such a version does not suit are no longer called.
    package func promoteSuccessors() async {
        let isWanted = core.allRecords().contains { $0.read { fields in fields.successor != nil && fields.uses.contains { fields.prepared[$0.key] == nil } } }
        if isWanted { await withCheckedContinuation { supervisor.post(.promote($0)) } }
    }

    /// Puts an older version in force for all uses at the same moment, after the same checks as for a reload. The rollback lasts, even across
    /// restarts, until the plugin's files change or `reload` names the plugin. Nothing is written to the plugins folder.
    ///
    /// - Parameter version: the beginning of a stored version's name; nil for the version before the one in force.
    package func rollBack(_ name: String, to version: String? = nil) async throws(PluginError) -> ReloadVerdict {
        let result: Result<ReloadVerdict, PluginError> = await withCheckedContinuation {
            supervisor.post(.rollback(name, to: version, $0))
        }
        return try result.get()
    }

    /// Offers everything again that is held because a plugin failed, even where it is no longer called.
    ///
    /// - Parameter name: nil for all plugins.
    /// - Returns: the plugins concerned, with the number of places that use each.
    package func retry(_ name: String? = nil) throws(PluginError) -> [(plugin: String, uses: Int)] {
        let records = if let name { [try known(name)] } else { core.allRecords() }
        return records.map { ($0.name, $0.retry()) }
    }

    /// The plugins in force, ordered by name.
    package func list() -> [PluginListing] {
        core.allRecords().compactMap { record in
            record.read { $0.inForce }.map { PluginListing($0) }
        }
    }

    /// All plugins, including those that are refused or missing, ordered by name.
    package func status() -> [PluginStatus] { core.allRecords().map { $0.status() } }

    /// The files of the version in force: the plugin's own, the modules that it can load, and its tests, with paths relative to the plugins
    /// folder.
    package func source(_ plugin: String) throws(PluginError) -> (version: String, files: [(path: String, bytes: [UInt8])]) {
        let source = try versionInForce(try known(plugin)).source
        let modules = source.modules.values.sorted { $0.path < $1.path }
        return (source.version, ([source.main] + modules + (source.tests.map { [$0] } ?? [])).map { (path: $0.path, bytes: $0.bytes) })
    }

    /// The text in force of a file parameter at one use of a plugin, with the file's path and digest.
    package func text(of parameter: String, plugin: String, usedBy: String) -> (bytes: [UInt8], path: String, digest: [UInt8])? {
        core.record(named: plugin)?.read { fields in
            fields.uses.values.first { $0.usedBy.utf8.elementsEqual(usedBy.utf8) }?.texts[parameter].map { ($0.bytes, $0.path, $0.digest) }
        }
    }

    /// Whether the folder contains files of this plugin, valid or not.
    package func folderHas(_ plugin: String) -> Bool {
        let scan = FolderScan.read(core.folder, core.limits, only: core.only)
        return scan.sources[plugin] != nil || scan.refused[plugin] != nil
    }

    /// Problems of the folder itself and of files that do not belong to a plugin.
    package func folderProblems() -> [PluginProblem] { core.folderProblems.withLock { $0 } }

    /// Events from now on. A slow subscriber loses the oldest events.
    package func events() -> AsyncStream<PluginEvent> { core.events.stream() }
}

extension PluginListing {
    init(_ version: LoadedVersion) {
        self.init(
            name: version.source.name, file: version.source.main.path, version: version.source.version,
            description: version.description, hooks: version.hookNames, parameters: version.declarations.all)
    }
}
