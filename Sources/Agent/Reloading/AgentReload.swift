import AgentConfiguration
import Documents
import DocumentStore
import Interfaces
import Logging

/// A reload is a single step: what the new configuration needs is prepared first, while the old one is still in use, and then one replaces the other.
/// If anything fails on the way, all parts keep the old configuration.
extension Agent {
    /// Created before anything is stopped.
    private struct Prepared {
        var databases: [String: Database] = [:]
        /// Those that are bound refuse peers until they are opened.
        var listeners: [(listener: PeerListener, isBound: Bool)] = []
    }

    /// Applies the configuration as it is when its turn comes; unchanged parts keep running.
    ///
    /// - Parameters:
    ///   - examine: reads as much of the configuration as is valid if `load` finds an error, so that other errors are reported along with it.
    ///   - advise: what else is worth a warning in a configuration that is in force now.
    /// - Throws: what is wrong with the configuration; the old one then stays in force. New plugin versions found on the way stay in force: plugin
    ///   files take effect by themselves, whatever the configuration says.
    package func reload(
        _ load: @Sendable () throws -> AgentSettings,
        examine: @Sendable () -> (settings: AgentSettings?, problems: ConfigurationProblems?) = { (nil, nil) },
        advise: @Sendable (AgentSettings) -> [String] = { _ in [] }
    ) async throws -> ReloadOutcome {
        await reloads.enter()
        defer {
            nextStart.forget()
            reloads.leave()
        }
        do {
            let wanted: AgentSettings
            do { wanted = try load() } catch let error as ConfigurationProblems {
                let (settings, found) = examine()
                guard let settings, let found,
                    let report = try? await ConfigurationCheck.run(settings, environment, found: found, testsAll: false)
                else { throw error }
                throw AgentError(.configuration, report.problems.joined(separator: "\n"))
            }
            var outcome = try await apply(wanted)
            shared.withLock { $0.refusedReload = nil }
            retryAllNow("the configuration was loaded")
            fleet?.retry()
            audit.note(.init(who: "agent", from: "", action: "configuration loaded", target: outcome.done.joined(separator: "; "), outcome: "in force"))
            // Discards the result of a check that ran before the change.
            nextStart.forget()
            let obstacles = nextStart.problems(settings).map { "the next start would fail: \($0)" }
            for line in obstacles { log.warning("\(line)") }
            for line in advise(wanted) + obstacles where !outcome.warnings.contains(line) { outcome.warnings.append(line) }
            return outcome
        } catch {
            let now = environment.time.wallSeconds()
            audit.note(.init(who: "agent", from: "", action: "configuration loaded", outcome: "refused"))
            // Discards the result of a check that ran before the change.
            nextStart.forget()
            shared.withLock { $0.refusedReload = ("\(error)", $0.refusedReload?.since ?? now) }
            throw error
        }
    }

    /// Puts other fragments of the fleet in force; the file is not read again, because an operator may be editing it.
    ///
    /// - Parameter name: the fragment that has to fit.
    func configure(_ fragments: [ConfigurationFragment], _ name: String) async throws -> [String] {
        await reloads.enter()
        defer {
            nextStart.forget()
            reloads.leave()
        }
        // The caller may have been replaced meanwhile.
        guard !Task.isCancelled, !isStopping else { throw CancellationError() }
        let wanted = settings.overlaid(with: fragments)
        if let refused = wanted.refusedFragments.first(where: { $0.fragment.name == name }) { throw refused.problems }
        let done = try await apply(wanted).done
        audit.note(.init(who: "fleet", from: "", action: "configuration loaded", target: done.joined(separator: "; "), outcome: "in force"))
        return done
    }

