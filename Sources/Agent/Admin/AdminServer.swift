import AgentConfiguration
import Documents
import Glibc
import HTTPServer
import Logging
import NIOCore
import ServiceLifecycle
import Transport

/// The admin API, on a local socket in the data folder and, where the configuration says so, on a TCP port.
package struct AdminServer: Sendable {
    let agent: Agent
    let logger: Logger
    /// Reloads the configuration; supplied by the command, which knows where the configuration came from.
    let reload: @Sendable () async throws -> ReloadOutcome
    let socket: AdminSocket
    private let history: History
    private let rehearsals: RehearsalRoutes

    package init(agent: Agent, rehearse: @escaping Rehearse, reload: @escaping @Sendable () async throws -> ReloadOutcome) {
        self.agent = agent
        self.reload = reload
        logger = agent.logs.logger(.http)
        socket = AdminSocket(Self.socketPath(data: agent.settings.data.value), agent: agent, logger: logger)
        history = History(agent: agent)
        rehearsals = RehearsalRoutes(agent: agent, rehearse: rehearse)
    }

    /// Where the local socket is.
    package static func socketPath(data: String) -> String { "\(data)/admin.sock" }

    /// The longest path that the system accepts for a socket.
    package static let maximumSocketPath = 107

    /// Why there can be no socket in this data folder, without which the agent does not start; nil if there can.
    package static func obstacle(toSocketIn data: String) -> (cause: String, mend: String)? {
        let path = socketPath(data: data)
        guard path.utf8.count > maximumSocketPath else { return nil }
        return (
            "the path of the admin socket, \(path), has \(path.utf8.count) bytes; the system allows \(maximumSocketPath)", "use a shorter data folder"
        )
    }

    /// How many services there are.
    var sideCount: Int { agent.settings.admin == nil ? 1 : 2 }

    /// The services to run: the local socket, and the TCP port if there is one.
    ///
    /// - Parameter onReady: called for each service, with its address, once it accepts connections.
    func services(onReady: @escaping @Sendable (String) async -> Void) throws -> [any Service] {
        let settings = agent.settings
        let path = socket.path
        if let obstacle = Self.obstacle(toSocketIn: settings.data.value) { throw AgentError(.configuration, "\(obstacle.cause): \(obstacle.mend)") }
        // Left behind by a process that was killed; the lock on the data folder rules out a second agent.
        unlink(path)
        let sockets = agent.descriptors.adminSockets
        let local = AdminListener(group: agent.group, logger: logger, memory: agent.memory, sockets: sockets, respond: responder(access: nil)) {
            [HTTPListener.Address(try SocketAddress(unixDomainSocketPath: path))]
        } onBound: { [socket] listener in
            socket.bound(listener)
            await onReady("unix:\(path)")
        }
        guard let admin = settings.admin else { return [history, local, socket] }
        let made = admin.makesToken ? try AdminTokenFile.secret(data: settings.data.value, agent.environment.random) : nil
        let access = AdminAccess(admin, made: made)
        let tcp = AdminListener(group: agent.group, logger: logger, memory: agent.memory, sockets: sockets, respond: responder(access: access)) {
            try await ListenAddresses.resolve(interface: admin.address.value, port: admin.port.value)
        } onBound: { listener in
            let address = listener.boundAddresses.first
            if admin.isOpen.value {
                logger.warning("the admin port is open: every user of this machine may read and change everything; remove open: true")
            } else if made != nil {
                logger.info("the admin port asks for the token in \(AdminTokenFile.path(data: settings.data.value)); admin.token sets another")
            }
            await onReady(address?.shown ?? "\(admin.address.value):\(admin.port.value)")
        }
        return [history, local, AdminPort(listener: tcp, settings: admin), socket]
    }

    // MARK: - Routes

    /// - Parameter access: who may use it; nil for the socket in the data folder, which only the agent's own user can open.
    private func responder(access: AdminAccess?) -> HTTPListener.Responder {
        let router = Router(AdminQuery.checked(routes + AdminIndex(routes).responders))
        let auditing = AdminAuditing(log: agent.audit, logins: agent.refusedLogins, logger: agent.logs.logger(.database))
        guard let access else { return { request in try await auditing.note(request, by: "the agent's user", from: "admin.sock") { try await router.respond(to: request) } } }
        return { request in
            let level: AdminAccess.Level
            do throws(HTTPError) { level = try access.check(request, router.pattern(request.method, request.path)) } catch {
                auditing.note(request, by: access.holder(request)?.name ?? "", refusedBy: error)
                throw error
            }
            switch level {
            case .holder(let name, _): return try await auditing.note(request, by: name, from: request.connection.remoteAddress) { try await router.respond(to: request) }
            case .everybody:
                guard request.path == "/health" else { return try await router.respond(to: request) }
                try AdminQuery.check(request, [], name: "\(request.method) /health")
                let health = await agent.health()
                return Answer.json(JSONOutput.object(["status": health.body["status"]]), status: health.status)
            }
        }
    }

    private var routes: [Route] {
        [
            .get("health") { _ in
                let health = await agent.health()
                return Answer.json(health.body, status: health.status)
            },
            // For supervisors that can only restart the agent: whether it responds, and whether it has started.
            .get("live") { _ in Answer.json(JSONOutput.object(["status": .string("live")])) },
            .get("ready") { _ in
                Answer.json(JSONOutput.object(["status": .string(agent.isReady ? "ready" : "not_ready")]), status: agent.isReady ? 200 : 503)
            },
            .get("api/status") { _ in Answer.json(await agent.statusReport()) },
            .post("api/disconnect/:who") { request in
                let who = try request.parameters.require("who")
                var count = 0
                for listener in agent.listeners { count += await listener.disconnect(who) }
                guard count > 0 else { throw AgentError(.notFound, "no peer is connected as user or from address \"\(who)\"") }
                return Answer.json(JSONOutput.object(["disconnected": JSONOutput.number(count)]))
            },
            .post("api/reload") { _ in Answer.json(try await reload().json) },
            .get("api/audit") { request in
                let text = try request.value(.limit)
                let limit = text.map { Int($0) ?? 0 } ?? 200
                guard limit > 0 else { throw AgentError(.invalid, "limit must be a number above 0, not \(text ?? "")") }
                let lines = try AuditLog.last(limit, dataFolder: agent.settings.data.value)
                return Answer.json(bytes: [UInt8(ascii: "[")] + lines.joined(separator: [UInt8(ascii: ",")]) + [UInt8(ascii: "]"), UInt8(ascii: "\n")])
            },
            .get("api/log") { _ in Answer.json(bytes: agent.logs.tail.json) },
            .get("metrics") { _ in
                HTTPResponse(
                    status: 200, headers: ["Content-Type": PrometheusText.contentType],
                    body: .buffer(ByteBuffer(string: await agent.metrics())))
            },
        ] + ReplicatorRoutes(agent: agent).routes + ListenerRoutes(agent: agent).routes + ConflictRoutes(agent: agent).routes + PluginRoutes(agent: agent).routes
            + EventRoutes(agent: agent).routes + AdminDocumentRoutes(agent: agent).routes + BlobRoutes(agent: agent).routes + CareRoutes(agent: agent).routes
            + history.routes + rehearsals.routes + DashboardRoutes.routes
    }
}

/// JSON answers of the admin API.
enum Answer {
    static func json(_ value: JSONValue, status: Int = 200) -> HTTPResponse {
        var bytes = value.serialize()
        bytes.append(UInt8(ascii: "\n"))
        return json(bytes: bytes, status: status)
    }

    static func json(bytes: [UInt8], status: Int = 200) -> HTTPResponse { .json(status: status, ByteBuffer(bytes: bytes)) }
}
