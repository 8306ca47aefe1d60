import AgentConfiguration
import Environment
import TLS

/// The certificate and key files that a configuration names, and the identities that it expects in the key store.
extension ConfigurationCheck {
    /// Which problems to report.
    enum Gravity {
        /// Only certificates that are not valid today. An agent starts anyway and warns: a gateway whose clock is not set yet, or whose certificate
        /// expired unnoticed, still collects its data, and it is for peers to judge the certificate.
        case dates
        /// Problems that prevent TLS from working.
        case obstacles

        func covers(_ error: TLSFileError) -> Bool { error.isOfDates == (self == .dates) }
    }

    /// What is wrong with the files, at the places that name them. Creates and changes nothing.
    static func tlsFiles(_ settings: AgentSettings, _ gravity: Gravity, _ environment: Environment) -> [ConfigurationProblem] {
        let store = KeyStore(dataFolder: settings.data.value, time: environment.time)
        let now = environment.time.wallSeconds()
        var problems: [ConfigurationProblem] = []
        func report(_ found: [TLSFileError], _ what: String, at position: SourcePosition) {
            problems += found.filter { gravity.covers($0) }.map { ConfigurationProblem(at: position, "\(what): \($0)") }
        }
        func report(_ reference: IdentityReference, _ what: String) {
            // The key store is in the data folder.
            if case .label = reference, !settings.knowsDataFolder { return }
            do throws(TLSFileError) {
                report(TLSFileCheck.identity(try IdentitySetting(reference), store: store, now: now), what, at: reference.position)
            } catch { report([error], what, at: reference.position) }
        }
        for listener in settings.listeners where listener.usesTLS {
            let name = "listener \"\(listener.name.value)\""
            if let identity = listener.identity {
                report(identity, "\(name) identity")
            } else if settings.knowsDataFolder {
                report(TLSFileCheck.identity(.anonymous, store: store, now: now), "\(name) anonymous identity", at: listener.position)
            }
            for root in listener.roots { report(TLSFileCheck.roots(root.value, now: now), "\(name) roots", at: root.position) }
            for list in listener.revocationLists { report(TLSFileCheck.revocationLists(list.value), "\(name) crl", at: list.position) }
        }
        for listener in settings.listeners {
            guard let tokens = listener.tokens, let keys = tokens.keys else { continue }
            do throws(TLSFileError) { _ = try TokenKey.read(keys.value, taking: tokens.signatureAlgorithms) } catch {
                report([error], "listener \"\(listener.name.value)\" authenticator.jwt", at: keys.position)
            }
        }
        for replicator in settings.replicators {
            let name = "replicator \"\(replicator.name.value)\""
            if let identity = replicator.authenticator?.identity { report(identity, "\(name) authenticator") }
            for root in replicator.roots where gravity == .obstacles || !replicator.ignoresRoots {
                report(TLSFileCheck.roots(root.value, now: now), "\(name) roots", at: root.position)
            }
            for root in replicator.proxy?.roots ?? [] { report(TLSFileCheck.roots(root.value, now: now), "\(name) proxy roots", at: root.position) }
            for list in replicator.revocationLists { report(TLSFileCheck.revocationLists(list.value), "\(name) crl", at: list.position) }
            for case .file(let path) in replicator.pinnedServerCertificates {
                report(TLSFileCheck.pins(path.value), "\(name) pinned_server_certificate", at: path.position)
            }
        }
        return problems
    }

    /// Revocation lists that do not cover what a listener's `roots` issue. They may be those of intermediate authorities, whose certificates
    /// clients present.
    static func otherRevocationLists(_ settings: AgentSettings) -> [ConfigurationProblem] {
        var advice: [ConfigurationProblem] = []
        for listener in settings.listeners where listener.usesTLS {
            for list in listener.revocationLists {
                for issuer in TLSFileCheck.unknownIssuers(of: list.value, roots: listener.roots.map(\.value)) {
                    advice.append(
                        ConfigurationProblem(
                            at: list.position,
                            "listener \"\(listener.name.value)\" crl: \(list.value): a revocation list of \(issuer), which is not among \"roots\": certificates "
                                + "issued by those are not checked against it"))
                }
            }
        }
        return advice
    }

    /// Keys of tokens that are never tried.
    static func untriedKeys(_ settings: AgentSettings) -> [ConfigurationProblem] {
        settings.listeners.compactMap { listener in
            // A file that cannot be read is reported elsewhere.
            guard let tokens = listener.tokens, let path = tokens.keys, let keys = try? TokenKey.read(path.value, taking: tokens.signatureAlgorithms),
                let problem = TokenKey.untried(keys, taking: tokens.signatureAlgorithms, hasSecret: tokens.secret != nil)
            else { return nil }
            return ConfigurationProblem(at: path.position, "listener \"\(listener.name.value)\" authenticator.jwt: \(path.value): \(problem)")
        }
    }

    /// What prevents an agent from starting: invalid files, and settings that this version cannot carry out.
    static func obstacles(_ settings: AgentSettings, _ environment: Environment) -> [ConfigurationProblem] {
        unavailable(settings) + tlsFiles(settings, .obstacles, environment) + [misplacedLog(settings)].compactMap { $0 }
    }
}

extension TLSFileError {
    /// Whether the only problem is that a certificate is not valid today.
    package var isOfDates: Bool { kind == .expired || kind == .notYetValid }
}

extension IdentitySetting {
    /// An identity as the configuration refers to it.
    package init(_ reference: IdentityReference) throws(TLSFileError) {
        switch reference {
        case .label(let label): self = .label(try IdentityLabel(label.value))
        case .provider(let uri): self = .provider(uri: uri.value)
        case .files(let certificate, let key, let passphrase):
            self = .files(
                certificate: certificate.value, key: key.value, passphrase: passphrase.map { SecretBytes($0.revealed) })
        }
    }
}
