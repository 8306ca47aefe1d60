import Interfaces
import LuaRuntime

/// One peer to authenticate.
typealias AuthenticationJob = SingleJob<AuthenticationVerdict>

/// What a peer presents.
enum PeerCredentials: Sendable {
    case password(username: String, password: String)
    case certificate([PeerCertificate])

    /// The principal's name if the plugin returns none.
    var name: String? {
        switch self {
        case .password(let username, _): username
        case .certificate(let chain): chain.first.flatMap { $0.commonName ?? $0.subject }
        }
    }
}

extension SingleJob where Answer == AuthenticationVerdict {
    convenience init(
        _ call: PluginCall, _ credentials: PeerCredentials, _ continuation: CheckedContinuation<AuthenticationVerdict, Never>
    ) {
        self.init(call, continuation, failed: { .failed($0) }) { (call, lua, use, counts) throws(LuaFailure) in
            let answer =
                switch credentials {
                case .password(let username, let password):
                    try lua.callPassword(
                        username: Array(username.utf8), password: Array(password.utf8), use: use, limits: call.limits)
                case .certificate(let chain):
                    try lua.callCertificate(chain: .array(chain.map { LuaValue($0) }), use: use, limits: call.limits)
                }
            guard case .accepted(let table) = answer else {
                counts.rejected = 1
                return .refused
            }
            var principal = try Principal(table, hook: call.hook, chunk: call.version.source.main.path)
            if principal.name == nil { principal.name = credentials.name }
            return .accepted(principal)
        }
    }
}
