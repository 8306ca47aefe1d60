import Interfaces
import LuaRuntime

/// A plugin's tokens or sessions for one replicator.
struct PluginTokens: TokenSource {
    let use: PluginUse
    let givesSessions: Bool

    func token(replicator: String, remote: String) async -> Result<PeerToken, PolicyFailure> {
        let call: PluginCall
        do { call = try await use.call(CallContext(replicator: replicator, remote: remote)) } catch { return .failure(error) }
        return await withCheckedContinuation { use.pool.submit(TokenJob(call, $0)) }
    }
}

/// One token or session.
typealias TokenJob = SingleJob<Result<PeerToken, PolicyFailure>>

extension SingleJob where Answer == Result<PeerToken, PolicyFailure> {
    convenience init(_ call: PluginCall, _ continuation: CheckedContinuation<Answer, Never>) {
        self.init(call, continuation, failed: { .failure($0) }) { (call, lua, use, _) throws(LuaFailure) in
            guard call.hook == .getSession else {
                let token = try lua.callToken(use: use, limits: call.limits)
                return .success(PeerToken(text: token.text, seconds: token.seconds))
            }
            let session = try lua.callSession(use: use, limits: call.limits)
            let now = Double(call.record.environment.time.wallSeconds())
            return .success(
                PeerToken(text: session.id, cookie: session.cookie ?? PluginTokens.defaultCookieName, seconds: session.end.map { max(0, $0 - now) }))
        }
    }
}

extension PluginTokens {
    /// Sync Gateway's cookie name.
    fileprivate static let defaultCookieName = "SyncGatewaySession"
}

extension PluginListing {
    /// The hook that makes a replicator's credentials: tokens, if it has both hooks.
    package var loginHook: LuaHook {
        hooks.contains(LuaHook.getSession.rawValue) && !hooks.contains(LuaHook.token.rawValue) ? .getSession : .token
    }
}
