import Glibc
import TestSupport
import Testing

extension AgentProcess {
    /// The process lives and does its work; what documents or settings need is another matter.
    func isWell() async throws -> Bool { try await every(isAlive, admin.get("/live").status == 200, admin.get("/ready").status == 200) }

    /// Whether there is still such a process and it answers.
    var isAlive: Bool { get async throws { try await every(kill(process.pid, 0) == 0, admin.get("/health").status != 0) } }
}

/// A peer that is connected all the time and does right: what others do wrong must not disturb it.
struct Bystander {
    let agent: AgentProcess
    let peer: Peer
    private let mark = String(UInt64.random(in: 0 ... .max), radix: 36)

    init(_ agent: AgentProcess, database: String = "main") async throws {
        self.agent = agent
        peer = try await Peer.connect(agent, database: database)
        try await peer.push("bystander-\(mark)-begin")
    }

    /// Its connection still works, and so does the agent.
    func goesOn() async throws {
        try await peer.push("bystander-\(mark)-\(UInt64.random(in: 0 ... .max))")
        #expect(try await agent.isWell())
    }

    func leave() async throws {
        try await goesOn()
        try await peer.close()
    }
}

/// Both, or all, hold. (`&&` does not take what has to be awaited on its right.)
func every(_ conditions: Bool...) -> Bool { conditions.allSatisfy { $0 } }
