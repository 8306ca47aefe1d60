import CouchDBServer
import DocumentStore
import Documents
import HTTPServer
import Interfaces
import LuaRuntime
import PluginHost
import Replication
import TLS
import Transport

/// CouchDB's HTTP API on the listener's port, for the same principals and with the same policies.
extension PeerListener {
    func startCouch() {
        guard settings.couchDB else { return }
        let names = settings.databases.map(\.value)
        let memory = AnswerMemory(memory, time: environment.time) { [answerShortages, time] in answerShortages.note($0, from: $1, now: time.wallSeconds()) }
        var host = CouchHost(
            version: AgentVersion.number, uuid: names.first.flatMap { databases($0)?.publicUUID } ?? "", environment: environment, logger: logger,
            memory: memory, databases: names,
            admit: { [weak self] in try await Self.alive(self).admit($0, to: $1) },
            authenticate: { [weak self] in try await Self.alive(self).authenticated($0) },
            session: { [weak self] in try await Self.alive(self).serverSession($0) },
            filter: { [weak self] in try Self.alive(self).policies.namedFilter($0, $1) })
        host.queryLogger = policies.queryLogger
        host.documents = { [weak self] in self?.note($0, from: $1, remote: $2) }
        host.refusedRequest = { [weak self] in self?.note(refused: $0, in: $1, from: $2, remote: $3) }
        let server = CouchServer(host)
        couch.withLock { $0 = server }
    }

    private static func alive(_ listener: PeerListener?) throws(HTTPError) -> PeerListener {
        guard let listener else { throw HTTPError(503, "the listener stops") }
        return listener
    }

    func respondAsCouch(to request: HTTPRequest) async throws -> HTTPResponse {
        guard let couch = couch.withLock({ $0 }) else { throw HTTPError(404, "there is nothing at \(request.path)") }
        return try await couch.respond(to: request)
    }

    /// What one peer may do, in any protocol.
    func passiveConfiguration(_ database: Database, _ principal: Principal, subprotocol: Subprotocol) -> PassiveConfiguration {
        var configuration = PassiveConfiguration(
            listener: settings.name.value, database: database, principal: principal, isReadOnly: settings.readOnly,
            pushFilter: policies.pushFilter, pullFilter: policies.pullFilter, syncFunction: policies.syncFunction, subprotocol: subprotocol,
            limits: limits)
        configuration.kept = reviews.kept
        configuration.hiddenConflicts = hiddenConflicts
        if let fleet = try? CollectionName(parsing: FleetDocument.collection), database.collection(fleet) != nil {
            // Only for this collection: in other collections, a peer without filters must get everything that others get.
            configuration.ownFilters[fleet] = PassiveConfiguration.OwnFilters(
                push: FleetGuard(inner: policies.pushFilter, publishers: policies.fleetPublishers),
                pull: FleetGuard(inner: policies.pullFilter, publishers: policies.fleetPublishers))
        }
        if !settings.collections.isEmpty { configuration.collections = Set(settings.collections.map { CollectionName($0.value) }) }
        let conflicts = policies.conflicts(database.name)
        configuration.resolver = conflicts.resolver
        configuration.shadow = conflicts.shadow
        configuration.conflictObserver = policies.conflictObserver
        configuration.leavesConflicts = { [policies, name = database.name] in policies.leavesConflicts(name) }
        configuration.usesDeltas = settings.deltaSync && policies.usesDeltas(database.name)
        configuration.wireLog = policies.wireLog
        return configuration
    }

    // MARK: - Authentication

    /// - Throws: ``HTTPError`` 401, 404, 429, 503.
    private func admit(_ request: HTTPRequest, to name: String) async throws -> CouchHost.Admitted {
        let caller = try await caller(request, name)
        guard serves(name), let database = databases(name) else { throw HTTPError(404, "Database does not exist.") }
        return CouchHost.Admitted(passiveConfiguration(database, caller.principal, subprotocol: .generation3), try await takeIn(caller))
    }

    /// Judges the credentials of a request once, for all databases that it names: a wrong token may be tried against many keys, and a password costs
    /// a hash. Authenticators are not told for which database a login is.
    private func authenticated(_ request: HTTPRequest) async throws -> CouchHost.Authenticated {
        let caller = try await caller(request, "")
        let admission = try await takeIn(caller)
        return CouchHost.Authenticated { [weak self] in try await Self.alive(self).admit(caller, admission, request, to: $0) }
    }

