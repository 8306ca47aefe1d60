import AgentConfiguration
import Digests
import Documents
import Glibc
import Hummingbird
import Logging
import NIOCore
import ServiceLifecycle

/// The admin API, on a local socket in the data folder and on a TCP port.
public struct AdminServer: Sendable {
    let agent: Agent
    let logger: Logger
    /// Reads the configuration again; wired by the command that knows where it came from.
    let reload: @Sendable () async throws -> [String]

    public init(agent: Agent, reload: @escaping @Sendable () async throws -> [String]) {
        self.agent = agent
        self.reload = reload
        logger = agent.logs.logger(.http)
    }

    /// Where the local socket is.
    public static func socketPath(data: String) -> String { "\(data)/admin.sock" }

    /// The longest path that the system takes for a socket.
    package static let maximumSocketPath = 107

    /// The services to run: the local socket, and the TCP port if it can be had.
    ///
    /// - Parameter onReady: called for each with its address once it accepts.
    func services(onReady: @escaping @Sendable (String) async -> Void) throws -> [any Service] {
        let settings = agent.settings
        let path = Self.socketPath(data: settings.data.value)
        guard path.utf8.count <= Self.maximumSocketPath else {
            throw AgentError(
                .configuration,
                "the path of the admin socket, \(path), has \(path.utf8.count) bytes; "
                    + "the system allows \(Self.maximumSocketPath): use a shorter data folder")
        }
        // Left by a process that was killed; the lock of the data folder keeps a second agent away.
        unlink(path)
        let local = Application(
            responder: router(isLocal: true).buildResponder(),
            configuration: .init(address: .unixDomainSocket(path: path), serverName: "nightjar"),
            onServerRunning: { _ in
                chmod(path, 0o600)
                await onReady("unix:\(path)")
            },
            eventLoopGroupProvider: .shared(agent.group), logger: logger)
        let tcp = Application(
            responder: router(isLocal: false).buildResponder(),
            configuration: .init(
                address: .hostname(settings.admin.address.value, port: settings.admin.port.value), serverName: "nightjar"),
            onServerRunning: { channel in
                let address = channel.localAddress
                await onReady("\(address?.ipAddress ?? settings.admin.address.value):\(address?.port ?? settings.admin.port.value)")
            },
            eventLoopGroupProvider: .shared(agent.group), logger: logger)
        return [local, AdminPort(application: tcp, settings: settings.admin, logger: logger, onReady: onReady)]
    }

    // MARK: - Routes

    /// - Parameter isLocal: the socket in the data folder, which only the agent's own user can open; it needs no token.
    func router(isLocal: Bool) -> Router<BasicRequestContext> {
        let router = Router()
        router.add(middleware: ErrorAnswers())
        if !isLocal, let token = agent.settings.admin.token { router.add(middleware: AdminToken(token: token.value.revealed)) }
        router.get("health") { _, _ in
            let problems = await agent.healthProblems()
            return Answer.json(
                JSONOutput.object([
                    "status": .string(problems.isEmpty ? "ok" : "failing"), "reasons": .array(problems.map { .string($0) }),
                ]), status: problems.isEmpty ? .ok : .serviceUnavailable)
        }
        router.get("api/status") { _, _ in Answer.json(await agent.statusReport()) }
        router.get("api/listeners") { _, _ in Answer.json(.array(agent.listeners.map { Agent.report($0) })) }
        router.post("api/reload") { _, _ in
            Answer.json(JSONOutput.object(["done": .array(try await reload().map { .string($0) })]))
        }
        addReplicators(router)
        ConflictRoutes(agent: agent).add(to: router)
        PluginRoutes(agent: agent).add(to: router)
        router.get("metrics") { _, _ in
            Response(
                status: .ok, headers: [.contentType: PrometheusText.contentType],
                body: .init(byteBuffer: ByteBuffer(string: await agent.metrics())))
        }
        EventRoutes(agent: agent).add(to: router)
        DocumentRoutes(agent: agent).add(to: router)
        return router
    }

