import LuaRuntime
import Replication

/// One peer for an authenticator.
final class AuthenticationJob: PluginJob {
    /// What the peer shows.
    enum Question: Sendable {
        case password(username: String, password: String)
        case certificate([PeerCertificate])

        /// The principal's name where the plugin gives none.
        var name: String? {
            switch self {
            case .password(let username, _): username
            case .certificate(let chain): chain.first.flatMap { $0.commonName ?? $0.subject }
            }
        }
    }

    private let call: PluginCall
    private let question: Question
    private let continuation: CheckedContinuation<AuthenticationVerdict, Never>

    init(_ call: PluginCall, _ question: Question, _ continuation: CheckedContinuation<AuthenticationVerdict, Never>) {
        self.call = call
        self.question = question
        self.continuation = continuation
    }

    var line: Int { call.record.number }

    func refuse(_ error: PluginError) { continuation.resume(returning: .failed(call.refused(error))) }

    func run(on worker: PluginWorker, until deadline: UInt64) -> Bool {
        guard call.breaker.admit() != .none else {
            call.record.statistics.notAsked(1, call.hook)
            continuation.resume(returning: .failed(call.notAsked()))
            return true
        }
        let state = worker.state(for: call.version, of: call.record)
        var counts = TurnCounts()
        let before = monotonicNanoseconds()
        let verdict: AuthenticationVerdict
        do throws(LuaFailure) {
            let entered = try state.enter(call.prepared, call.context)
            let answer =
                switch question {
                case .password(let username, let password):
                    try entered.lua.callPassword(
                        username: Array(username.utf8), password: Array(password.utf8), use: entered.use, limits: call.limits)
                case .certificate(let chain):
                    try entered.lua.callCertificate(
                        chain: .array(chain.map { LuaValue($0) }), use: entered.use, limits: call.limits)
                }
            switch answer {
            case .refused:
                counts.rejected = 1
                verdict = .refused
            case .accepted(let table):
                var principal = try Principal(table, hook: call.hook, chunk: call.version.source.main.path)
                if principal.name == nil { principal.name = question.name }
                verdict = .accepted(principal)
            }
            call.succeeded()
            state.dropIfSpent()
        } catch {
            verdict = .failed(call.failed(error))
            state.dropIfSpent(after: error)
        }
        counts.took(monotonicNanoseconds() &- before)
        call.record.statistics.add(counts, call.hook)
        continuation.resume(returning: verdict)
        return true
    }
}
