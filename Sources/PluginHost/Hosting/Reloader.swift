import Interfaces
import LuaRuntime

/// Updates what is in force according to the folder. Confined to the supervisor's thread.
final class Reloader {
    let core: HostCore

    let store: VersionStore
    /// Identities of the files at the last reading, by plugin.
    var identities: [String: String] = [:]
    /// True during the first reading, before anything may use a plugin: tests that have not run before are postponed.
    var isStarting = false

    init(_ core: HostCore) {
        self.core = core
        store = VersionStore(folder: core.versionsFolder, limits: core.limits)
    }

    /// What an operator asked for in addition to reading the folder.
    struct Demand {
        private(set) var isForAll = false
        private(set) var names: Set<String> = []

        mutating func add(_ name: String?) {
            if let name { names.insert(name) } else { isForAll = true }
        }

        /// Whether refused versions are tried again although their files are unchanged.
        var isForced: Bool { isForAll || !names.isEmpty }
        /// Whether what is held because of this plugin is tried again.
        func retries(_ name: String) -> Bool { isForAll || names.contains(name) }
    }

    /// Reads the folder and applies what has changed.
    func rescan(_ demand: Demand, _ watch: inout FolderWatch) -> [ReloadVerdict] {
        var scan = FolderScan.read(core.folder, core.limits, only: core.only, seal: core.seal(), supplied: core.supplied())
        // Watches are set up before the contents are read, so that later changes are noticed. If the reading finds a new folder, that is watched and
        // everything is read again.
        var watched: [String] = []
        for _ in 0..<5 where watched != scan.directories || watched.isEmpty {
            watch.watch(folder: core.folder, directories: scan.directories, files: parameterFilePaths())
            watched = scan.directories
            scan = FolderScan.read(core.folder, core.limits, only: core.only, seal: core.seal(), supplied: core.supplied())
            if watched.isEmpty { break }
        }
        reportFolder(scan)
        identities = scan.sources.mapValues(\.identity)

        var verdicts: [ReloadVerdict] = []
        let known = core.records.withLock { Array($0.keys) }
        let expected = core.expected.withLock { $0 ?? [] }
        if isStarting { for name in expected where scan.sources[name] == nil && scan.refused[name] == nil { serveMissing(name) } }
        for name in Set(known).union(scan.sources.keys).union(scan.refused.keys).sorted() where !core.isStopping {
            var outcome: ReloadVerdict.Outcome
            if var problem = scan.refused[name] {
                if let kept = servePreviousVersion(record(name)) { problem.message += "; nor can an older one stand in: \(kept.message)" }
                outcome = refuse(record(name), nil, problem)
            } else if let source = scan.sources[name] {
                if isStarting, mayWait(source) { continue }
                outcome = take(source, record(name), demand)
            } else {
                outcome = missing(record(name))
            }
            let record = core.record(named: name)
            if let record, let problem = seal(record, scan.sources[name]) {
                if case .refused = outcome {} else { outcome = .refused(problem) }
            }
            record?.reportDropped(record?.throttle.takeUnreported(now: core.environment.time.monotonicNanoseconds()) ?? 0)
            let (generation, version) = record?.read { ($0.generation, $0.unsigned == nil ? $0.inForce?.source.version : nil) } ?? (0, nil)
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
            let made = PluginRecord(name, core)
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

    private func take(_ source: PluginSource, _ record: PluginRecord, _ demand: Demand) -> ReloadVerdict.Outcome {
        let index = store.index(record.name)
        if let rollback = index.rollback {
            if demand.names.contains(record.name) || index.rollbackIdentity != source.identity {
                endRollback(record)
            } else if let outcome = hold(rollback, record, demand) {
                return outcome
            }
        }
        let (current, refused, proven) = record.read { ($0.inForce, $0.refused, $0.provenIdentity) }
        // The same files would be refused again.
        if let refused, refused.isFinal, refused.identity == source.identity, !demand.isForced { return .refused(refused.problem) }
        if let current, current.source.version == source.version {
            if proven != source.identity || refused?.identity == source.identity {
                // Only its tests have changed; if the version fails them it stays in force, and the failure is reported.
                if let problem = core.prove(source, current.limits) {
                    return refuse(record, source, problem)
                }
                record.change { $0.provenIdentity = source.identity }
                keep(source, record)
                if record.read({ $0.standing }) != .trusted {
                    // What was held because its tests failed is offered again.
                    record.stand(.trusted)
                    record.retry()
                }
            } else if let signature = source.signature, signature != current.source.signature {
                // The stored version has passed its tests: a later start does not run them again.
                keep(source, record)
            }
            return unchanged(record, demand)
        }
        switch VersionLoader.load(source, host: core.limits, pool: core.pool, core.environment) {
        case .failure(let problem):
            servePreviousVersion(record)
            return refuse(record, source, problem)
        case .success(let version):
            let isProven = current == nil && store.holds(source)
            let isForLater = isStarting && !isProven && source.tests != nil && core.expected.withLock { $0 } != nil
            if var obstacle = activateVersion(version, record, proves: !isProven && !isForLater, isTested: !isForLater) {
                servePreviousVersion(record)
                if !obstacle.isFinal { record.change { $0.successor = version } }
                if obstacle.isOfParameters { obstacle.problem.message += Self.wayOut }
                return refuse(record, source, obstacle.problem, isFinal: obstacle.isFinal)
            }
            if !isForLater { keep(source, record) }
            return .reloaded
        }
    }

    private static let wayOut = "; if the configuration is to change with the plugin, change it as well and reload: both then come into force together"

    /// Puts in force what uses of a changed configuration wait for.
    func promoteSuccessors() {
        for record in core.allRecords() {
            let (successor, waiting) = record.read { fields in (fields.successor, fields.uses.filter { fields.prepared[$0.key] == nil }.map(\.value)) }
            guard let successor, waiting.contains(where: { use in
                (try? UsePreparation(successor, hook: use.hook, params: use.params, usedBy: use.usedBy, files: core.files, previous: use.texts)) != nil
            }) else { continue }
            // Its tests have passed: only then does a version become a successor.
            if activateVersion(successor, record, proves: false, isPromoted: true) == nil { keep(successor.source, record) }
        }
    }

    func unchanged(_ record: PluginRecord, _ demand: Demand) -> ReloadVerdict.Outcome {
        let (version, wasMissing, wasRefused) = record.change { fields in
            defer {
                fields.isMissing = false
                fields.refused = nil
                fields.successor = nil
            }
            return (fields.inForce?.source.version ?? "", fields.isMissing, fields.refused != nil)
        }
        if wasMissing { record.send(.returned(plugin: record.name, version: version)) }
        if wasRefused { record.send(.restored(plugin: record.name, version: version)) }
        if demand.retries(record.name) { record.retry() }
        return .unchanged
    }

    /// Why a version does not come into force.
    struct Obstacle {
        var problem: PluginProblem
        /// The same files would be refused again.
        var isFinal: Bool
        /// It does not have the parameters of some use.
        var isOfParameters = false
    }

    /// Puts a version in force for all uses at the same moment, if it passes its tests and suits all uses.
    ///
    /// - Parameters:
    ///   - isTested: false if its tests run later; it is not called before they are over.
    ///   - isPromoted: uses that it does not suit are no longer called if there is a newer use at the same place: they are about to end.
    /// - Returns: why not.
    func activateVersion(_ version: LoadedVersion, _ record: PluginRecord, proves: Bool = true, isTested: Bool = true, isPromoted: Bool = false) -> Obstacle? {
        let source = version.source
        if proves, let problem = core.prove(source, version.limits) {
            return Obstacle(problem: problem, isFinal: true)
        }
        while true {
            let uses = record.read { $0.uses }
            var preparations: [Int: UsePreparation] = [:]
            var ending: Set<Int> = []
            for (number, use) in uses.sorted(by: { $0.key < $1.key }) where !version.hasInstead(of: use.hook) {
                do {
                    preparations[number] = try UsePreparation(
                        version, hook: use.hook, params: use.params, usedBy: use.usedBy, files: core.files, previous: use.texts)
                } catch where isPromoted && uses.contains(where: { $0.key > number && $0.value.usedBy.utf8.elementsEqual(use.usedBy.utf8) }) {
                    ending.insert(number)
                } catch {
                    // A changed configuration or a new file may make it suitable, so it is tried again at each reading.
                    var obstacle = Obstacle(
                        problem: PluginProblem(plugin: record.name, file: source.main.path, message: error.reasonForRefusal), isFinal: false)
                    if case .parameters = error { obstacle.isOfParameters = true }
                    return obstacle
                }
            }
            // A use that was added meanwhile must be checked too.
            let swapped = record.change { fields -> (from: String?, listeners: [(EventHub<String>, String)])? in
                guard fields.uses.allSatisfy({ preparations[$0] != nil || ending.contains($0) || version.hasInstead(of: $1.hook) }) else { return nil }
                let from = fields.serving
                fields.inForce = version
                if !isTested { fields.standing = .testing }
                fields.prepared = [:]
                var listeners: [(EventHub<String>, String)] = []
                for (number, use) in fields.uses {
                    guard let preparation = preparations[number] else {
                        // It is not called until a version has the hook again.
                        fields.uses[number]?.fileProblems = [:]
                        fields.uses[number]?.breaker = record.newBreaker(use.hook)
                        continue
                    }
                    fields.prepared[number] = preparation.prepared
                    fields.uses[number]?.texts = preparation.texts
                    fields.uses[number]?.fileProblems = preparation.fileProblems
                    fields.uses[number]?.breaker = record.newBreaker(use.hook)
                    listeners.append((use.versions, preparation.prepared.version))
                }
                fields.generation += 1
                fields.refused = nil
                fields.successor = nil
                fields.unsigned = nil
                fields.isMissing = false
                fields.rollback = nil
                fields.provenIdentity = isTested ? source.identity : ""
                fields.seenFailures = []
                return (from, listeners)
            }
            guard let swapped else { continue }
            record.throttle.allow(version.limits.logLinesPerSecond ?? core.limits.logLinesPerSecond)
            record.statistics.versionChanged()
            if isTested { record.stand(.trusted) }
            for (versions, name) in swapped.listeners { versions.send(name) }
            if let from = swapped.from {
                record.send(.reloaded(plugin: record.name, from: from, to: source.version))
            } else if isTested {
                record.send(.loaded(plugin: record.name, version: source.version))
            }
            return nil
        }
    }

    func refuse(
        _ record: PluginRecord, _ source: PluginSource?, _ problem: PluginProblem, isFinal: Bool = true
    ) -> ReloadVerdict.Outcome {
        // The results of tests that were cut short mean nothing.
        guard !core.isStopping else { return .unchanged }
        let version = source?.version ?? ""
        let new = PluginRecord.Refused(version: version, identity: source?.identity ?? "", problem: problem, isFinal: isFinal)
        let (isNew, serving) = record.change { fields in
            defer {
                fields.refused = new
                fields.isMissing = false
                if isFinal { fields.successor = nil }
            }
            return (fields.refused != new, fields.serving)
        }
        if isNew { record.send(.refused(plugin: record.name, version: version, serving: serving, problem: problem)) }
        return .refused(problem)
    }

    /// Whether it has tests that have not passed before, and nobody is waiting for it.
    private func mayWait(_ source: PluginSource) -> Bool {
        guard source.tests != nil, let expected = core.expected.withLock({ $0 }) else { return false }
        return !expected.contains(source.name) && !store.holds(source)
    }

    /// For a plugin that will be used and whose file was missing at the start: its last version serves, as if the file had been removed later.
    private func serveMissing(_ name: String) {
        guard PluginName.isValid(name), store.index(name).current != nil else { return }
        let record = record(name)
        let problem = servePreviousVersion(record)
        let serving = record.change { fields in
            fields.isMissing = true
            if var problem {
                problem.message = "the plugin's file is gone, and \(problem.message)"
                fields.refused = PluginRecord.Refused(version: "", identity: "", problem: problem, isFinal: true)
            }
            return fields.inForce?.source.version
        }
        if let serving {
            record.send(.missing(plugin: name, serving: serving))
        } else if problem == nil {
            core.records.withLock { $0[name] = nil }
        }
    }

    private func missing(_ record: PluginRecord) -> ReloadVerdict.Outcome {
        let isExpected = core.expected.withLock { $0?.contains(record.name) == true }
        let (isUsed, isRemoved, isNew, serving) = record.change { fields in
            let isUsed = !fields.uses.isEmpty
            // The time between the start and the plugin's first use.
            if !isUsed, isExpected, fields.isMissing { return (false, false, false, "") }
            if !isUsed {
                fields.isRemoved = true
                return (false, true, false, "")
            }
            defer {
                fields.isMissing = true
                fields.refused = nil
                fields.successor = nil
            }
            return (true, false, !fields.isMissing, fields.inForce?.source.version ?? "")
        }
        if isUsed { core.expected.withLock { _ = $0?.remove(record.name) } }
        if isRemoved {
            core.records.withLock { $0[record.name] = nil }
            record.send(.removed(plugin: record.name))
        } else if isNew {
            record.send(.missing(plugin: record.name, serving: serving))
        }
        return .missing
    }
}
