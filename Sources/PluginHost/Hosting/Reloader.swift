import LuaRuntime

/// Brings what is in force into line with the folder. Confined to the supervisor's thread.
final class Reloader {
    private let core: HostCore
    private var lastFailure: String?

    init(_ core: HostCore) { self.core = core }

    /// Reads the folder and changes what has to change.
    ///
    /// - Parameter isForced: tries refused versions again although their files are the same.
    func rescan(isForced: Bool, _ watch: inout FolderWatch) -> [ReloadVerdict] {
        var scan = FolderScan.read(core.folder, core.limits)
        // Watches first, contents second: what changes after the reading is noticed. A folder found by the reading is
        // watched and everything read again.
        var watched: [String] = []
        for _ in 0..<5 where watched != scan.directories || watched.isEmpty {
            watch.watch(folder: core.folder, directories: scan.directories, files: parameterFilePaths())
            watched = scan.directories
            scan = FolderScan.read(core.folder, core.limits)
            if watched.isEmpty { break }
        }
        reportFolder(scan)

        var verdicts: [ReloadVerdict] = []
        let known = core.records.withLock { Array($0.keys) }
        for name in Set(known).union(scan.sources.keys).union(scan.refused.keys).sorted() {
            let outcome: ReloadVerdict.Outcome
            if let problem = scan.refused[name] {
                outcome = refuse(record(name), nil, problem)
            } else if let source = scan.sources[name] {
                outcome = take(source, record(name), isForced: isForced)
            } else {
                outcome = missing(record(name))
            }
            let record = core.record(named: name)
            record?.reportDropped(record?.throttle.takeUntold() ?? 0)
            let (generation, version) = record?.read { ($0.generation, $0.inForce?.source.version) } ?? (0, nil)
            verdicts.append(ReloadVerdict(plugin: name, generation: generation, version: version, outcome: outcome))
        }
        for record in core.allRecords() { refreshFiles(record) }
        return verdicts
    }

    private func parameterFilePaths() -> [String] {
        core.allRecords().flatMap { record in
            record.read { fields in
                fields.uses.values.flatMap { use in use.texts.values.map(\.path) }
            }
        }
    }

    private func record(_ name: String) -> PluginRecord {
        core.records.withLock { records in
            if let known = records[name] { return known }
            let made = PluginRecord(
                name: name, limits: core.limits, services: core.services, logger: core.logger, events: core.events)
            records[name] = made
            return made
        }
    }

    private func reportFolder(_ scan: FolderScan) {
        var problems = scan.problems
        if let failure = scan.failure { problems.insert(PluginProblem(file: "", message: failure), at: 0) }
        let new = core.folderProblems.withLock { old in
            defer { old = problems }
            return problems.filter { !old.contains($0) }
        }
        for problem in new {
            PluginEvent.folder(problem).log(to: core.logger)
            core.events.send(.folder(problem))
        }
    }

    // MARK: One plugin

    private func take(_ source: PluginSource, _ record: PluginRecord, isForced: Bool) -> ReloadVerdict.Outcome {
        let (current, refused, wasMissing) = record.read { ($0.inForce?.source.version, $0.refused, $0.isMissing) }
        if current == source.version {
            record.change { fields in
                fields.isMissing = false
                fields.refused = nil
            }
            if wasMissing { record.send(.returned(plugin: record.name, version: source.version)) }
            if refused != nil { record.send(.restored(plugin: record.name, version: source.version)) }
            return .unchanged
        }
        // The same bytes would be refused again.
        if let refused, refused.isFinal, refused.identity == source.identity, !isForced { return .refused(refused.problem) }
        switch VersionLoader.load(source, limits: core.limits.limits(for: record.name), pool: core.pool) {
        case .failure(let problem): return refuse(record, source, problem)
        case .success(let version): return bring(version, into: record)
        }
    }

