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
            state.dropIfSpent()
        } catch {
            verdict = .failed(call.failed(error))
            state.dropIfSpent(after: error)
        }
        counts.took(monotonicNanoseconds() &- before)
        call.record.statistics.add(counts)
        continuation.resume(returning: verdict)
        return true
    }
}

extension Principal {
    /// Reads `{ name=…, read_only=…, channels={…}, roles={…}, collections={…} }`. Anything else is a failure: a misspelt
    /// `read_only` must not grant writing.
    fileprivate init(_ table: LuaValue, chunk: String) throws(LuaFailure) {
        self.init()
        func failure(_ message: String) -> LuaFailure {
            LuaFailure(kind: .result, message: "\(chunk): authenticate_password returned a principal \(message)")
        }
        func texts(_ member: LuaMember) throws(LuaFailure) -> [String]? {
            switch member.value {
            case .missing, .null: return nil
            case .object(let members) where members.isEmpty: return []
            case .array(let items):
                var texts: [String] = []
                for item in items {
                    guard let text = item.text else { throw failure("whose \(member.key) hold a \(item.typeName); expected strings") }
                    texts.append(text)
                }
                return texts
            default: throw failure("whose \(member.key) is a \(member.value.typeName); expected a list of strings")
            }
        }
        let members: [LuaMember]
        switch table {
        case .missing, .null: members = []
        case .array(let items) where items.isEmpty: members = []
        case .object(let found): members = found
        default: throw failure("that is a \(table.typeName); expected true or a table")
        }
        for member in members {
            switch member.key {
            case "name":
                if member.value == .null { break }
                guard let text = member.value.text, !text.isEmpty else { throw failure("whose name is a \(member.value.typeName); expected a string") }
                name = text
            case "read_only":
                guard let flag = member.value.bool else { throw failure("whose read_only is a \(member.value.typeName); expected true or false") }
                isReadOnly = flag
            case "channels": channels = try texts(member)
            case "roles": roles = try texts(member)
            case "collections": collections = try texts(member)
            default:
                throw failure("with an unknown member \"\(member.key)\"; expected name, read_only, channels, roles, collections")
            }
        }
    }
}
