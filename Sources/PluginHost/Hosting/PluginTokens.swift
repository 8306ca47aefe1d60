import Interfaces
import LuaRuntime

/// A plugin's token of one replicator.
struct PluginTokens: TokenSource {
    let use: PluginUse

    func token(replicator: String, remote: String) async -> Result<PeerToken, PolicyFailure> {
        let call: PluginCall
        do { call = try await use.call(CallContext(replicator: replicator, remote: remote)) } catch { return .failure(error) }
        return await withCheckedContinuation { use.pool.submit(TokenJob(call, $0)) }
    }
}

/// One token.
typealias TokenJob = SingleJob<Result<PeerToken, PolicyFailure>>

extension SingleJob where Answer == Result<PeerToken, PolicyFailure> {
    convenience init(_ call: PluginCall, _ continuation: CheckedContinuation<Answer, Never>) {
        self.init(call, continuation, failed: { .failure($0) }) { (call, lua, use, _) throws(LuaFailure) in
            let token = try lua.callToken(use: use, limits: call.limits)
            return .success(PeerToken(text: token.text, seconds: token.seconds))
        }
    }
}
