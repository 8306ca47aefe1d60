import Glibc
import TestSupport
import Testing

/// Attackers who send what costs them little, judged by what it costs the agent: CPU time and resident memory, in proportion to what was
/// sent. `NIGHTJAR_ATTACK_FIGURES=1` prints what each attack cost.
@Suite(
    "Attacks", .serialized,
    .disabled(if: getenv("NIGHTJAR_SANITIZER") != nil, "instrumented code takes many times the CPU time and memory that these tests allow"))
struct AttackTests {
    @Test("replies that the attacker does not read", arguments: Attack.unread)
    func unread(_ attack: Attack) async throws { try await attack.run() }

    @Test("messages that never end", arguments: Attack.unfinished)
    func unfinished(_ attack: Attack) async throws { try await attack.run() }

    @Test("requests to prove that the agent has a blob", arguments: Attack.proofs)
    func proofs(_ attack: Attack) async throws { try await attack.run() }

    @Test("answers from CouchDB's API that the attacker does not read", arguments: Attack.couch)
    func couch(_ attack: Attack) async throws { try await attack.run() }

    @Test("great numbers of connections", arguments: Attack.connections)
    func connections(_ attack: Attack) async throws { try await attack.run() }

    @Test("documents that are expensive to read", arguments: Attack.documents)
    func documents(_ attack: Attack) async throws { try await attack.run() }

    @Test("servers that lie to the replicator", arguments: Attack.servers)
    func servers(_ attack: Attack) async throws { try await attack.run() }

    @Test("tokens without a valid signature", arguments: Attack.tokens)
    func tokens(_ attack: Attack) async throws { try await attack.run() }
}
