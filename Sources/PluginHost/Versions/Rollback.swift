/// Versions that were in force before: stored, restored by an operator, or served when there is nothing better.
extension Reloader {
    /// Puts a stored version in force, until the plugin's files change or a reload names the plugin.
    func rollBack(_ name: String, to wanted: String?) throws(PluginError) -> ReloadVerdict {
        guard let record = core.record(named: name), let inForce = record.read({ $0.inForce })?.source.version else {
            throw .unknown(
                plugin: name, folder: core.folder, nearest: PluginName.nearest(to: name, among: core.allRecords().map(\.name)))
        }
        let versions = store.index(name).kept.map(\.version)
        let target: String?
        if let wanted {
            let matches = versions.filter { !wanted.isEmpty && $0.utf8.starts(with: wanted.utf8) }
            target = matches.count == 1 ? matches.first : nil
        } else {
            target = versions.firstIndex(of: inForce).flatMap { $0 > 0 ? versions[$0 - 1] : nil }
        }
        guard let target else { throw .noVersion(plugin: name, wanted: wanted, kept: versions) }
        func verdict(_ outcome: ReloadVerdict.Outcome) -> ReloadVerdict {
            ReloadVerdict(plugin: name, generation: record.read { $0.generation }, version: target, outcome: outcome)
        }
        if target == inForce { return verdict(.unchanged) }
        // After a further rollback, the folder still contains the version from before the first one.
        let origin = record.read { $0.rollback?.from } ?? inForce
        let source: PluginSource
        do { source = try store.source(name, target) } catch { throw .system("plugin \"\(name)\": \(error.message)") }
        if let problem = core.seal()?.refusal(of: source) { throw .refused(plugin: name, problem: problem) }
        switch VersionLoader.load(source, host: core.limits, pool: core.pool, core.environment) {
        case .failure(let problem): throw .refused(plugin: name, problem: problem)
        case .success(let version):
            if let obstacle = activateVersion(version, record) { throw .refused(plugin: name, problem: obstacle.problem) }
        }
        do {
            try store.rolledBack(to: source, from: origin, identity: identities[name] ?? "")
        } catch {
            record.send(.notKept(plugin: name, version: target, message: error.message))
        }
        let rollback = PluginRollback(from: origin, to: target)
        show(record, rollback)
        record.send(.rolledBack(plugin: name, from: inForce, to: target))
        return verdict(.rolledBack(rollback))
    }

    /// A rollback is in effect: its version is in force, or at a start is put in force instead of the file's.
    ///
    /// - Returns: nil if that version is no longer available, or is not signed with a trusted key; the file's version is used then.
    func hold(_ rollback: PluginRollback, _ record: PluginRecord, _ demand: Demand) -> ReloadVerdict.Outcome? {
        if let seal = core.seal(), let source = try? store.source(record.name, rollback.to), let problem = seal.refusal(of: source) {
            record.send(.refused(plugin: record.name, version: rollback.to, serving: nil, problem: problem))
            endRollback(record)
            return nil
        }
        if record.read({ $0.inForce?.source.version }) == rollback.to {
            show(record, rollback)
            return unchanged(record, demand)
        }
        do throws(FileRefusal) {
            let source = try store.source(record.name, rollback.to)
            switch VersionLoader.load(source, host: core.limits, pool: core.pool, core.environment) {
            case .failure(let problem): throw FileRefusal(message: problem.description)
            case .success(let version):
                if let obstacle = activateVersion(version, record, proves: false) { throw FileRefusal(message: obstacle.problem.description) }
            }
        } catch {
            record.send(.notKept(plugin: record.name, version: rollback.to, message: error.message))
            endRollback(record)
            return nil
        }
        show(record, rollback)
        return .reloaded
    }

    func endRollback(_ record: PluginRecord) {
        do { try store.endRollback(record.name) } catch {
            record.send(.notKept(plugin: record.name, version: "", message: error.message))
        }
        show(record, nil)
    }

    /// Stores the version in force.
    func keep(_ source: PluginSource, _ record: PluginRecord) {
        do { try store.recordActivation(source, now: core.environment.time.wallSeconds()) } catch {
            record.send(.notKept(plugin: record.name, version: source.version, message: error.message))
        }
        show(record, nil)
    }

    /// At a start, if the file is refused, the version that was last in force continues to serve. Its tests passed when it was accepted.
    ///
    /// - Returns: what is wrong with its signature, if that is why it does not serve.
    @discardableResult
    func servePreviousVersion(_ record: PluginRecord) -> PluginProblem? {
        guard record.read({ $0.inForce == nil }), !core.barred.withLock({ $0.contains(record.name) }), let last = store.index(record.name).current,
            let source = try? store.source(record.name, last)
        else { return nil }
        if let problem = core.seal()?.refusal(of: source) { return problem }
        guard case .success(let version) = VersionLoader.load(source, host: core.limits, pool: core.pool, core.environment) else { return nil }
        if activateVersion(version, record, proves: false) == nil { show(record, nil) }
        return nil
    }

    /// Stops calling the version in force while it lacks a trusted signature, and retries everything once it has one: signatures may have become
    /// required after it came into force, or its key may no longer be trusted.
    ///
    /// - Parameter found: the accepted version from the folder or elsewhere.
    /// - Returns: what is wrong with its signature.
    func seal(_ record: PluginRecord, _ found: PluginSource?) -> PluginProblem? {
        guard let source = record.read({ $0.inForce?.source }) else { return nil }
        var problem = found?.version == source.version ? nil : core.seal()?.refusal(of: source)
        // It may have been signed after it was loaded.
        if problem != nil, let kept = try? store.source(record.name, source.version) { problem = core.seal()?.refusal(of: kept) }
        let before = record.change { fields in
            defer { fields.unsigned = problem }
            return fields.unsigned
        }
        guard before != problem else { return problem }
        if let problem {
            record.send(.refused(plugin: record.name, version: source.version, serving: nil, problem: problem))
        } else if found == nil {
            record.send(.restored(plugin: record.name, version: source.version))
        }
        // Everything that it judged is judged again, and held.
        record.retry()
        return problem
    }

    private func show(_ record: PluginRecord, _ rollback: PluginRollback?) {
        let kept = store.index(record.name).kept
        record.change { fields in
            fields.kept = kept
            fields.rollback = rollback
        }
    }
}
