import Documents
import Encodings
import HTTPServer

/// `/api/listeners`: listeners and their peers, and actions on them.
struct ListenerRoutes: Sendable {
    let agent: Agent

    var routes: [Route] {
        [
            .get("api/listeners") { _ in Answer.json(.array(agent.listeners.map { agent.report($0) })) },
            .get("api/listeners/:name") { request in Answer.json(agent.report(try listener(request))) },
            .get("api/listeners/:name/peers") { request in
                let listener = try listener(request)
                let report = agent.report(listener)
                return Answer.json(.array(try await listener.withChannels(["peers", "feeds"].flatMap { report[$0]?.asArray ?? [] })))
            },
            .get("api/listeners/:name/sessions") { request in
                let now = agent.environment.time.wallSeconds()
                return Answer.json(
                    .array(
                        try listener(request).sessions.all.map { session, secondsLeft in
                            JSONOutput.object([
                                "user": JSONOutput.text(session.principal.name), "database": .string(session.database),
                                "ends_at": .string(Timestamp.format(now + Int64(secondsLeft))),
                            ])
                        }))
            },
            .post("api/listeners/:name/start") { request in
                let name = try request.parameters.require("name")
                try await agent.startListener(named: name)
                return Answer.json(agent.report(try agent.listener(name)))
            },
            .post("api/listeners/:name/stop") { request in
                let name = try request.parameters.require("name")
                try await agent.stopListener(named: name)
                return Answer.json(agent.report(try agent.listener(name)))
            },
            .post("api/listeners/:name/disconnect/:who") { request in
                let (listener, who) = (try listener(request), try request.parameters.require("who"))
                let count = await listener.disconnect(who)
                guard count > 0 else {
                    throw AgentError(.notFound, "no peer of listener \(listener.settings.name.value) is connected as user or from address \"\(who)\"")
                }
                return Answer.json(JSONOutput.object(["disconnected": JSONOutput.number(count)]))
            },
            .post("api/listeners/:name/revoke/:user") { request in
                let (listener, user) = (try listener(request), try request.parameters.require("user"))
                // Sessions end first: a peer that is disconnected must not come back with one.
                let ended = listener.sessions.end(of: user)
                return Answer.json(
                    JSONOutput.object(["sessions": JSONOutput.number(ended), "disconnected": JSONOutput.number(await listener.disconnect(user))]))
            },
        ]
    }

    private func listener(_ request: HTTPRequest) throws -> PeerListener { try agent.listener(try request.parameters.require("name")) }
}
