import Environment
import Interfaces
import Logging
import Replication
import Synchronization
import TLS
import Transport

/// Finds out who a peer is, by what the listener asks for: nothing, a certificate, or a name and a password.
///
/// The TLS handshake has proved by then that the peer holds the key of its certificate and, where the listener has `roots`, that
/// one of them vouches for it.
final class PeerAuthentication: Sendable {
    enum Outcome: Sendable {
        case accepted(Principal, Proof)
        case refused(UpgradeDecision)
    }

    /// What a peer has shown, kept as long as it is connected so that it can be judged again.
    enum Proof: Sendable {
        case nothing
        case password(BasicCredentials)
        case certificate([PeerCertificate])
    }

    private let listener: String
    private let policies: ListenerPolicies
    private let checksCertificates: Bool
    private let queue: LoginQueue
    private let failures = Mutex(LoginGuard())
    private let held = Mutex(0)
    private let time: any TimeSource
    private let logger: Logger

    /// - Parameters:
    ///   - checksCertificates: the TLS layer has held a shown certificate against the listener's `roots`.
    ///   - queue: of all listeners of the agent.
    init(
        listener: String, policies: ListenerPolicies, checksCertificates: Bool, queue: LoginQueue, time: any TimeSource, logger: Logger
    ) {
        self.listener = listener
        self.policies = policies
        self.checksCertificates = checksCertificates
        self.queue = queue
        self.time = time
        self.logger = logger
    }

    func authenticate(_ request: UpgradeRequest) async -> Outcome {
        let chain = (request.securePeer?.certificates ?? []).compactMap { try? Certificate(der: $0) }
        if let authenticator = policies.certificateAuthenticator {
            guard !chain.isEmpty else {
                logger.notice("a peer without a certificate is refused", metadata: ["peer": "\(request.remoteAddress)"])
                return .refused(.refuse(status: 401, reason: "a client certificate is needed"))
            }
            let shown = chain.map { PeerCertificate($0) }
            return await guarded(request, user: chain[0].commonName ?? chain[0].subject, .certificate(shown)) {
                await authenticator.authenticate(chain: shown, listener: listener, remote: request.remoteAddress)
            }
        }
        if let authenticator = policies.authenticator {
            guard let credentials = request.basicCredentials else { return .refused(Self.loginRequired) }
            return await guarded(request, user: credentials.username, .password(credentials)) {
                await authenticator.authenticate(
                    username: credentials.username, password: credentials.password, listener: listener, remote: request.remoteAddress)
            }
        }
        if let user = request.endpointUser { return .accepted(Principal(name: user), .nothing) }
        if checksCertificates, let leaf = chain.first { return .accepted(Principal(name: leaf.commonName ?? leaf.subject), .nothing) }
        return .accepted(.anonymous, .nothing)
    }

    /// A value each time that somebody who was let in may not be any more.
    func changes() -> AsyncStream<String>? { policies.certificateAuthenticator?.versionChanges() ?? policies.authenticator?.versionChanges() }

    /// Whether a peer that was let in would be let in again, as the same. One about whom the authenticator fails now would not.
    func accepts(_ proof: Proof, as principal: Principal, remote: String) async -> Bool {
        Self.isSame(await verdict(on: proof, of: principal, remote: remote), principal)
    }

    /// What the authenticator says now of somebody who was let in; nil where it could not be asked. Where nobody is asked everybody stays who they are.
    func verdict(on proof: Proof, of principal: Principal, remote: String) async -> AuthenticationVerdict? {
        // In one line of the queue: new logins take turns with all that are judged again.
        let login = LoginGuard.Login(user: "", origin: "judged again")
        return try? await queue.run(login, isKnown: true) { () -> AuthenticationVerdict in
            switch (proof, policies.authenticator, policies.certificateAuthenticator) {
            case (.password(let shown), let authenticator?, _):
                await authenticator.authenticate(username: shown.username, password: shown.password, listener: listener, remote: remote)
            case (.certificate(let chain), _, let authenticator?):
                await authenticator.authenticate(chain: chain, listener: listener, remote: remote)
            default: .accepted(principal)
            }
        }
    }

    /// Whether it lets in the same as before.
    static func isSame(_ verdict: AuthenticationVerdict?, _ principal: Principal) -> Bool {
        guard case .accepted(var again) = verdict else { return false }
        if again.name == nil { again.name = principal.name }
        return again == principal
    }

