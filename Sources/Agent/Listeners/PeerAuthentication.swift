import Digests
import Encodings
import Environment
import HTTPServer
import Interfaces
import Logging
import Replication
import Synchronization
import TLS
import Transport

/// Determines who a peer is, by the listener's method: none, a certificate, a name and password, or a token.
///
/// By then the TLS handshake has proved that the peer holds the key of its certificate and, if the listener has `roots`, that one of them issued the
/// certificate.
final class PeerAuthentication: Sendable {
    enum Outcome: Sendable {
        case accepted(Principal, Proof)
        case refused(UpgradeDecision)
    }

    /// What a peer presented, kept while it is connected so that it can be judged again.
    enum Proof: Sendable {
        case nothing
        case password(BasicCredentials)
        case certificate([PeerCertificate])
        case token(PeerToken)
    }

    /// The result of checking a login.
    private struct Finding: Sendable {
        var verdict: AuthenticationVerdict
        var proof: Proof
        /// For the log: why it was refused, if known.
        var why = ""
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
    ///   - checksCertificates: whether the TLS layer has verified a presented certificate against the listener's `roots`.
    ///   - queue: shared by all listeners of the agent.
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
        if let tokens = policies.tokens, let token = request.bearerToken { return await judge(token, tokens, request) }
        let chain = (request.securePeer?.certificates ?? []).compactMap { try? Certificate(der: $0) }
        if let authenticator = policies.certificateAuthenticator {
            guard !chain.isEmpty else {
                logger.notice("a peer without a certificate is refused", metadata: ["peer": "\(request.remoteAddress)"])
                return .refused(.refuse(status: 401, reason: "a client certificate is needed"))
            }
            let shown = chain.map { PeerCertificate($0) }
            return await guarded(request, user: chain[0].commonName ?? chain[0].subject) {
                Finding(verdict: await authenticator.authenticate(chain: shown, listener: listener, remote: request.remoteAddress), proof: .certificate(shown))
            }
        }
        if let authenticator = policies.authenticator {
            guard let credentials = request.basicCredentials else { return .refused(loginRequired) }
            return await guarded(request, user: credentials.username) {
                let verdict = await authenticator.authenticate(
                    username: credentials.username, password: credentials.password, listener: listener, remote: request.remoteAddress)
                return Finding(verdict: verdict, proof: .password(credentials))
            }
        }
        if policies.tokens != nil { return .refused(loginRequired) }
        if let user = request.endpointUser { return .accepted(Principal(name: user), .nothing) }
        if checksCertificates, let leaf = chain.first { return .accepted(Principal(name: leaf.commonName ?? leaf.subject), .nothing) }
        return .accepted(.anonymous, .nothing)
    }

    /// The user named in a token is trusted only once the signature has been verified, so failures are counted not for that user but for the token
    /// itself, and for the address: nobody can lock a user out with bad tokens in his name, and a client with a valid token waits no longer than a
    /// password login from the same address would.
    private func judge(_ token: String, _ tokens: TokenAuthenticator, _ request: UpgradeRequest) async -> Outcome {
        await guarded(request, user: "token \(Hex.encode(SHA256.hash(Array(token.utf8)).prefix(16)))", shownAs: "a bearer token") {
            switch tokens.judge(token) {
            case .accepted(let principal, let token): Finding(verdict: .accepted(principal), proof: .token(token))
            case .refused(let problem): Finding(verdict: .refused, proof: .nothing, why: problem.reason)
            }
        }
    }

    /// Yields a value whenever peers that were let in may have lost their permission. The listener itself watches the keys of tokens.
    func changes() -> AsyncStream<String>? { policies.certificateAuthenticator?.versionChanges() ?? policies.authenticator?.versionChanges() }

    /// Whether a peer that was let in would be let in again, as the same principal. If the authenticator fails now, it would not.
    func accepts(_ proof: Proof, as principal: Principal, remote: String) async -> Bool {
        Self.isSame(await verdict(on: proof, of: principal, remote: remote), principal)
    }

    /// The authenticator's present answer about a peer that was let in; nil if it could not be asked. Without an authenticator, everybody keeps their
    /// identity.
    func verdict(on proof: Proof, of principal: Principal, remote: String) async -> AuthenticationVerdict? {
        // All of these share one line in the queue, so that new logins take turns with them.
        let login = LoginGuard.Login(user: "", origin: "judged again")
        return try? await queue.run(login, isKnown: true) { () -> AuthenticationVerdict in
            if case .token(let shown) = proof, let tokens = policies.tokens {
                guard case .accepted(let again, _) = tokens.judge(shown.text) else { return .refused }
                return .accepted(again)
            }
            return switch (proof, policies.authenticator, policies.certificateAuthenticator) {
            case (.password(let shown), let authenticator?, _):
                await authenticator.authenticate(username: shown.username, password: shown.password, listener: listener, remote: remote)
            case (.certificate(let chain), _, let authenticator?):
                await authenticator.authenticate(chain: chain, listener: listener, remote: remote)
            default: .accepted(principal)
            }
        }
    }

    /// Whether the verdict lets in the same principal as before.
    static func isSame(_ verdict: AuthenticationVerdict?, _ principal: Principal) -> Bool {
        guard case .accepted(var again) = verdict else { return false }
        if again.name == nil { again.name = principal.name }
        return again == principal
    }

