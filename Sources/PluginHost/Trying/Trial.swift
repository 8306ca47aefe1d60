import Documents
import Environment
import LuaRuntime
import Synchronization

/// One plugin's state outside of the worker pool, for trial runs. Confined to its thread.
final class Trial {
    let host: TrialHost
    private(set) var use: LuaUse?
    private let source: PluginSource
    private let limits: PluginLimits
    private var lua: LuaPluginState?

    init(_ source: PluginSource, _ limits: PluginLimits, _ environment: Environment) {
        host = TrialHost(environment)
        self.source = source
        self.limits = limits
    }

    var memoryBytes: Int { lua?.memoryBytes ?? 0 }

    func state() throws(LuaFailure) -> LuaPluginState {
        if let lua { return lua }
        let made = try LuaPluginState(
            name: source.name, chunkName: source.main.path, source: source.main.bytes, modules: PluginSource.Loader(source: source),
            host: host, limits: limits.state)
        lua = made
        return made
    }

    func discardIfExhausted() {
        if let lua, lua.needsRebuild {
            self.lua = nil
            use = nil
        }
    }

    /// Checks hook and parameters like those in a configuration, and creates `ctx`.
    func prepare(_ lua: LuaPluginState, _ request: PluginRunner.Request, _ files: ParameterFiles) throws(PluginError) {
        func refused(_ problem: PluginProblem) -> PluginError { .refused(plugin: source.name, problem: problem) }
        let declarations: ParameterDeclarations
        do {
            declarations = try ParameterDeclarations(lua.parameterDeclarations)
        } catch {
            throw refused(PluginProblem(plugin: source.name, file: source.main.path, message: error.description))
        }
        do {
            _ = try DeclaredLimits.effective(lua.limitDeclarations, plugin: source.name, host: request.limits)
        } catch {
            throw refused(PluginProblem(plugin: source.name, file: source.main.path, message: error.description))
        }
        let version = LoadedVersion(
            source: source, description: lua.description, hooks: lua.hooks, declarations: declarations, limits: limits, pool: nil)
        let prepared = try UsePreparation(
            version, hook: request.hook, params: request.params, usedBy: "plugin run", files: files).prepared
        var context = LuaContext(
            params: prepared.params, database: request.database, scope: request.collection.scope, collection: request.collection.name,
            remote: "trial",
            user: request.user, plugin: source.name, version: prepared.version)
        switch request.hook {
        case .pushFilter, .transform: (context.direction, context.replicator) = ("push", "trial")
        case .pullFilter, .resolve: (context.direction, context.replicator) = ("pull", "trial")
        case .token, .getSession, .onStatus, .onDocuments, .selectPeer: context.replicator = "trial"
        default: context.listener = "trial"
        }
        do {
            use = try lua.makeUse(context)
        } catch {
            throw refused(PluginProblem(plugin: source.name, luaMessage: error.message, fallbackFile: source.main.path))
        }
    }

