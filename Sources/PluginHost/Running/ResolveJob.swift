import Interfaces
import LuaRuntime

/// One conflict to resolve.
typealias ResolveJob = SingleJob<ConflictDecision>

extension SingleJob where Answer == ConflictDecision {
    convenience init(_ call: PluginCall, _ conflict: PolicyConflict, _ continuation: CheckedContinuation<ConflictDecision, Never>) {
        self.init(
            call, continuation, sample: { call.sample(conflict) }, failed: { .failed($0) }
        ) { (call, lua, use, _) throws(LuaFailure) in
            switch try lua.callResolve(LuaConflict(conflict), use: use, limits: call.limits) {
            case .local: .local
            case .remote: .remote
            case .delete: .delete
            case .merged(let body): .merged(body)
            }
        }
    }
}

extension LuaConflict {
    init(_ conflict: PolicyConflict) {
        self.init(
            id: conflict.id.text, local: conflict.local.map { LuaDocument($0) }, remote: conflict.remote.map { LuaDocument($0) },
            base: conflict.base.map { LuaDocument($0) }, localRevision: conflict.localRevision.text,
            remoteRevision: conflict.remoteRevision.text, baseRevision: conflict.baseRevision?.text,
            localVersion: conflict.localVersion?.description, remoteVersion: conflict.remoteVersion?.description)
    }
}

extension LuaDocument {
    init(_ document: PolicyDocument) {
        self.init(id: document.id.text, revision: document.revision.text, isDeleted: document.isDeleted, body: document.body)
    }
}
