import LuaRuntime
import Replication

/// One login for an authenticator.
final class PasswordJob: PluginJob {
    private let call: PluginCall
    private let username: [UInt8]
    private let password: [UInt8]
    private let continuation: CheckedContinuation<AuthenticationVerdict, Never>

    init(
        _ call: PluginCall, username: String, password: String, _ continuation: CheckedContinuation<AuthenticationVerdict, Never>
    ) {
        self.call = call
        self.username = Array(username.utf8)
        self.password = Array(password.utf8)
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
            let answer = try entered.lua.callPassword(
                username: username, password: password, use: entered.use, limits: call.limits)
            switch answer {
            case .refused:
                counts.rejected = 1
                verdict = .refused
            case .accepted(let table):
                var principal = try Principal(table, chunk: call.version.source.main.path)
                if principal.name == nil { principal.name = String(decoding: username, as: UTF8.self) }
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

extension Principal {
    /// Reads `{ name=…, read_only=…, channels={…}, roles={…}, collections={…} }`. The runtime has refused other members
    /// already; should one get here, it is a failure: a misspelt `read_only` must not grant writing.
    init(_ table: LuaValue, chunk: String) throws(LuaFailure) {
        self.init()
        guard case .object(let members) = table else {
            if table == .missing { return }
            throw Self.failure(chunk, "principal", table)
        }
        for member in members {
            switch (member.key, member.value) {
            case ("name", .string): name = member.value.text
            case ("read_only", .bool(let flag)): isReadOnly = flag
            case ("channels", _): channels = try Self.texts(member, chunk)
            case ("roles", _): roles = try Self.texts(member, chunk)
            case ("collections", _): collections = try Self.texts(member, chunk)
            default: throw Self.failure(chunk, member.key, member.value)
            }
        }
    }

    private static func texts(_ member: LuaMember, _ chunk: String) throws(LuaFailure) -> [String] {
        if case .array(let items) = member.value {
            let texts = items.compactMap(\.text)
            if texts.count == items.count { return texts }
        }
        // An empty Lua table is an object.
        guard member.value == .object([]) else { throw failure(chunk, member.key, member.value) }
        return []
    }

    private static func failure(_ chunk: String, _ what: String, _ value: LuaValue) -> LuaFailure {
        LuaFailure(kind: .result, message: "\(chunk): authenticate_password returned a principal whose \(what) is a \(value.typeName)")
    }
}