    /// Lets a caller whose credentials were judged into one of the databases. A session there comes before them, as in a request for that database
    /// alone.
    private func admit(_ caller: CouchCallers.Caller, _ admission: Admission, _ request: HTTPRequest, to name: String) async throws -> CouchHost.Admitted {
        guard serves(name), let database = databases(name) else { throw HTTPError(404, "Database does not exist.") }
        var (caller, admission) = (caller, admission)
        let generations = state.withLock { $0.generations }
        if let found = await session(of: request, name) {
            (caller.principal, caller.proof, caller.login, caller.database) = (found.session.principal, found.session.proof, found.key, name)
            caller.generation = generations.last(for: caller.proof)
            admission = try await takeIn(caller)
        }
        guard await admission.settled() else { throw admission.refusal }
        return CouchHost.Admitted(passiveConfiguration(database, caller.principal, subprotocol: .generation3), admission)
    }

    /// The session that the request's cookie stands for: in a database, or on the whole server if that is empty.
    private func session(of request: HTTPRequest, _ database: String) async -> (key: PeerSessions.Key, session: PeerSessions.Session)? {
        guard mayUseCookies(request.headers), let found = sessions.find(request.headers.first("Cookie"), database),
            let session = await admitted(by: found, remote: request.connection.remoteAddress)
        else { return nil }
        return (found.key, session)
    }

    private func caller(_ request: HTTPRequest, _ database: String) async throws -> CouchCallers.Caller {
        guard isOpen else { throw HTTPError(503, "the listener is starting", headers: ["Retry-After": "1"]) }
        let chain = (request.securePeer?.certificates ?? []).compactMap { try? Certificate(der: $0) }
        let (generations, authorities) = state.withLock { ($0.generations, $0.authorities) }
        // The authorities may have changed since the handshake.
        guard security.map({ $0.accepts(chain) }) ?? true else { throw HTTPError(401, "connect again", headers: ["Connection": "close"]) }
        func known(_ principal: Principal, _ proof: PeerAuthentication.Proof, _ login: PeerSessions.Key?) -> CouchCallers.Caller {
            CouchCallers.Caller(
                principal: principal, proof: proof, chain: chain, login: login, address: request.connection.remoteAddress, database: database,
                since: environment.time.wallSeconds(), generation: generations.last(for: proof), authorities: authorities)
        }
        for scope in database.utf8.isEmpty ? [""] : [database, ""] {
            if let found = await session(of: request, scope) { return known(found.session.principal, found.session.proof, found.key) }
        }
        let login = UpgradeRequest(login: request, database: database, credentials: request.basicCredentials)
        switch await authenticate(login) {
        case .accepted(let principal, let proof): return known(principal, proof, nil)
        case .refused(.refuse(let status, let reason, let headers)): throw HTTPError(status, reason, headers: headers)
        case .refused(.accept): throw HTTPError(500, "the login could not be checked")
        }
    }

    /// Cookies do not count for a page of another site, unless that site is allowed.
    func mayUseCookies(_ headers: HeaderList) -> Bool {
        switch CrossOrigin(settings.cors).standing(headers) {
        case .own: true
        case .guest(let withCredentials): withCredentials
        case .stranger: false
        }
    }

    func setServerCookie(_ id: String?) -> String {
        PeerSessions.setCookie(
            id, name: PeerSessions.serverCookie, path: "/", isSecure: security != nil, forOtherSites: settings.cors?.credentials.value == true)
    }

    // MARK: - Sessions for the whole server

    /// `_session` as in CouchDB: POST logs in and returns a cookie, GET says who the client is, DELETE logs out.
    private func serverSession(_ request: HTTPRequest) async throws -> HTTPResponse {
        switch request.method {
        case "POST": return try await openServerSession(request)
        case "DELETE":
            if let found = sessions.find(request.headers.first("Cookie"), "") {
                sessions.end(found.key)
                await disconnectSession(found.key)
            }
            return .couchSession("{\"ok\":true}\n", cookie: setServerCookie(nil))
        default:
            let cookies = request.headers.first("Cookie")
            var name: String?
            var way = ""
            if let found = sessions.find(cookies, ""), let session = await admitted(by: found, remote: request.connection.remoteAddress) {
                (name, way) = (session.principal.name, ",\"authenticated\":\"cookie\"")
            } else if policies.tokens != nil, request.bearerToken != nil {
                (name, way) = (try await caller(request, "").principal.name, ",\"authenticated\":\"jwt\"")
            } else if request.basicCredentials != nil {
                (name, way) = (try await caller(request, "").principal.name, ",\"authenticated\":\"default\"")
            }
            let user = name.map { JSONValue.string($0).text } ?? "null"
            let handlers = policies.tokens == nil ? "[\"cookie\",\"default\"]" : "[\"cookie\",\"jwt\",\"default\"]"
            return .json("{\"ok\":true,\"userCtx\":{\"name\":\(user),\"roles\":[]},\"info\":{\"authentication_handlers\":\(handlers)\(way)}}\n")
        }
    }