    private func addReplicators(_ router: Router<BasicRequestContext>) {
        router.get("api/replicators") { _, _ in Answer.json(.array(await agent.replicatorReports())) }
        router.get("api/replicators/:name") { _, context in
            Answer.json(await Agent.report(try agent.replicator(try context.parameters.require("name"))))
        }
        router.post("api/replicators/:name/start") { request, context in
            let replicator = try agent.replicator(try context.parameters.require("name"))
            let resets = request.uri.queryParameters["reset"] == "true"
            if resets, replicator.status.activity != .stopped {
                // A running one cannot forget its checkpoint on the way: it stops and begins anew, which may take a while.
                Task {
                    await replicator.stop()
                    await replicator.start(reset: true)
                }
            } else {
                await replicator.start(reset: resets)
            }
            return Answer.json(JSONOutput.object(["ok": .bool(true)]), status: .accepted)
        }
        router.post("api/replicators/:name/stop") { _, context in
            let replicator = try agent.replicator(try context.parameters.require("name"))
            // Answered at once; the stop may take as long as the peer's answer to our CLOSE.
            Task { await replicator.stop() }
            return Answer.json(JSONOutput.object(["ok": .bool(true)]), status: .accepted)
        }
        router.get("api/replicators/:name/pending") { _, context in
            let replicator = try agent.replicator(try context.parameters.require("name"))
            let pending = try await replicator.pendingDocumentIDs()
            return Answer.json(
                .array(
                    pending.map {
                        JSONOutput.object(["collection": .string($0.0.description), "id": .string($0.1.text)])
                    }))
        }
        router.get("api/replicators/:name/held") { _, context in
            let replicator = try agent.replicator(try context.parameters.require("name"))
            let held = try await replicator.heldDocuments()
            return Answer.json(
                .array(
                    held.map { name, exclusion in
                        JSONOutput.object([
                            "collection": .string(name.description), "id": .string(exclusion.id.text),
                            "rev": JSONOutput.text(exclusion.revision?.text),
                            "direction": .string(exclusion.direction == .push ? "push" : "pull"),
                            "plugin": .string(exclusion.plugin), "version": .string(exclusion.version),
                            "error": .string(exclusion.error), "tries": JSONOutput.number(exclusion.tries),
                            "since": .string(Timestamp.format(exclusion.since)),
                        ])
                    }))
        }
    }
}

/// JSON answers of the admin API.
enum Answer {
    static func json(_ value: JSONValue, status: HTTPResponse.Status = .ok) -> Response {
        var bytes = value.serialize()
        bytes.append(UInt8(ascii: "\n"))
        return json(bytes: bytes, status: status)
    }

    static func json(bytes: [UInt8], status: HTTPResponse.Status = .ok) -> Response {
        Response(
            status: status, headers: [.contentType: "application/json"], body: .init(byteBuffer: ByteBuffer(bytes: bytes)))
    }

    static func error(_ status: HTTPResponse.Status, _ word: String, _ reason: String) -> Response {
        json(JSONOutput.object(["error": .string(word), "reason": .string(reason)]), status: status)
    }
}

/// Turns errors into `{"error":…,"reason":…}` with the status that fits.
struct ErrorAnswers: RouterMiddleware {
    typealias Context = BasicRequestContext

    func handle(
        _ request: Request, context: BasicRequestContext, next: (Request, BasicRequestContext) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch let error as AgentError {
            switch error.kind {
            case .notFound: return Answer.error(.notFound, "not_found", error.message)
            case .conflict: return Answer.error(.conflict, "conflict", error.message)
            case .invalid, .configuration: return Answer.error(.badRequest, "bad_request", error.message)
            case .failed: return Answer.error(.internalServerError, "failed", error.message)
            }
        } catch let error as HTTPError {
            return Answer.error(
                error.status, error.status == .notFound ? "not_found" : "bad_request", error.body ?? error.status.reasonPhrase)
        } catch let error as ConfigurationProblems {
            return Answer.error(.badRequest, "configuration", error.description)
        } catch let error as ConfigurationProblem {
            return Answer.error(.badRequest, "configuration", error.description)
        } catch {
            return Answer.error(.internalServerError, "failed", "\(error)")
        }
    }
}

/// Wants the configured token as `Authorization: Bearer …`, except for `/health`.
struct AdminToken: RouterMiddleware {
    typealias Context = BasicRequestContext
    let token: String

    func handle(
        _ request: Request, context: BasicRequestContext, next: (Request, BasicRequestContext) async throws -> Response
    ) async throws -> Response {
        if request.uri.path == "/health" { return try await next(request, context) }
        let given = request.headers[.authorization] ?? ""
        guard constantTimeEquals(Array(given.utf8), Array("Bearer \(token)".utf8)) else {
            return Answer.error(.unauthorized, "unauthorized", "the admin token is needed as Authorization: Bearer")
        }
        return try await next(request, context)
    }
}

/// The TCP side of the admin API. Its default port may be taken by another agent on the same machine; the local socket
/// serves then, and a port that the operator wrote down must be free.
struct AdminPort<Responder: HTTPResponder>: Service where Responder.Context: InitializableFromSource<ApplicationRequestContextSource> {
    let application: Application<Responder>
    let settings: AdminSettings
    let logger: Logger
    let onReady: @Sendable (String) async -> Void

    func run() async throws {
        do {
            try await application.run()
        } catch {
            guard settings.position == .none else {
                throw AgentError(.failed, "admin port \(settings.address.value):\(settings.port.value): \(error)")
            }
            logger.warning(
                "the default admin port \(settings.port.value) cannot be used (\(error)); the local socket serves, or set admin.port")
            await onReady("")
            try await gracefulShutdown()
        }
    }
}
