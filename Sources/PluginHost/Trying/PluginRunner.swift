import Documents
import Environment
import LuaRuntime
import Synchronization

/// Calls one hook in the real sandbox, outside of any agent: `nightjar plugin run`.
package enum PluginRunner {
    package enum Input: Sendable {
        /// The JSON text of an object for a filter; `_id`, `_rev` and `_deleted` are removed from it. For sync, `old` is the text of the
        /// revision that it replaces.
        case document([UInt8], old: [UInt8]? = nil)
        /// The JSON text of an array of certificates for authenticate_certificate, the peer's own first, or of a single certificate.
        case chain([UInt8])
        /// Several such documents, processed one after another in one state: shows what a filter would do to real ones.
        case documents([[UInt8]])
        /// The JSON text `{ "local_doc": …, "remote_doc": …, "base_doc": … }` for resolve; each member is optional and may be null.
        case conflict([UInt8])
        case login(username: String, password: String)
        /// The JSON text of an object for on_status; for on_documents, of an array of objects, or of a single one.
        case news([UInt8])
        /// The JSON text of an array of peers for select_peer, or of a single peer.
        case peers([UInt8])
        /// For token and get_session.
        case nothing
    }

    package struct Request: Sendable {
        package var folder: String
        package var plugin: String
        package var hook: LuaHook
        package var input: Input
        package var params: LuaValue
        /// How often the hook is called, in one state; each call has its own report.
        package var times: Int
        /// Nil for the current folder.
        package var configurationFolder: String?
        package var limits: PluginHostLimits
        package var environment: Environment
        /// The contents of `ctx` besides params.
        package var database = "trial"
        package var collection = CollectionName.default
        /// Used for `nightjar.get`; its other functions are not called.
        package var services: any PluginServices = NoPluginServices()
        package var user: String?
        /// The permissions of the user who calls sync.
        package var roles: [String] = []
        package var channels: [String] = []
        package var isAdmin = false

        package init(
            folder: String, plugin: String, hook: LuaHook, input: Input, params: LuaValue = .missing, times: Int = 1,
            configurationFolder: String? = nil, limits: PluginHostLimits = PluginHostLimits(), environment: Environment
        ) {
            self.folder = folder
            self.plugin = plugin
            self.hook = hook
            self.input = input
            self.params = params
            self.times = times
            self.configurationFolder = configurationFolder
            self.limits = limits
            self.environment = environment
        }
    }

    package struct LogLine: Sendable, Equatable {
        package var level: String
        package var message: String
        package var fields: LuaValue

        package init(level: String, message: String, fields: LuaValue) {
            self.level = level
            self.message = message
            self.fields = fields
        }
    }

    /// One call.
    package struct Report: Sendable {
        /// The document's id, if there are several.
        package var id: String?
        /// Filters: a boolean. resolve: the resulting document, `{"_deleted": true}` for nightjar.delete. authenticate_password or
        /// authenticate_certificate: false, true or the principal. sync: the assignment, or `{"rejected": reason}`. transform: the document as it
        /// would be sent. token: the token, with `expires_in` if given. get_session: the session, with `cookie_name` and `expires` (seconds since
        /// 1970) if given. on_status and on_documents: null. select_peer: a name, or null. Nil if the call failed.
        package var result: JSONValue?
        /// For resolve: local, remote, merged or delete. For sync: accepted or rejected.
        package var decision: String?
        package var failure: LuaFailure?
        package var log: [LogLine]
        package var milliseconds: Double
        /// Memory of the plugin's state after the call.
        package var memoryBytes: Int

        /// `{"result", "error": {"kind", "message"}, "log", "time_ms", "memory_bytes"}`, and "decision" for resolve and sync.
        package var json: JSONValue {
            var object = JSONObject()
            if let id { object["id"] = .string(id) }
            object["result"] = result ?? .null
            if let decision { object["decision"] = .string(decision) }
            object["error"] = failure.map { ["kind": .string($0.kind.rawValue), "message": .string($0.message)] } ?? .null
            object["log"] = .array(log.map { line in
                var entry = JSONObject()
                entry["level"] = .string(line.level)
                entry["message"] = .string(line.message)
                if line.fields != .missing { entry["fields"] = line.fields.json }
                return .object(entry)
            })
            object["time_ms"] = JSONNumber((milliseconds * 1000).rounded() / 1000).map { .number($0) } ?? .null
            object["memory_bytes"] = .int(memoryBytes)
            return .object(object)
        }
    }

    /// Input that is not a JSON object or does not suit the hook.
    package struct InputProblem: Error, Sendable, Equatable, CustomStringConvertible {
        package var description: String
    }

    /// - Throws: `PluginError` if nothing can be called (no such plugin or hook, wrong parameters), `InputProblem` for the input. For a plugin
    ///   that does not load, returns one report with that failure.
    package static func run(_ request: Request) async throws -> [Report] {
        let inputs = try PreparedInput.all(request)
        let outcome = try await request.environment.runPlugin(name: "plugin-run", stackBytes: request.limits.stackBytes) {
            Result { () throws(PluginError) in try runHere(request, inputs) }
        }
        return try outcome.get()
    }

    private static func runHere(_ request: Request, _ inputs: [PreparedInput]) throws(PluginError) -> [Report] {
        let folder = AbsolutePath.make(request.folder)
        let scan = FolderScan.read(folder, request.limits)
        if let problem = scan.refused[request.plugin] {
            return [Report(failure: LuaFailure(kind: .load, message: problem.description))]
        }
        guard let source = scan.sources[request.plugin] else {
            guard PluginName.isValid(request.plugin) else { throw .invalidName(request.plugin) }
            throw .unknown(
                plugin: request.plugin, folder: folder,
                nearest: PluginName.nearest(to: request.plugin, among: scan.sources.keys.sorted()))
        }
        // The plugin's own limits; errors in them are found when the hook is prepared.
        var limits = request.limits.limits(for: source.name)
        switch VersionLoader.load(source, host: request.limits, pool: nil, request.environment) {
        case .success(let version): limits = version.limits
        case .failure:
            // The agent would refuse the plugin, even if this call does not reach the variable.
            if let problem = VersionLoader.undefinedGlobal(in: source, host: request.limits, request.environment) {
                return [Report(failure: LuaFailure(kind: .load, message: problem.description))]
            }
        }
        let trial = Trial(source, limits, request.environment)
        trial.host.look(at: request.services, request.database, request.collection)
        var reports: [Report] = []
        let rounds = max(1, request.times)
        for number in 0..<rounds * inputs.count {
            let input = inputs[number / rounds]
            let begun = request.environment.time.monotonicNanoseconds()
            var report = Report()
            if case .documents = request.input { report.id = input.document?.id }
            var unusable: PluginError?
            do throws(LuaFailure) {
                let lua = try trial.state()
                if trial.use == nil {
                    // Hook and parameters are checked like those in a configuration.
                    let files = ParameterFiles(folders: [AbsolutePath.make(request.configurationFolder ?? "."), folder], limits: request.limits)
                    do {
                        try trial.prepare(lua, request, files)
                    } catch {
                        guard case .refused(_, let problem) = error else {
                            unusable = error
                            throw LuaFailure(kind: .load, message: "")
                        }
                        throw LuaFailure(kind: .load, message: problem.description)
                    }
                }
                try trial.call(lua, request.hook, input, into: &report)
            } catch {
                report.failure = error
            }
            if let unusable { throw unusable }
            report.milliseconds = Double(request.environment.time.monotonicNanoseconds() &- begun) / 1e6
            report.log = trial.host.takeLines()
            report.memoryBytes = trial.memoryBytes
            trial.discardIfExhausted()
            reports.append(report)
            if report.failure?.kind == .load { break }
        }
        return reports
    }
}

