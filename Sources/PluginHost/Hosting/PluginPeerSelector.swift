import Interfaces
import LuaRuntime

/// A plugin that chooses the listener that a replicator connects to.
struct PluginPeerSelector: PeerSelector {
    let use: PluginUse
    let pluginName: String

    func select(_ peers: [OfferedPeer], database: String, replicator: String, remote: String) async -> Result<String?, PolicyFailure> {
        let call: PluginCall
        do { call = try await use.call(CallContext(database: database, replicator: replicator, remote: remote)) } catch { return .failure(error) }
        let values = peers.map(LuaValue.init)
        return await withCheckedContinuation { use.pool.submit(SelectionJob(call, values, $0)) }
    }
}

/// One choice.
private typealias SelectionJob = SingleJob<Result<String?, PolicyFailure>>

extension SingleJob where Answer == Result<String?, PolicyFailure> {
    fileprivate convenience init(_ call: PluginCall, _ peers: [LuaValue], _ continuation: CheckedContinuation<Answer, Never>) {
        self.init(call, continuation, failed: { .failure($0) }) { (call, lua, use, _) throws(LuaFailure) in
            .success(try lua.callSelectPeer(peers, use: use, limits: call.limits))
        }
    }
}

extension LuaValue {
    fileprivate init(_ peer: OfferedPeer) {
        let members: [(String, LuaValue?)] = [
            ("name", .text(peer.name)), ("group", .text(peer.group)), ("peer_id", peer.peerID.map { .text($0) }), ("pin", peer.pin.map { .text($0) }),
            ("host", .text(peer.host)), ("port", .integer(Int64(peer.port))), ("last_error", peer.lastError.map { .text($0) }),
            ("last_success", peer.lastSuccess.map { .integer($0) }),
        ]
        self = .object(members.compactMap { key, value in value.map { LuaMember(key: key, value: $0) } })
    }
}