    private func openServerSession(_ request: HTTPRequest) async throws -> HTTPResponse {
        let credentials = try await CouchLogin.credentials(request)
        let generation = authenticatorGeneration
        switch await authenticate(UpgradeRequest(login: request, database: "", credentials: BasicCredentials(username: credentials.name, password: credentials.password))) {
        case .refused(.refuse(let status, _, _)) where status == 401: throw HTTPError(401, "Name or password is incorrect.")
        case .refused(.refuse(let status, let reason, let headers)): throw HTTPError(status, reason, headers: headers)
        case .refused(.accept): throw HTTPError(500, "the login could not be checked")
        case .accepted(let principal, let proof):
            // CouchDB's replicator concludes that there are no sessions, and keeps using its credentials.
            guard case .password = proof else { throw HTTPError(404, noSession(for: proof)) }
            let id = sessions.open("", principal, proof, generation: generation)
            let name = principal.name.map { JSONValue.string($0).text } ?? "null"
            return .couchSession(
                "{\"ok\":true,\"name\":\(name),\"roles\":[]}\n", cookie: setServerCookie(id))
        }
    }
}

extension HTTPResponse {
    fileprivate static func couchSession(_ text: String, cookie: String) -> HTTPResponse {
        .json(text, headers: ["Set-Cookie": cookie, "Cache-Control": "must-revalidate"])
    }
}

extension PolicySource {
    /// Push filters named by their plugin, with parameters as text. If the plugin expects a number, a boolean, or a JSON array or object, the text is
    /// parsed as one; if it expects a list, any other text is taken as a list with one element.
    func namedFilters(usedBy: String) -> @Sendable (String, [(key: String, value: String)]) throws -> any DocumentFilter {
        { [plugins] name, parameters in
            guard let plugins else { throw HTTPError(404, "there is no plugin \"\(name)\"") }
            let lists = plugins.listParameters(of: name)
            func values(_ read: (String) -> LuaValue) -> LuaValue {
                var seen: Set<String> = []
                let first = parameters.filter { seen.insert($0.key).inserted }
                return first.isEmpty ? .missing : .members(first.map { ($0.key, lists.contains($0.key) ? Self.list($0.value) : read($0.value)) })
            }
            var last: (String) -> LuaValue = { .text($0) }
            var readings: [(String) -> LuaValue] = [Self.typed]
            if parameters.contains(where: { Self.container($0.value) != nil }) {
                readings += [last, { Self.container($0) ?? Self.typed($0) }]
                last = { Self.container($0) ?? .text($0) }
            }
            do {
                for reading in readings {
                    do { return try plugins.pushFilter(plugin: name, params: values(reading), usedBy: usedBy) } catch PluginError.parameters { continue }
                }
                return try plugins.pushFilter(plugin: name, params: values(last), usedBy: usedBy)
            } catch let error as PluginError {
                switch error {
                case .parameters: throw HTTPError(400, "\(error)")
                case .unknown, .invalidName, .noHook: throw HTTPError(404, "there is no filter \"\(name)\"")
                default: throw HTTPError(503, "the filter \"\(name)\" cannot be used now")
                }
            }
        }
    }

    /// A JSON array or object.
    private static func container(_ text: String) -> LuaValue? {
        guard let first = text.utf8.first, first == UInt8(ascii: "[") || first == UInt8(ascii: "{") else { return nil }
        return (try? JSONValue(parsing: text)).map { LuaValue($0) }
    }

    /// Any other text is a list with one element: `types=order`.
    private static func list(_ text: String) -> LuaValue { container(text) ?? .array([.text(text)]) }

    private static func typed(_ text: String) -> LuaValue {
        switch text {
        case "true": .bool(true)
        case "false": .bool(false)
        default: Int64(text).map { .integer($0) } ?? Double(text).flatMap { $0.isFinite ? .number($0) : nil } ?? .text(text)
        }
    }
}
