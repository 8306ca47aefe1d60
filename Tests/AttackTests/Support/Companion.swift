import Documents
import TestSupport

/// A well-behaved peer alongside an attacker: an agent whose replicator pushes and pulls all the time, from its own address.
/// Its progress is measured by the documents that arrive, not by the clock.
struct Companion: Sendable {
    let agent: AgentProcess
    private let hub: AgentProcess
    /// Whether it logs in again for each round.
    private let connectsAnew: Bool

    static func join(_ hub: AgentProcess, login: (user: String, password: String)? = nil) async throws -> Companion {
        let authenticator = login.map { "    authenticator: { username: \($0.user), password: \($0.password) }\n" } ?? ""
        let agent = try await AgentProcess.start(
            """
            data: data
            databases: { main: {} }
            replicators:
              - name: hub
                database: main
                target: ws://127.0.0.1:\(try hub.port("edge"))/main
                network_interface: 127.0.0.2
                type: push_and_pull
                continuous: true
                max_attempt_wait_time: 1
            \(authenticator)
            """)
        return Companion(agent: agent, hub: hub, connectsAnew: login != nil)
    }

    /// Sends documents in both directions, one after the other.
    ///
    /// - Throws: ``SupportError`` if one does not arrive.
    func rounds(_ count: Int, _ name: String) async throws {
        for round in 0..<count {
            let id = "\(name)-\(round)"
            if connectsAnew {
                for step in ["stop", "start"] { try await expect(agent.admin.post("/api/replicators/hub/\(step)")) }
            }
            try await expect(agent.put("main", "up-\(id)", "{\"n\":\(round)}"))
            // Asks the agent under attack only once the companion believes that it is done, because looking for the document costs CPU time too.
            try await arrives("up-\(id)", at: hub) {
                let status = try await agent.replicator("hub")
                return status["activity"]?.asString == "idle" && status["pending"]?.asInt64 == 0
            }
            try await answered { try await expect(hub.put("main", "down-\(id)", "{\"n\":\(round)}")) }
            try await arrives("down-\(id)", at: agent) { true }
        }
    }

    private func arrives(_ id: String, at place: AgentProcess, when isLikely: @Sendable () async throws -> Bool) async throws {
        do {
            try await eventually("\(id) arrives") {
                guard try await isLikely() else { return false }
                return try await answered { try await place.get("main", id).status == 200 }
            }
        } catch {
            throw SupportError("the peer alongside the attack makes no progress: \(error)\n\(agent.process.errors.suffix(2000))\n--- hub:\n\(hub.process.errors.suffix(4000))")
        }
    }

    /// Of many connections from one origin, any may lose its place before its request was read; its client tries again.
    private func answered<Result>(_ request: @Sendable () async throws -> Result) async throws -> Result {
        for _ in 0..<20 {
            do { return try await request() } catch is HTTPProbe.Unanswered {}
        }
        return try await request()
    }

    private func expect(_ answer: HTTPProbe.Answer) throws {
        guard answer.status < 300 else { throw SupportError("the peer alongside the attack: \(answer)") }
    }
}