    /// Asks when it is this login's turn, unless too many have failed. The guard is asked twice: a refusal that is certain costs no
    /// place in the queue, and those that ran while this one waited may have been guesses.
    private func guarded(
        _ request: UpgradeRequest, user: String, _ proof: Proof, _ ask: () async -> AuthenticationVerdict
    ) async -> Outcome {
        let login = LoginGuard.Login(user: user, origin: request.origin)
        do throws(LoginQueue.Refusal) {
            for _ in 0..<Held.rounds {
                if let wait = wait(login), await !hold(login, for: wait) { return .refused(Self.tooManyFailures(wait)) }
                let outcome = try await queue.run(login, isKnown: failures.withLock { $0.knows(login) }) { () async -> Outcome? in
                    if wait(login) != nil { return nil }
                    return judged(await ask(), login, request, user: user, proof)
                }
                if let outcome { return outcome }
            }
            return .refused(Self.tooManyFailures(wait(login) ?? 1))
        } catch {
            guard case .full(let limit, let value) = error else { return .refused(.refuse(status: 503, reason: "the peer has gone")) }
            return .refused(
                .refuse(
                    status: 503, reason: "as many logins wait as \(limit) (\(value)) allows; try again in 1 s", headers: ["Retry-After": "1"]))
        }
    }

    /// Logins of users at whom nobody guesses, from where others do.
    private enum Held {
        /// `held_logins`: that wait for their second instead of being refused.
        static let count = 64
        /// `held_login_rounds`: how often one waits, when another's turn came first each time.
        static let rounds = 5
        static let seconds = 2.0
    }

    /// Waits where others are all that the login waits for; false: it is to be refused.
    private func hold(_ login: LoginGuard.Login, for seconds: Double) async -> Bool {
        guard seconds <= Held.seconds, failures.withLock({ $0.waitsForOthersOnly(login, at: now) }) else { return false }
        let isHeld = held.withLock { held in
            guard held < Held.count else { return false }
            held += 1
            return true
        }
        guard isHeld else { return false }
        defer { held.withLock { $0 -= 1 } }
        do { try await time.sleep(nanoseconds: UInt64(seconds * 1e9) + 1_000_000) } catch { return false }
        return true
    }

    private func judged(
        _ verdict: AuthenticationVerdict, _ login: LoginGuard.Login, _ request: UpgradeRequest, user: String, _ proof: Proof
    ) -> Outcome {
        switch verdict {
        case .accepted(var principal):
            failures.withLock { $0.succeeded(login, at: now) }
            if principal.name == nil { principal.name = user }
            return .accepted(principal, proof)
        case .refused:
            let wait = failures.withLock { $0.failed(login, at: now) }
            policies.refusedLogin(user, login.origin)
            logger.notice(
                "login refused\(wait.map { "; its next one is not looked at for \(Int($0.rounded(.up))) s" } ?? "")",
                metadata: ["user": "\(user)", "peer": "\(request.remoteAddress)"])
            return .refused(
                policies.certificateAuthenticator == nil
                    ? Self.loginRequired : .refuse(status: 401, reason: "this client certificate is not let in"))
        case .failed(let failure):
            // Whoever comes while a start still runs the plugin's tests is let in a moment later.
            logger.log(
                level: failure.passesByItself ? .notice : .error,
                failure.passesByItself
                    ? "a login is asked to come again: plugin \(failure.plugin): \(failure.message)" : "the authenticator failed: \(failure.kind): \(failure.message)",
                metadata: ["plugin": "\(failure.plugin)", "peer": "\(request.remoteAddress)"])
            return .refused(.refuse(status: 503, reason: "logins cannot be checked now; try again in 1 s", headers: ["Retry-After": "1"]))
        }
    }

    /// Seconds until this login is looked at; nil if it is now.
    private func wait(_ login: LoginGuard.Login) -> Double? { failures.withLock { $0.wait(login, at: now) } }

    /// Monotonic seconds.
    private var now: Double { Double(time.monotonicNanoseconds()) / 1e9 }

    private static var loginRequired: UpgradeDecision {
        .refuse(
            status: 401, reason: "a user name and the right password are needed",
            headers: ["WWW-Authenticate": "Basic realm=\"Nightjar\""])
    }

    /// 429 is transient for Couchbase Lite: a rightful client behind the same address comes back.
    private static func tooManyFailures(_ wait: Double) -> UpgradeDecision {
        let seconds = Int(wait.rounded(.up))
        return .refuse(
            status: 429, reason: "too many failed logins of this user or from this address; try again in \(seconds) s", headers: ["Retry-After": "\(seconds)"])
    }
}

extension PeerCertificate {
    /// As plugins get it.
    init(_ certificate: Certificate) {
        let names = certificate.alternativeNames
        self.init(
            subject: certificate.subject, commonName: certificate.commonName, dnsNames: names.dns, ipAddresses: names.ip, emails: names.email,
            uris: names.uri, serial: certificate.serialNumber, sha256: certificate.sha256, spkiSHA256: certificate.spkiSHA256,
            notBefore: certificate.notBefore, notAfter: certificate.notAfter, der: certificate.der)
    }
}
