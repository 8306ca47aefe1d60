import Interfaces
import LuaRuntime

/// A plugin's transform at one place.
struct PluginTransform: DocumentTransform {
    let use: PluginUse
    var pluginName: String { use.record.name }
    var version: String { use.judgement }

    func transform(_ documents: [PolicyDocument], _ context: PolicyContext) async -> [TransformResult] {
        if documents.isEmpty { return [] }
        let call: PluginCall
        // One call for all documents, so that the same version transforms all of them.
        do { call = try await use.call(CallContext(context)) } catch { return documents.map { _ in .failed(error) } }
        var results: [TransformResult] = []
        results.reserveCapacity(documents.count)
        for document in documents {
            results.append(await withCheckedContinuation { use.pool.submit(TransformJob(call, document, $0)) })
        }
        return results
    }

    func versionChanges() -> AsyncStream<String> { use.versionChanges() }
}

/// One document to transform.
typealias TransformJob = SingleJob<TransformResult>

extension SingleJob where Answer == TransformResult {
    convenience init(_ call: PluginCall, _ document: PolicyDocument, _ continuation: CheckedContinuation<TransformResult, Never>) {
        self.init(call, continuation, failed: { .failed($0) }) { (call, lua, use, _) throws(LuaFailure) in
            try lua.callTransform(document: LuaDocument(document), use: use, limits: call.limits).map { .changed($0) } ?? .same
        }
    }
}