    private func apply(_ wanted: AgentSettings) async throws -> ReloadOutcome {
        await tlsFiles.refresh()
        // An empty file is what a failing editor or copy leaves behind; nobody means to close every database that way.
        if let lost = wanted.lostDatabases(from: settings) { throw ConfigurationProblems([lost]) }
        let report = try await ConfigurationCheck.run(wanted, environment, testsAll: false)
        if !report.problems.isEmpty { throw AgentError(.configuration, report.problems.joined(separator: "\n")) }
        let warnings = report.warnings + ConfigurationCheck.socketObstacles(wanted).advice.map(\.description)
        let stopped = listeners.filter { $0.binding.condition.word == "stopped" }
        let waiting = listeners.filter { $0.binding.condition.error != nil }
        let plan = ReloadPlan(
            from: settings, to: wanted, stopped: Set(stopped.map(\.settings.name.value)), waiting: Set(waiting.map(\.settings.name.value)),
            hasPlugins: plugins != nil)
        guard !plan.change.isEmpty else {
            shared.withLock {
                $0.settings = plan.new
                $0.waitingForStart = []
            }
            return ReloadOutcome(done: ["nothing changed"], warnings: warnings)
        }
        shared.withLock { $0.waitingForStart = plan.waitingForStart }
        var done: [String] = []
        if !plan.waitingForStart.isEmpty {
            let names = plan.waitingForStart.joined(separator: ", ")
            log.warning("changes of \(names) take effect at the next start")
            done.append("\(names): at the next start")
            if plan.waitingForStart.contains("admin"), let unused = AdminTokenFile.unused(wanted) { done.append("from then on: \(unused.message)") }
        }
        for line in warnings { log.warning("\(line)") }
        // The check has read the folder, so it knows a plugin that was copied in just now; the folder watcher may not have noticed it yet.
        if plan.changesFleet {
            try openFleetStore(plan.new)
            try await startPlugins(plan.new)
        }
        let newPlugins = await plugins?.reload().filter { $0.outcome == .reloaded }.map(\.plugin) ?? []
        do {
            if plan.startsPlugins {
                try await startPlugins(plan.new)
                done.append("plugins started from \(plan.new.plugins?.value ?? "")")
            }
            let prepared = try await prepare(plan)
            do {
                done += try await commit(plan, prepared)
            } catch {
                await withdraw(prepared)
                await restore(plan, stopped: stopped)
                throw error
            }
        } catch where plan.startsPlugins {
            await stopPlugins()
            throw error
        } catch where plan.waitingForStart.contains("plugins") {
            // The new folder passed its checks, and has the plugins that the old one lacks.
            throw AgentError(
                .configuration,
                "\(error)\nplugins: the agent continues with the folder \(settings.plugins?.value ?? "none") until it is restarted, but the new configuration needs "
                    + "the other one: restart the agent, or copy the plugins there first")
        } catch where !newPlugins.isEmpty {
            log.notice("the configuration is refused, but new versions of plugins are in force all the same: \(newPlugins.joined(separator: ", "))")
            throw error
        }
        for line in done { log.info("configuration reloaded: \(line)") }
        return ReloadOutcome(done: done, warnings: warnings)
    }

    // MARK: - Before anything changes

    private func prepare(_ plan: ReloadPlan) async throws -> Prepared {
        var prepared = Prepared()
        do {
            let source = PolicySource(settings: plan.new, plugins: plugins)
            for wanted in plan.new.databases {
                let name = wanted.name.value
                let database: Database
                if let open = self.database(name) {
                    database = open
                } else {
                    database = try makeDatabase(wanted, plan.new)
                    prepared.databases[name] = database
                }
                _ = try source.conflictPolicy(wanted.conflictResolver, database: database, usedBy: "database \(name)")
                if let reference = wanted.validate { _ = try source.syncFunction(reference, usedBy: "database \(name) validate", isForRouting: false) }
            }
            // Made only to see whether they can be: their database may have to be opened again first.
            let silent = Logger(label: "nightjar.reload") { _ in SwiftLogNoOpLogHandler() }
            for wanted in plan.startedReplicators {
                guard let database = database(wanted.database.value) ?? prepared.databases[wanted.database.value] else { continue }
                _ = try makeReplicator(wanted, database: database, source, logger: silent)
            }
            for wanted in plan.startedListeners {
                let listener = try makeListener(wanted, source)
                let mustWait = plan.mustWait(wanted) || plan.mayWait(wanted)
                if !mustWait { try await bind(listener) }
                prepared.listeners.append((listener, !mustWait))
            }
            return prepared
        } catch {
            await withdraw(prepared)
            throw error
        }
    }