    private func bring(_ version: LoadedVersion, into record: PluginRecord) -> ReloadVerdict.Outcome {
        let source = version.source
        if let problem = core.proof.prove(PluginCandidate(version)) { return refuse(record, source, problem) }
        while true {
            let uses = record.read { $0.uses }
            var preparations: [Int: UsePreparation] = [:]
            for (number, use) in uses.sorted(by: { $0.key < $1.key }) {
                do {
                    preparations[number] = try UsePreparation(
                        version, hook: use.hook, params: use.params, usedBy: use.usedBy, files: core.files, previous: use.texts)
                } catch {
                    // Another configuration or a file that appears may make it fit: it is tried again at each reading.
                    return refuse(
                        record, source, PluginProblem(plugin: record.name, file: source.main.path, message: error.reasonForRefusal),
                        isFinal: false)
                }
            }
            // A use that has come meanwhile must be checked too.
            let swapped = record.change { fields -> (from: String?, listeners: [(EventHub<String>, String)])? in
                guard fields.uses.keys.allSatisfy({ preparations[$0] != nil }) else { return nil }
                let from = fields.inForce?.source.version
                fields.inForce = version
                fields.prepared = [:]
                var listeners: [(EventHub<String>, String)] = []
                for number in Array(fields.uses.keys) {
                    guard let preparation = preparations[number] else { continue }
                    fields.prepared[number] = preparation.prepared
                    fields.uses[number]?.texts = preparation.texts
                    fields.uses[number]?.fileProblems = preparation.fileProblems
                    if let versions = fields.uses[number]?.versions { listeners.append((versions, preparation.prepared.version)) }
                }
                fields.generation += 1
                fields.refused = nil
                fields.isMissing = false
                fields.seenFailures = []
                return (from, listeners)
            }
            guard let swapped else { continue }
            record.statistics.versionChanged()
            for (versions, name) in swapped.listeners { versions.send(name) }
            if let from = swapped.from {
                record.send(.reloaded(plugin: record.name, from: from, to: source.version))
            } else {
                record.send(.loaded(plugin: record.name, version: source.version))
            }
            return .reloaded
        }
    }

    private func refuse(
        _ record: PluginRecord, _ source: PluginSource?, _ problem: PluginProblem, isFinal: Bool = true
    ) -> ReloadVerdict.Outcome {
        let version = source?.version ?? ""
        let new = PluginRecord.Refused(version: version, identity: source?.identity ?? "", problem: problem, isFinal: isFinal)
        let (isNew, serving) = record.change { fields in
            defer {
                fields.refused = new
                fields.isMissing = false
            }
            return (fields.refused != new, fields.inForce?.source.version)
        }
        if isNew { record.send(.refused(plugin: record.name, version: version, serving: serving, problem: problem)) }
        return .refused(problem)
    }

    private func missing(_ record: PluginRecord) -> ReloadVerdict.Outcome {
        let (isRemoved, isNew, serving) = record.change { fields in
            if fields.uses.isEmpty {
                fields.isRemoved = true
                return (true, false, "")
            }
            defer {
                fields.isMissing = true
                fields.refused = nil
            }
            return (false, !fields.isMissing, fields.inForce?.source.version ?? "")
        }
        if isRemoved {
            core.records.withLock { $0[record.name] = nil }
            record.send(.removed(plugin: record.name))
        } else if isNew {
            record.send(.missing(plugin: record.name, serving: serving))
        }
        return .missing
    }

    // MARK: Files given as parameters

    private func refreshFiles(_ record: PluginRecord) {
        let (version, uses) = record.read { ($0.inForce, $0.uses.filter { !$0.value.texts.isEmpty }) }
        guard let version else { return }
        for (number, use) in uses {
            guard let fresh = try? UsePreparation(
                version, hook: use.hook, params: use.params, usedBy: use.usedBy, files: core.files, previous: use.texts)
            else { continue }
            let changed = fresh.texts.filter { $0.value.digest != use.texts[$0.key]?.digest }.keys.sorted()
            let broken = fresh.fileProblems.filter { use.fileProblems[$0.key] != $0.value }
            let isCurrent = record.change { fields in
                guard fields.inForce?.serial == version.serial, fields.uses[number] != nil else { return false }
                fields.uses[number]?.texts = fresh.texts
                fields.uses[number]?.fileProblems = fresh.fileProblems
                if !changed.isEmpty { fields.prepared[number] = fresh.prepared }
                return true
            }
            guard isCurrent else { continue }
            for name in changed { record.send(.parameterFileChanged(plugin: record.name, usedBy: use.usedBy, parameter: name)) }
            for (name, message) in broken.sorted(by: { $0.key < $1.key }) {
                record.send(.parameterFileRefused(plugin: record.name, usedBy: use.usedBy, parameter: name, message: message))
            }
            if !changed.isEmpty { use.versions.send(fresh.prepared.version) }
        }
    }
}