extension PluginRunner.Report {
    init(failure: LuaFailure? = nil) {
        self.init(id: nil, result: nil, decision: nil, failure: failure, log: [], milliseconds: 0, memoryBytes: 0)
    }
}

/// The input of a trial call, parsed once.
struct PreparedInput: Sendable {
    var document: LuaDocument?
    /// For sync.
    var old: LuaDocument?
    var caller = LuaCaller()
    var chain: LuaValue?
    var conflict: LuaConflict?
    var login: (username: [UInt8], password: [UInt8])?
    /// For on_status and on_documents.
    var news: [UInt8]?
    /// For select_peer.
    var peers: [LuaValue]?
    /// The sides of a conflict as given.
    var sides: [String: JSONValue] = [:]

    static func all(_ request: PluginRunner.Request) throws(PluginRunner.InputProblem) -> [PreparedInput] {
        guard case .documents(let documents) = request.input else { return [try PreparedInput(request)] }
        var inputs: [PreparedInput] = []
        inputs.reserveCapacity(documents.count)
        for document in documents {
            var one = request
            one.input = .document(document)
            inputs.append(try PreparedInput(one))
        }
        return inputs
    }

    init(_ request: PluginRunner.Request) throws(PluginRunner.InputProblem) {
        switch (request.hook, request.input) {
        case (.pushFilter, .document(let bytes, nil)), (.pullFilter, .document(let bytes, nil)), (.transform, .document(let bytes, nil)):
            document = try Self.document(try Self.object(bytes, "the document"), "the document", revision: "1-0000")
        case (.resolve, .conflict(let bytes)):
            let object = try Self.object(bytes, "the conflict")
            let known = ["local_doc", "remote_doc", "base_doc", "id", "local_rev", "remote_rev", "base_rev", "local_version", "remote_version"]
            for member in object.members where !known.contains(member.key) {
                let nearest = PluginName.nearest(to: member.key, among: known).map { "; did you mean \($0)?" } ?? ""
                throw .init(description: "the conflict has an unknown member \"\(member.key)\"\(nearest)")
            }
            var found: [String: LuaDocument] = [:]
            for (name, revision) in [("local_doc", "2-1111"), ("remote_doc", "2-2222"), ("base_doc", "1-0000")] {
                guard let side = object[name], !side.isNull else { continue }
                guard let sideObject = side.asObject else { throw .init(description: "\(name) is not a JSON object") }
                let rev = object[name.replacingSuffix("_doc", by: "_rev")]?.asString ?? revision
                found[name] = try Self.document(sideObject, name, revision: rev)
                sides[name] = side
            }
            conflict = LuaConflict(
                id: object["id"]?.asString ?? found["local_doc"]?.id ?? found["remote_doc"]?.id ?? "doc",
                local: found["local_doc"], remote: found["remote_doc"], base: found["base_doc"],
                localRevision: found["local_doc"]?.revision ?? "2-1111", remoteRevision: found["remote_doc"]?.revision ?? "2-2222",
                baseRevision: found["base_doc"]?.revision,
                localVersion: object["local_version"]?.asString, remoteVersion: object["remote_version"]?.asString)
        case (.authenticatePassword, .login(let username, let password)):
            login = (Array(username.utf8), Array(password.utf8))
        case (.sync, .document(let bytes, let before)):
            document = try Self.document(try Self.object(bytes, "the document"), "the document", revision: before == nil ? "1-0000" : "2-1111")
            old = try before.map { bytes throws(PluginRunner.InputProblem) in
                try Self.document(try Self.object(bytes, "the old document"), "the old document", revision: "1-0000")
            }
            caller = LuaCaller(name: request.user, roles: request.roles, channels: request.channels, isAdmin: request.isAdmin)
        case (.token, .nothing), (.getSession, .nothing): break
        case (.onStatus, .news(let bytes)): news = JSONValue.object(try Self.object(bytes, "the status")).serialize()
        case (.onDocuments, .news(let bytes)):
            switch LuaValue(json: bytes) {
            case .array(let items)? where items.allSatisfy({ $0.typeName == "object" }): news = bytes
            case .object(let members)?: news = LuaValue.array([.object(members)]).jsonBytes
            default: throw .init(description: "what happened is not a JSON array of documents")
            }
        case (.selectPeer, .peers(let bytes)):
            switch LuaValue(json: bytes) {
            case .array(let items)? where items.allSatisfy({ $0["name"].text != nil }): peers = items
            case .object(let members)? where LuaValue.object(members)["name"].text != nil: peers = [.object(members)]
            default: throw .init(description: "the peers are not a JSON array of objects with a name")
            }
        case (.authenticateCertificate, .chain(let bytes)):
            switch LuaValue(json: bytes) {
            case .array(let items)? where items.allSatisfy({ $0.typeName == "object" }): chain = .array(items)
            case .object(let members)?: chain = .array([.object(members)])
            default: throw .init(description: "the chain is not a JSON array of certificates")
            }
        case (let hook, _):
            let wanted = switch hook {
            case .resolve: "a conflict"
            case .authenticatePassword: "a username and a password"
            case .authenticateCertificate: "a chain of certificates"
            case .pushFilter, .pullFilter, .sync, .transform: "a document"
            case .token, .getSession: "no input"
            case .onStatus: "a status"
            case .onDocuments: "documents"
            case .selectPeer: "peers"
            }
            throw .init(description: "\(hook.rawValue) needs \(wanted)")
        }
    }

    private static func object(_ bytes: [UInt8], _ what: String) throws(PluginRunner.InputProblem) -> JSONObject {
        let value: JSONValue
        do { value = try JSONValue(parsing: bytes) } catch { throw .init(description: "\(what) is not JSON: \(error)") }
        guard let object = value.asObject else { throw .init(description: "\(what) is not a JSON object") }
        return object
    }

    private static func document(
        _ object: JSONObject, _ what: String, revision: String
    ) throws(PluginRunner.InputProblem) -> LuaDocument {
        var body = object
        let id = body["_id"]?.asString ?? "doc"
        let rev = body["_rev"]?.asString ?? revision
        let isDeleted = body["_deleted"]?.asBool ?? false
        for name in ["_id", "_rev", "_deleted"] { body[name] = nil }
        return LuaDocument(id: id, revision: rev, isDeleted: isDeleted, body: JSONValue.object(body).serialize())
    }
}

extension String {
    fileprivate func replacingSuffix(_ suffix: String, by other: String) -> String {
        utf8.hasSuffix(suffix) ? String(dropLast(suffix.count)) + other : self
    }
}
