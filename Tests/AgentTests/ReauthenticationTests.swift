import AgentConfiguration
import Environment
import Interfaces
import Logging
import Replication
import Synchronization
import TestSupport
import Testing
import Transport

@testable import Agent

/// Which logins are checked again after which change.
@Suite("Checking logins again")
struct ReauthenticationTests {
    /// Accepts every login, and counts how often it is asked.
    private final class Door: PasswordAuthenticator {
        let asked = Mutex(0)

        func authenticate(username: String, password: String, listener: String, remote: String) async -> AuthenticationVerdict {
            asked.withLock { $0 += 1 }
            return .accepted(Principal(name: username))
        }

        func versionChanges() -> AsyncStream<String> { AsyncStream { $0.finish() } }
    }

    private let token = PeerAuthentication.Proof.token(PeerToken(text: "a.b.c", end: 1))
    private let password = PeerAuthentication.Proof.password(BasicCredentials(username: "ada", password: "x"))

    @Test("a name, role or channel that changed only in how its characters are composed makes another principal", arguments: [
        Principal(name: "jose\u{301}", channels: ["c"], roles: ["r"]), Principal(name: "jos\u{E9}", channels: ["c"], roles: ["re\u{301}"]),
        Principal(name: "jos\u{E9}", channels: ["ce\u{301}"], roles: ["r\u{E9}"]),
    ])
    func comparedByBytes(_ before: Principal) {
        let now = Principal(name: "jos\u{E9}", channels: ["c\u{E9}"], roles: ["r\u{E9}"])
        #expect(PeerAuthentication.isSame(.accepted(now), now) && !PeerAuthentication.isSame(.accepted(now), before))
    }

    @Test("changed token keys concern those who logged in with a token, and a changed authenticator everybody")
    func generations() {
        var generations = ReauthenticationGenerations()
        #expect(generations.last(for: token) == 0 && generations.last(for: password) == 0)
        let keys = generations.tokenKeysChange()
        #expect(generations.last(for: token) == keys && generations.last(for: password) == 0)
        let door = generations.authenticatorChanges()
        // An answer that waits for the later of two changes must not continue with the earlier one.
        #expect(door > keys)
        for proof in [token, password, .nothing] { #expect(generations.last(for: proof) == door) }
        #expect(generations.tokenKeysChange() > door && generations.last(for: password) == door)
    }

    @Test("a session opened with a password is not checked again when the token keys change")
    func sessions() async throws {
        let folder = try TemporaryFolder()
        var settings = TokenSettings()
        settings.keys = Located(try folder.write("keys", TokenSigner(.p256).webKeys()))
        let door = Door()
        let tokens = try TokenAuthenticator.make(settings, listener: "edge", time: SystemTime())
        let environment = Environment.system
        let listener = PeerListener(
            settings: ListenerSettings(), share: (connections: 1, http: 1), policies: ListenerPolicies(authenticator: door, tokens: tokens), security: nil,
            databases: { _ in nil }, logins: LoginQueue(), limits: ReplicationLimits(), memory: MemoryBudget(limit: 1 << 20), environment: environment,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let id = listener.sessions.open("main", Principal(name: "ada"), password, generation: listener.authenticatorGeneration)
        func isAdmitted() async throws -> Bool {
            let found = try #require(listener.sessions.find("\(PeerSessions.cookie)=\(id)", "main"))
            return await listener.admitted(by: found, remote: "127.0.0.1:1") != nil
        }
        try folder.write("keys", TokenSigner(.p256).webKeys())
        await listener.refreshTokens()
        #expect(try await isAdmitted() && door.asked.withLock { $0 } == 0)
        await listener.reauthenticate()
        #expect(try await isAdmitted() && door.asked.withLock { $0 } == 1)
    }
}
