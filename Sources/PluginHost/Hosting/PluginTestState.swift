import Interfaces
import LuaRuntime

/// The result of the tests for the version in force.
///
/// A start does not wait for tests that have not run before, so that ports are opened first. Meanwhile, whatever needs the plugin waits for them,
/// except for logins, which are asked to try again.
enum PluginTestState: Sendable, Equatable {
    /// They have passed, or there are none.
    case trusted
    case testing
    /// They failed, and there was no earlier version that suits the plugin's uses. It is not called.
    case failed(PluginProblem)
}

extension PluginRecord {
    enum TestingPolicy { case waits, retriesLater }

    /// A call for this use, once the version's tests are over.
    ///
    /// - Throws: ``PolicyFailure`` if there is no version that may be called.
    func testedCall(_ use: Int, _ context: CallContext, _ whileTesting: TestingPolicy) async throws(PolicyFailure) -> PluginCall {
        if whileTesting == .waits { try await waitForTests() }
        let (standing, unsigned, version) = read { ($0.standing, $0.unsigned, $0.prepared[use]?.version ?? "") }
        if let unsigned { throw failure(version, "\(unsigned)") }
        switch standing {
        case .trusted: break
        case .testing:
            var failure = failure(version, "its tests are running, for the first time since its files changed")
            failure.resolvesItself = true
            throw failure
        case .failed(let problem): throw failure(version, "\(problem)")
        }
        if let call = call(use, context) { return call }
        guard read({ $0.successor }) == nil else {
            var failure = failure(version, "its next version comes into force with a new configuration")
            failure.resolvesItself = true
            throw failure
        }
        throw failure(version, "no version of the plugin is in force")
    }

    private func failure(_ version: String, _ message: String) -> PolicyFailure {
        PolicyFailure(plugin: name, version: version, kind: LuaFailureKind.load.rawValue, message: message)
    }

    private func waitForTests() async throws(PolicyFailure) {
        guard read({ $0.standing }) == .testing else { return }
        let isTaken = await withCheckedContinuation { continuation in
            let answer = change { fields -> Bool? in
                guard fields.standing == .testing else { return true }
                guard fields.waiting.count < mostWaiting else { return false }
                fields.waiting.append(continuation)
                return nil
            }
            if let answer { continuation.resume(returning: answer) }
        }
        guard isTaken else { throw failure("", "its tests are running, and as many calls wait for them as queued calls (\(mostWaiting)) allows") }
    }

    /// The tests have ended; whatever waits for them continues.
    func stand(_ standing: PluginTestState) {
        let waiting = change { fields in
            defer { fields.waiting = [] }
            fields.standing = standing
            return fields.waiting
        }
        for continuation in waiting { continuation.resume(returning: true) }
    }
}

extension Reloader {
    /// For plugins in use, runs the tests that a start has postponed.
    func finishTests() {
        for record in core.allRecords() where record.read({ $0.standing }) == .testing {
            guard !core.isStopping, let version = record.read({ $0.inForce }) else { continue }
            guard let problem = core.prove(version.source, version.limits) else {
                record.change { $0.provenIdentity = version.source.identity }
                keep(version.source, record)
                record.stand(.trusted)
                record.send(.loaded(plugin: record.name, version: version.source.version))
                continue
            }
            guard !core.isStopping else { return }
            if !servesPreviousVersion(instead: record) { record.stand(.failed(problem)) }
            _ = refuse(record, version.source, problem)
        }
    }

    /// Puts the previous version in force, if it is stored and suits all uses.
    private func servesPreviousVersion(instead record: PluginRecord) -> Bool {
        guard !core.barred.withLock({ $0.contains(record.name) }), let last = store.index(record.name).current, let source = try? store.source(record.name, last),
            core.seal()?.refusal(of: source) == nil, case .success(let version) = VersionLoader.load(source, host: core.limits, pool: core.pool, core.environment)
        else { return false }
        return activateVersion(version, record, proves: false) == nil
    }
}
