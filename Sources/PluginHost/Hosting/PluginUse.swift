import Interfaces
import LuaRuntime

/// One place that uses one hook of a plugin. Lives as long as the place does; the plugin forgets it afterwards.
final class PluginUse: Sendable {
    let record: PluginRecord
    private let number: Int
    private let hook: LuaHook
    let pool: PluginWorkers
    private let versions: EventHub<String>
    private let ended: @Sendable (PluginRecord) -> Void

    init(
        _ record: PluginRecord, number: Int, hook: LuaHook, pool: PluginWorkers, versions: EventHub<String>,
        ended: @escaping @Sendable (PluginRecord) -> Void
    ) {
        self.record = record
        self.number = number
        self.hook = hook
        self.pool = pool
        self.versions = versions
        self.ended = ended
    }

    deinit {
        record.change { fields in
            fields.uses[number] = nil
            fields.prepared[number] = nil
        }
        versions.finish()
        ended(record)
    }

    var version: String { record.read { $0.prepared[number] }?.version ?? "" }
    var judgement: String { record.read { $0.prepared[number] }?.judgement ?? "" }

    func versionChanges() -> AsyncStream<String> { versions.stream() }

    /// - Throws: ``PolicyFailure`` if no version may be called.
    func call(_ context: CallContext, _ whileTesting: PluginRecord.TestingPolicy = .waits) async throws(PolicyFailure) -> PluginCall {
        try await record.testedCall(number, context, whileTesting)
    }

    fileprivate func judge(_ documents: [PolicyDocument], _ context: PolicyContext) async -> [FilterVerdict] {
        if documents.isEmpty { return [] }
        let call: PluginCall
        do { call = try await self.call(CallContext(context)) } catch { return Array(repeating: .failed(error), count: documents.count) }
        return await withCheckedContinuation { pool.submit(FilterJob(call, hook, documents, $0)) }
    }

    fileprivate func resolve(_ conflict: PolicyConflict, _ context: PolicyContext) async -> ConflictDecision {
        let call: PluginCall
        do { call = try await self.call(CallContext(context)) } catch { return .failed(error) }
        return await withCheckedContinuation { pool.submit(ResolveJob(call, conflict, $0)) }
    }

    /// Does not wait for tests: logins are asked to try again.
    fileprivate func authenticate(_ credentials: PeerCredentials, _ context: CallContext) async -> AuthenticationVerdict {
        let call: PluginCall
        do { call = try await self.call(context, .retriesLater) } catch { return .failed(error) }
        return await withCheckedContinuation { pool.submit(AuthenticationJob(call, credentials, $0)) }
    }
}

extension CallContext {
    init(_ context: PolicyContext) {
        self.init(
            database: context.database, scope: context.collection.scope, collection: context.collection.name,
            direction: context.direction.rawValue, replicator: context.replicator, listener: context.listener, remote: context.remote,
            user: context.user, subprotocol: context.subprotocol?.name)
    }
}

/// A plugin's push_filter or pull_filter at one place.
struct PluginFilter: DocumentFilter {
    let use: PluginUse
    var pluginName: String { use.record.name }
    var version: String { use.judgement }
    func evaluate(_ documents: [PolicyDocument], _ context: PolicyContext) async -> [FilterVerdict] {
        await use.judge(documents, context)
    }
    func versionChanges() -> AsyncStream<String> { use.versionChanges() }
}

/// A plugin's resolve at one place.
struct PluginResolver: ConflictResolver {
    let use: PluginUse
    var pluginName: String { use.record.name }
    var version: String { use.version }
    func resolve(_ conflict: PolicyConflict, _ context: PolicyContext) async -> ConflictDecision {
        await use.resolve(conflict, context)
    }
    func versionChanges() -> AsyncStream<String> { use.versionChanges() }
}

/// A plugin's authenticate_password on one listener.
struct PluginPasswordAuthenticator: PasswordAuthenticator {
    let use: PluginUse
    func versionChanges() -> AsyncStream<String> { use.versionChanges() }
    func authenticate(username: String, password: String, listener: String, remote: String) async -> AuthenticationVerdict {
        await use.authenticate(.password(username: username, password: password), CallContext(listener: listener, remote: remote))
    }
}

/// A plugin's authenticate_certificate on one listener.
struct PluginCertificateAuthenticator: CertificateAuthenticator {
    let use: PluginUse
    func versionChanges() -> AsyncStream<String> { use.versionChanges() }
    func authenticate(chain: [PeerCertificate], listener: String, remote: String) async -> AuthenticationVerdict {
        await use.authenticate(.certificate(chain), CallContext(listener: listener, remote: remote))
    }
}
