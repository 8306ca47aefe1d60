import Glibc
import TestSupport
import Testing

/// What an attacker sends, and what that may cost the agent.
struct Attack: Sendable, CustomTestStringConvertible {
    /// What has been sent by the time an attack is at full force.
    struct Sent: Sendable {
        var requests: Int
        var bytes = 0
        /// Connections that are held open, and what is still on its way into them.
        var flows: [Outflow] = []
        var held: [any Sendable] = []
    }

    /// What an attack may cost: an amount for each request, and a fixed part for what the agent does in any case. They are generous, for a debug
    /// build on a busy machine, since they only have to tell a cost in proportion to what was sent from one that is out of proportion.
    struct Bounds: Sendable {
        /// The fixed part of the CPU time.
        var milliseconds = 1_500.0
        var perRequest = 0.5
        var perMegabyte = 20.0
        /// The growth of resident memory, in bytes.
        var memory = 32 << 20
    }

    let testDescription: String
    var bounds = Bounds()
    /// Further settings of the listener `edge`.
    var listener = ""
    /// Puts files beside the configuration, with plugins in `plugins`.
    var furnish: (@Sendable (TemporaryFolder) async throws -> Void)?
    /// How the well-behaved peer logs in.
    var login: (user: String, password: String)?
    /// Prepares the agent before the attack; this is not measured.
    var prepare: @Sendable (AgentProcess) async throws -> Void = { _ in }
    let send: @Sendable (AgentProcess) async throws -> Sent
    /// Checks something while the attack is held at full force.
    var check: @Sendable (AgentProcess) async throws -> Void = { _ in }
    /// Checks what the agent has written by the time it ends.
    var end: @Sendable (Subprocess.Outcome) -> Void = { _ in }

    static func hub(_ listener: String = "", plugins: Bool = false) -> String {
        """
        data: data
        admin: { port: 0, open: true }
        \(plugins ? "plugins: plugins\n" : "")databases: { main: {} }
        listeners:
          - name: edge
            databases: [ main ]
            interface: 127.0.0.1
            port: 0
            disable_tls: true
        \(listener.isEmpty ? "" : "    \(listener)\n")
        """
    }

    /// Runs the attack. A companion peer makes progress while the attack grows and while it is held, the attack costs no more than allowed, and the agent stops cleanly in the middle of it.
    func run() async throws {
        let folder = try TemporaryFolder()
        try await furnish?(folder)
        let hub = try await AgentProcess.start(Self.hub(listener, plugins: furnish != nil), in: folder)
        let companion = try await Companion.join(hub, login: login)
        try await companion.rounds(1, "before")
        try await prepare(hub)

        let meter = try Meter(hub)
        async let sending = send(hub)
        try await companion.rounds(Self.rounds, "during")
        var sent = try await sending
        let flows = sent.flows
        try await eventually("the attacker has sent as much as the agent takes") { flows.allSatisfy(\.isAtRest) }
        try await companion.rounds(Self.rounds, "under")
        let cost = try meter.cost()
        sent.bytes += flows.reduce(0) { $0 + $1.sent }

        // A document in each direction costs the agent some milliseconds even without an attacker.
        let allowed =
            bounds.milliseconds + bounds.perRequest * Double(sent.requests) + bounds.perMegabyte * Double(sent.bytes) / 1e6 + 100 * Double(2 * Self.rounds)
        let figures = "\(testDescription): \(sent.requests) requests, \(sent.bytes) bytes: \(cost); \(Int(allowed)) ms, \(bounds.memory >> 10) KiB are allowed"
        if getenv("NIGHTJAR_ATTACK_FIGURES") != nil { print(figures) }
        #expect(cost.seconds * 1000 <= allowed, "\(figures)")
        #expect(cost.growth <= bounds.memory, "\(figures)")
        try await check(hub)

        // The attack is still going on.
        let outcome = try await hub.stop()
        #expect(outcome.status == 0, "\(testDescription): \(outcome)")
        end(outcome)
        withExtendedLifetime(sent) {}
        #expect(try await companion.agent.stop().status == 0)
    }

    private static let rounds = 3
}