    private func withdraw(_ prepared: Prepared) async {
        for (listener, isBound) in prepared.listeners where isBound { await listener.stop(code: 1001) }
        for database in prepared.databases.values { database.close() }
    }

    // MARK: - The change

    private func commit(_ plan: ReloadPlan, _ prepared: Prepared) async throws -> [String] {
        var done: [String] = []
        // A version that only uses with other parameters kept out comes into force with this configuration.
        let before = Dictionary((plugins?.list() ?? []).map { ($0.name, $0.version) }) { first, _ in first }
        await stopKeepers()
        done += await stopReplicators(plan.replicatorsToStop, removed: Set(plan.change.replicators.removed))
        done += await stopListeners(plan.listenersToStop, removed: Set(plan.change.listeners.removed), closing: plan.touchedResolvers)
        for name in plan.closedDatabases.sorted() {
            shared.withLock { $0.databases.removeValue(forKey: name) }?.close()
            done.append("database \(name) closed" + (plan.change.databases.removed.contains(name) ? "; its folder stays, with what was not replicated" : ""))
        }
        shared.withLock { state in
            state.settings = plan.new
            state.databases.merge(prepared.databases) { _, new in new }
        }
        openBlobs.limit = descriptors.blobs
        if plan.changesBlobLimit {
            for database in databases { database.blobs.maxBytes = UInt64(plan.new.limits.maxBlobBytes) }
            done.append("limits.max_blob_bytes applied")
        }
        for wanted in plan.new.databases {
            let name = wanted.name.value
            if let open = database(name) {
                for collection in wanted.collections { _ = try open.createCollection(CollectionName(collection.value)) }
                if prepared.databases[name] != nil { done.append("database \(name) opened") }
            } else {
                try open(wanted, plan.new)
                done.append("database \(name) opened")
            }
        }
        for name in plan.changedQuotas.sorted() {
            disks.change(quota: plan.new.database(named: name)?.quota, of: name)
            done.append("database \(name): quota applied")
        }
        for name in plan.changedWarnings.sorted() {
            setWarning(of: name, as: plan.new)
            done.append("database \(name): warn_document_bytes applied")
        }
        if plan.changesFleet { await followFleet(plan.new) }
        try preparePolicies(plan.new, changed: plan.touchedResolvers)
        for (listener, isBound) in prepared.listeners {
            var obstacle: ReplicationError?
            if !isBound, plan.mayWait(listener.settings) {
                obstacle = try await bindUnlessBlocked(listener)
            } else if !isBound {
                try await bind(listener)
            }
            guard !isStopping else {
                await listener.stop(code: 4001)
                throw AgentError(.failed, "the agent stops")
            }
            done.append(take(listener, obstacle))
        }
        await plugins?.promoteSuccessors()
        for plugin in plugins?.list() ?? [] where before[plugin.name].map({ $0 != plugin.version }) == true {
            done.append("plugin \(plugin.name): version \(plugin.version) in force")
        }
        // An operator who changes a replicator's settings wants to see it run with them, even if it had been stopped.
        shared.withLock { state in for replicator in plan.change.replicators.changed { state.replicatorHalts[replicator.name] = nil } }
        for replicator in plan.startedReplicators {
            let outcome = try await startReplicator(replicator)
            done.append("replicator \(replicator.name.value) \(outcome)")
        }
        try await keep(plan.new)
        if plan.change.global.contains(.disk) {
            await checkDisks()
            done.append("disk applied")
        }
        if plan.changesFleet {
            stopFleet()
            try startFleet(plan.new)
            if plan.change.global.contains(.fleet) { done.append("fleet applied") }
        }
        if plan.change.global.contains(.log) {
            logs.apply(plan.new.log)
            done.append("log applied")
        }
        // A later replicator with the same name is a different one.
        shared.withLock { state in for name in plan.change.replicators.removed { state.replicatorHalts[name] = nil } }
        if !plan.change.replicators.removed.isEmpty { forgetHubs(plan.new) }
        // A pull that waits for disk space checks at increasing intervals.
        for replicator in replicators where plan.changedQuotas.contains(replicator.configuration.database.name) && replicator.status.refusals.space != nil {
            environment.task { _ = await replicator.retryWaiting() }
        }
        return done
    }