    func call(_ lua: LuaPluginState, _ hook: LuaHook, _ input: PreparedInput, into report: inout PluginRunner.Report) throws(LuaFailure) {
        guard let use else { return }
        if hook == .token {
            let token = try lua.callToken(use: use, limits: limits.authenticator)
            var result = JSONObject()
            result["token"] = .string(token.text)
            result["expires_in"] = token.seconds.flatMap { JSONNumber($0) }.map { JSONValue.number($0) }
            report.result = .object(result)
        } else if hook == .getSession {
            let session = try lua.callSession(use: use, limits: limits.authenticator)
            var result = JSONObject()
            result["session_id"] = .string(session.id)
            result["cookie_name"] = session.cookie.map { JSONValue.string($0) }
            result["expires"] = session.end.flatMap { JSONNumber($0) }.map { JSONValue.number($0) }
            report.result = .object(result)
        } else if let peers = input.peers {
            report.result = try lua.callSelectPeer(peers, use: use, limits: limits.authenticator).map { .string($0) } ?? .null
        } else if let news = input.news {
            try lua.callObserver(hook, news, use: use, limits: limits.resolver)
            report.result = .null
        } else if let document = input.document, hook == .sync {
            switch try lua.callSync(document: document, old: input.old, caller: input.caller, use: use, limits: limits.resolver) {
            case .accepted(let assignment): (report.decision, report.result) = ("accepted", JSONValue(assignment))
            case .rejected(let reason): (report.decision, report.result) = ("rejected", ["rejected": .string(reason)])
            }
        } else if let document = input.document, hook == .transform {
            let body = try lua.callTransform(document: document, use: use, limits: limits.resolver)
            (report.decision, report.result) = (body == nil ? "same" : "changed", try? JSONValue(parsing: body ?? document.body))
        } else if let chain = input.chain {
            switch try lua.callCertificate(chain: chain, use: use, limits: limits.authenticator) {
            case .refused: report.result = false
            case .accepted(.missing): report.result = true
            case .accepted(let principal): report.result = principal.json
            }
        } else if let document = input.document {
            report.result = .bool(try lua.callFilter(
                hook, document: document, use: use, flags: document.isDeleted ? .deleted : [], limits: limits.filter))
        } else if let conflict = input.conflict {
            switch try lua.callResolve(conflict, use: use, limits: limits.resolver) {
            case .local: (report.decision, report.result) = ("local", input.sides["local_doc"])
            case .remote: (report.decision, report.result) = ("remote", input.sides["remote_doc"])
            case .delete: (report.decision, report.result) = ("delete", ["_deleted": true])
            case .merged(let body): (report.decision, report.result) = ("merged", try? JSONValue(parsing: body))
            }
        } else if let login = input.login {
            switch try lua.callPassword(username: login.username, password: login.password, use: use, limits: limits.authenticator) {
            case .refused: report.result = false
            case .accepted(.missing): report.result = true
            case .accepted(let principal): report.result = principal.json
            }
        }
    }
}

extension JSONValue {
    /// The channels and permissions that sync assigned.
    fileprivate init(_ assignment: LuaAssignment) {
        func lists(_ lists: [String: [String]]) -> JSONValue {
            .object(JSONObject(lists.sorted { $0.key < $1.key }.map { name, items in
                JSONObject.Member(key: name, value: .array(items.map { .string($0) }))
            }))
        }
        var object = JSONObject()
        object["channels"] = .array(assignment.channels.map { .string($0) })
        object["access"] = lists(assignment.access)
        object["roles"] = lists(assignment.roles)
        object["expiry"] = assignment.expiry.map { .int(Int($0)) } ?? .null
        self = .object(object)
    }
}

/// Services for a trial: log lines are collected for the report, metrics are discarded, and state lasts for the trial. There is a
/// database only if one was named.
final class TrialHost: HashingHost {
    private let lines = Mutex<[PluginRunner.LogLine]>([])
    private let load: LoadHost
    var environment: Environment { load.environment }
    var passwords: PasswordService { load.passwords }
    private let sight = Mutex<(services: any PluginServices, database: String, collection: CollectionName)?>(nil)

    init(_ environment: Environment) { load = LoadHost(environment) }

    func look(at services: any PluginServices, _ database: String, _ collection: CollectionName) {
        sight.withLock { $0 = (services, database, collection) }
    }

    func get(collection: String?, id: String) throws(LuaHostRefusal) -> LuaDocument? {
        guard let sight = sight.withLock({ $0 }) else { return try load.get(collection: collection, id: id) }
        do {
            let name = try collection.map { try CollectionName(parsing: $0) } ?? sight.collection
            return try sight.services.document(database: sight.database, collection: name, id: try DocumentID(id)).map { LuaDocument($0) }
        } catch let refusal as PluginServiceRefusal {
            throw LuaHostRefusal(refusal.message)
        } catch {
            throw LuaHostRefusal("\(error)")
        }
    }

    /// The log lines of the last call.
    func takeLines() -> [PluginRunner.LogLine] {
        passwords.newTurn()
        return lines.withLock { lines in
            defer { lines = [] }
            return lines
        }
    }

    func log(level: LuaLogLevel, message: String, fields: LuaValue) {
        let name = switch level {
        case .debug: "debug"
        case .info: "info"
        case .warning: "warn"
        case .error: "error"
        }
        lines.withLock { $0.append(PluginRunner.LogLine(level: name, message: message, fields: fields)) }
    }

    func readState(key: String) throws(LuaHostRefusal) -> LuaValue { try load.readState(key: key) }
    func writeState(key: String, value: LuaValue) throws(LuaHostRefusal) { try load.writeState(key: key, value: value) }
}
