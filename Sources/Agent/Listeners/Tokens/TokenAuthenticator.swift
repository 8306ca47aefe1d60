import AgentConfiguration
import Encodings
import Environment
import Interfaces
import Logging
import Synchronization
import TLS

/// A token that a peer presented, kept while the peer is connected so that it can be judged again.
struct PeerToken: Sendable {
    var text: String
    /// When the token stops being valid (seconds since 1970).
    var end: Int64
}

/// Judges JSON Web Tokens by the present keys of a file and a secret. It contacts no issuer: a token that the issuer revokes early stays valid until
/// it expires.
final class TokenAuthenticator: Sendable {
    enum Verdict: Sendable {
        case accepted(Principal, PeerToken)
        case refused(TokenProblem)
    }

    /// A shared secret from the configuration, and the key made from it.
    private struct Shared: Sendable {
        var secret: Secret
        var key: TokenKey
        /// What is wrong with its file, while the previous secret remains in force.
        var problem: String?
    }

    private let rules: TokenRules
    private let algorithms: Set<SignatureAlgorithm>
    private let files: ReloadableFiles<[TokenKey]>?
    private let shared: Mutex<Shared?>
    private let time: any TimeSource
    private let floor: TimeFloor?

    /// - Parameters:
    ///   - listener: named in problems.
    ///   - floor: the lower bound against which the clock is checked; nil trusts the clock.
    static func make(_ settings: TokenSettings, listener: String, time: any TimeSource, floor: TimeFloor? = nil) throws(ConfigurationProblem) -> TokenAuthenticator {
        let files: ReloadableFiles<[TokenKey]>?
        let algorithms = settings.signatureAlgorithms
        do throws(TLSFileError) {
            files = try settings.keys.map { path throws(TLSFileError) in
                try .reading([path.value]) { () throws(TLSFileError) in try TokenKey.read(path.value, taking: algorithms) }
            }
        } catch { throw ConfigurationProblem(at: settings.keys?.position ?? settings.position, "listener \"\(listener)\" authenticator.jwt: \(error)") }
        do throws(CertificateError) {
            let shared = try settings.secret.map { secret throws(CertificateError) in (secret.value, try key(secret.value)) }
            return TokenAuthenticator(settings, files, shared, time, floor)
        } catch { throw ConfigurationProblem(at: settings.secret?.position ?? settings.position, "listener \"\(listener)\" authenticator.jwt: \(error)") }
    }

    /// Does not throw: see ``ReloadableFiles``.
    private init(
        _ settings: TokenSettings, _ files: ReloadableFiles<[TokenKey]>?, _ shared: (Secret, TokenKey)?, _ time: any TimeSource, _ floor: TimeFloor?
    ) {
        rules = TokenRules(settings: settings)
        algorithms = settings.signatureAlgorithms
        self.files = files
        self.shared = Mutex(shared.map { Shared(secret: $0.0, key: $0.1) })
        self.time = time
        self.floor = floor
    }

    private static func key(_ secret: Secret) throws(CertificateError) -> TokenKey {
        let key = try SignatureKey.secret(Array(secret.revealed.utf8))
        return TokenKey(id: nil, key: key, algorithms: key.algorithms)
    }

    /// The secret comes first: its verification costs little, and a file with many keys must not keep it from being tried.
    private var keys: [TokenKey] { (shared.withLock { $0.map { [$0.key] } } ?? []) + (files?.current ?? []) }

    func judge(_ text: String) -> Verdict {
        do throws(TokenProblem) {
            let token = try WebToken(verifying: text, by: keys, algorithms: algorithms)
            let (principal, end) = try rules.bearer(token.claims, at: now)
            return .accepted(principal, PeerToken(text: text, end: end))
        } catch { return .refused(error) }
    }

    /// The time to use for tokens, and why it differs from the clock.
    var now: (seconds: Int64, doubt: String?) { floor?.now(keys: rules.settings.keys?.value) ?? (time.wallSeconds(), nil) }

    /// What is wrong with the current key file, while the previous keys remain in use.
    var failure: TLSFileError? { files?.failure }

    /// The same for the file of the secret.
    var secretProblem: String? { shared.withLock { $0?.problem } }

    /// Takes in a file or a secret that has changed. Broken ones are reported, and what was there before stays in force.
    ///
    /// - Returns: whether tokens may be judged differently from before.
    func refresh(_ logger: Logger) -> Bool {
        floor?.note()
        var hasChanged = false
        do throws(TLSFileError) { hasChanged = try files?.reload() ?? false } catch { logger.error("tokens are checked with the previous keys: \(error)") }
        let (hasSecret, problem) = refreshSecret()
        if let problem { logger.error("tokens are checked with the previous secret: \(problem)") }
        if hasChanged || hasSecret { logger.notice("tokens are now checked with the new keys") }
        return hasChanged || hasSecret
    }

    /// - Returns: whether the secret has changed, and what is wrong with its file if that has not been reported yet.
    private func refreshSecret() -> (isNew: Bool, problem: String?) {
        shared.withLock { shared in
            guard var known = shared else { return (false, nil) }
            let before = known.problem
            known.problem = nil
            var isNew = false
            if let now = known.secret.read() {
                if now != known.secret {
                    do throws(CertificateError) {
                        known.key = try Self.key(now)
                        known.secret = now
                        isNew = true
                    } catch { known.problem = error.reason }
                }
            } else {
                known.problem = "its file cannot be read, or is empty"
            }
            shared = known
            return (isNew, known.problem == before ? nil : known.problem)
        }
    }
}

extension TokenSettings {
    /// The accepted algorithms; empty for all that the keys are meant for.
    var signatureAlgorithms: Set<SignatureAlgorithm> { Set(algorithms.map(\.value)) }
}
