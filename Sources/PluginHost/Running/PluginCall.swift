import Encodings
import Interfaces
import LuaRuntime

/// What every call needs: the version to call, the use it is made for, and its origin.
struct PluginCall: Sendable {
    let record: PluginRecord
    /// The use's number in the record.
    let use: Int
    let hook: LuaHook
    let version: LoadedVersion
    let prepared: PreparedUse
    let breaker: Breaker
    let context: CallContext
    let limits: LuaCallLimits
    let sampleBytes: Int
    /// No caller waits for its answers.
    let isCandidate: Bool

    /// The queue of its jobs. If a plugin is its own candidate, with other parameters, jobs that a caller waits for are not queued behind the candidate's.
    var line: Int { isCandidate ? ~record.number : record.number }

    /// Counts a failure and converts it to the policy's error.
    func failed(_ failure: LuaFailure, sample: @autoclosure () -> Breaker.Sample? = nil) -> PolicyFailure {
        record.failed(failure, hook: hook, version: prepared.version)
        if let opened = breaker.failed(failure, for: context.peer, sample: sample()) { record.opened(opened, use: use, version: prepared.version) }
        return PolicyFailure(plugin: record.name, version: prepared.version, kind: failure.kind.rawValue, message: failure.message)
    }

    /// Called for each successful call.
    @inline(__always)
    func succeeded() {
        if breaker.succeeded(context.peer) { record.recovered(use: use, version: prepared.version) }
    }

    /// The host could not make the call.
    func refused(_ error: PluginError) -> PolicyFailure {
        PolicyFailure(plugin: record.name, version: prepared.version, kind: LuaFailureKind.error.rawValue, message: "\(error)")
    }

    /// The plugin is not called, because it keeps failing.
    func notAsked() -> PolicyFailure {
        let opened = breaker.opened(for: context.peer)
        let failures = opened.map { Plural.count($0.failures, "time") } ?? "too many times"
        let last = opened?.failure
        return PolicyFailure(
            plugin: record.name, version: prepared.version, kind: (last?.kind ?? .error).rawValue,
            message: "\(last?.message ?? "failing") (not called: it has failed \(failures) in a row; one call is tried from time to time)")
    }

    func sample(_ document: PolicyDocument) -> Breaker.Sample? {
        document.body.count <= sampleBytes ? .document(document, context) : nil
    }

    func sample(_ conflict: PolicyConflict) -> Breaker.Sample? {
        let bytes = [conflict.local, conflict.remote, conflict.base].reduce(0) { $0 + ($1?.body.count ?? 0) }
        return bytes <= sampleBytes ? .conflict(conflict, context) : nil
    }
}