    /// Applies the document size above which a database warns.
    private func setWarning(of name: String, as settings: AgentSettings) {
        if let wanted = settings.database(named: name) { database(name)?.largeDocuments.limit = wanted.warnDocumentBytes }
    }

    /// Restores what a failed commit has stopped.
    ///
    /// - Parameter stopped: listeners that an operator had stopped.
    private func restore(_ plan: ReloadPlan, stopped: [PeerListener]) async {
        guard !isStopping else { return }
        let keptListeners = Set(plan.old.listeners.map(\.name.value)).subtracting(plan.listenersToStop)
        let keptReplicators = Set(plan.old.replicators.map(\.name.value)).subtracting(plan.replicatorsToStop)
        await stopKeepers()
        _ = await stopReplicators(Set(replicators.map(\.configuration.name)).subtracting(keptReplicators), removed: [])
        _ = await stopListeners(Set(listeners.map(\.settings.name.value)).subtracting(keptListeners), removed: [])
        let keptDatabases = Set(plan.old.databases.map(\.name.value)).subtracting(plan.closedDatabases)
        let closed = shared.withLock { state in
            let closed = state.databases.filter { !keptDatabases.contains($0.key) }
            for name in closed.keys { state.databases[name] = nil }
            state.settings = plan.old
            return closed
        }
        for database in closed.values { database.close() }
        for database in databases { database.blobs.maxBytes = UInt64(plan.old.limits.maxBlobBytes) }
        func attempt(_ what: String, _ work: () async throws -> Void) async {
            do { try await work() } catch { log.error("\(what) of the old configuration cannot be restored: \(error)") }
        }
        for wanted in plan.old.databases where database(wanted.name.value) == nil {
            await attempt("database \(wanted.name.value)") { try open(wanted, plan.old) }
        }
        for name in plan.changedQuotas where keptDatabases.contains(name) { disks.change(quota: plan.old.database(named: name)?.quota, of: name) }
        for name in plan.changedWarnings where keptDatabases.contains(name) { setWarning(of: name, as: plan.old) }
        if plan.changesFleet { await followFleet(plan.old) }
        await attempt("the conflict resolvers") { try preparePolicies(plan.old, changed: plan.touchedResolvers) }
        for wanted in plan.old.listeners where plan.listenersToStop.contains(wanted.name.value) {
            if let listener = stopped.first(where: { $0.settings.name.value == wanted.name.value }) {
                shared.withLock { $0.listeners.append(listener) }
            } else {
                await attempt("listener \(wanted.name.value)") { try await startListener(wanted) }
            }
        }
        for wanted in plan.old.replicators where plan.replicatorsToStop.contains(wanted.name.value) {
            await attempt("replicator \(wanted.name.value)") { _ = try await startReplicator(wanted) }
        }
        await attempt("the keepers") { try await keep(plan.old) }
        if plan.changesFleet {
            stopFleet()
            await attempt("the fleet") { try startFleet(plan.old) }
        }
    }
}