    /// Asks the authenticator when it is this login's turn, unless too many attempts have failed. The guard is consulted twice: a certain refusal
    /// needs no place in the queue, and attempts made while this one waited may have been guesses.
    ///
    /// - Parameters:
    ///   - user: the user for whom failures are counted.
    ///   - shown: the user's name in messages; nil for the same.
    private func guarded(
        _ request: UpgradeRequest, user: String, shownAs shown: String? = nil, _ ask: () async -> Finding
    ) async -> Outcome {
        let login = LoginGuard.Login(user: user, origin: request.origin)
        do throws(LoginQueue.Refusal) {
            for _ in 0..<Held.rounds {
                if let wait = wait(login), await !hold(login, for: wait) { return .refused(Self.tooManyFailures(wait)) }
                let outcome = try await queue.run(login, isKnown: failures.withLock { $0.knows(login) }) { () async -> Outcome? in
                    if wait(login) != nil { return nil }
                    return judged(await ask(), login, request, user: shown ?? user)
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

    /// Waiting logins for users who are not under attack, from addresses where others guess passwords.
    private enum Held {
        /// `held_logins`: logins that wait for up to two seconds instead of being refused.
        static let count = 64
        /// `held_login_rounds`: how often a login waits again because another one's turn came first.
        static let rounds = 5
        static let seconds = 2.0
    }

    /// Waits if the login is delayed only by other users' failures; false means that it must be refused.
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

    private func judged(_ finding: Finding, _ login: LoginGuard.Login, _ request: UpgradeRequest, user: String) -> Outcome {
        switch finding.verdict {
        case .accepted(var principal):
            failures.withLock { $0.succeeded(login, at: now) }
            if principal.name == nil { principal.name = user }
            return .accepted(principal, finding.proof)
        case .refused:
            let wait = failures.withLock { $0.failed(login, at: now) }
            policies.refusedLogin(user, login.origin)
            logger.notice(
                "login refused\(finding.why.isEmpty ? "" : ": the bearer token is not accepted: \(finding.why)")\(wait.map { "; the next such login is not checked for \(Int($0.rounded(.up))) s" } ?? "")",
                metadata: ["user": "\(user)", "peer": "\(request.remoteAddress)"])
            if !finding.why.isEmpty { return .refused(Self.tokenRefused) }
            return .refused(
                policies.certificateAuthenticator == nil ? loginRequired : .refuse(status: 401, reason: "this client certificate is not accepted"))
        case .failed(let failure):
            // A peer that comes while the plugin's tests are still running at startup is let in a moment later.
            logger.log(
                level: failure.resolvesItself ? .notice : .error,
                failure.resolvesItself
                    ? "a login has to be tried again: plugin \(failure.plugin): \(failure.message)" : "the authenticator failed: \(failure.kind): \(failure.message)",
                metadata: ["plugin": "\(failure.plugin)", "peer": "\(request.remoteAddress)"])
            return .refused(.refuse(status: 503, reason: "logins cannot be checked now; try again in 1 s", headers: ["Retry-After": "1"]))
        }
    }

    /// Seconds until this login may be tried; nil if it may be now.
    private func wait(_ login: LoginGuard.Login) -> Double? { failures.withLock { $0.wait(login, at: now) } }

    /// Monotonic seconds.
    private var now: Double { Double(time.monotonicNanoseconds()) / 1e9 }

    private var loginRequired: UpgradeDecision {
        let password = "a user name and the right password are needed"
        var headers: HeaderList = policies.authenticator == nil ? [:] : ["WWW-Authenticate": "Basic realm=\"Nightjar\""]
        guard policies.tokens != nil else { return .refuse(status: 401, reason: password, headers: headers) }
        headers.add("WWW-Authenticate", "Bearer realm=\"Nightjar\"")
        return .refuse(status: 401, reason: policies.authenticator == nil ? "a bearer token is needed" : "\(password), or a bearer token", headers: headers)
    }

    /// The log has the reason.
    private static var tokenRefused: UpgradeDecision {
        .refuse(
            status: 401, reason: "the bearer token is not accepted: it has expired, or is not for this service",
            headers: ["WWW-Authenticate": "Bearer realm=\"Nightjar\", error=\"invalid_token\""])
    }

    /// 429 is transient for Couchbase Lite: a legitimate client behind the same address tries again.
    private static func tooManyFailures(_ wait: Double) -> UpgradeDecision {
        let seconds = Int(wait.rounded(.up))
        return .refuse(
            status: 429, reason: "too many failed logins of this user or from this address; try again in \(seconds) s", headers: ["Retry-After": "\(seconds)"])
    }
}

extension PeerCertificate {
    /// In the form that plugins get.
    init(_ certificate: Certificate) {
        let names = certificate.alternativeNames
        self.init(
            subject: certificate.subject, commonName: certificate.commonName, dnsNames: names.dns, ipAddresses: names.ip, emails: names.email,
            uris: names.uri, serial: certificate.serialNumber, sha256: certificate.sha256, spkiSHA256: certificate.spkiSHA256,
            notBefore: certificate.notBefore, notAfter: certificate.notAfter, der: certificate.der)
    }
}
