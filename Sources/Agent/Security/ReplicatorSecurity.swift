import AgentConfiguration
import Interfaces
import Logging
import Replication
import Synchronization
import TLS
import Transport

/// TLS for one replicator: which servers it trusts and which identity it presents, replaceable while it runs; and the server it last connected to.
package final class ReplicatorSecurity: Sendable {
    /// The certificate of the server it last connected to.
    package struct Server: Sendable {
        package var certificate: Certificate
        /// TLS version and cipher.
        var summary: String
    }

    private let pinFiles: ReloadableFiles<[Certificate]>?
    private let roots: ReloadableFiles<[Certificate]>?
    private let revoked: ReloadableFiles<[RevocationList]>?
    private let publicKeys: [CertificatePin]
    private let acceptsOnlySelfSigned: Bool
    private let minimum: TLSVersion
    /// `unsafe_skip_server_certificate_verification`.
    let isUnsafe: Bool
    let identity: IdentitySource?
    private let context: CurrentContext
    private struct Meeting {
        var server: Server?
        /// Over HTTP, one transport makes many connections, and the server may present another certificate in each.
        weak var transport: (any MessageTransport)?
    }

    private let met = Mutex(Meeting())
    /// Whether the target may be one of several servers, each with a pin of its own.
    private let hasSeveralServers: Bool

    init(_ settings: ReplicatorSettings, store: KeyStore) throws(ConfigurationProblem) {
        let name = "replicator \"\(settings.name.value)\""
        var files: [String] = []
        var keys: [CertificatePin] = []
        for pin in settings.pinnedServerCertificates {
            switch pin {
            case .file(let path): files.append(path.value)
            case .publicKey(let text):
                guard let key = CertificatePin(publicKeyText: text.value) else {
                    throw ConfigurationProblem(at: text.position, "\(name) pinned_server_certificate: \(text.value) is not a pin")
                }
                keys.append(key)
            }
        }
        publicKeys = keys
        hasSeveralServers = settings.target.value.group != nil
        acceptsOnlySelfSigned = settings.acceptOnlySelfSignedServerCertificate.value
        minimum = TLSVersion(settings.minimumTLS.value)
        isUnsafe = settings.unsafeSkipServerCertificateVerification.value
        do throws(TLSFileError) { pinFiles = files.isEmpty ? nil : try .certificates(files) } catch {
            throw ConfigurationProblem(
                at: settings.pinnedServerCertificates.first?.position ?? settings.position, "\(name) pinned_server_certificate: \(error)")
        }
        do throws(TLSFileError) { roots = settings.roots.isEmpty ? nil : try .certificates(settings.roots.map(\.value)) } catch {
            throw ConfigurationProblem(at: settings.roots.first?.position ?? settings.position, "\(name) roots: \(error)")
        }
        do throws(TLSFileError) {
            revoked = settings.revocationLists.isEmpty ? nil : try .revocationLists(settings.revocationLists.map(\.value))
        } catch { throw ConfigurationProblem(at: settings.revocationLists.first?.position ?? settings.position, "\(name) crl: \(error)") }
        do throws(TLSFileError) {
            identity = try settings.authenticator?.identity.map { reference throws(TLSFileError) in
                try IdentitySource(try IdentitySetting(reference), store: store)
            }
        } catch {
            throw ConfigurationProblem(at: settings.authenticator?.position ?? settings.position, "\(name) authenticator: \(error)")
        }
        do throws(TLSError) {
            context = CurrentContext(
                try Self.context(
                    publicKeys, pinFiles?.current, roots?.current, revoked?.current, acceptsOnlySelfSigned, isUnsafe, identity?.current, minimum))
        } catch { throw ConfigurationProblem(at: settings.target.position, "\(name): \(error)") }
    }

    var layer: SecureLayer { .tls(client: context) }

    var rootCertificates: [Certificate] { roots?.current ?? [] }
    var revocationLists: [RevocationList] { revoked?.current ?? [] }

    private var authentication: ServerAuthentication {
        Self.serverAuthentication(publicKeys, pinFiles?.current, roots?.current, revoked?.current, acceptsOnlySelfSigned, isUnsafe)
    }

    /// Whether a server is refused whose certificate has expired or is not valid yet.
    package var checksDates: Bool { authentication.rule.checksDates }

    /// The ends that should be told of the certificates by which it judges its server, and of the server's own if dates are checked. Where a pin or another
    /// rule decides, its authorities do not count.
    package func ends(now: Int64) -> [CertificateEnd] {
        let met = server?.certificate
        var ends = (met.map { pinsInUse(by: $0) } ?? pinFiles?.current ?? []).compactMap { CertificateEnd(of: $0, as: .pinned, now: now) }
        guard checksDates else { return ends }
        ends += CertificateEnd.ofAuthorities(rootCertificates, now: now)
        if let met, let end = CertificateEnd(of: met, as: .server, now: now) { ends.append(end) }
        return ends
    }

    /// The pinned certificates whose ends matter. If the server has since presented a later certificate with the pinned key, it was renewed and kept its key; if
    /// with another key that is pinned as well, it has changed its key as was prepared, and the old pin is only left over.
    private func pinsInUse(by server: Certificate) -> [Certificate] {
        let files = pinFiles?.current ?? []
        let hasChanged = !hasSeveralServers && (publicKeys + files.map { .certificate($0) }).contains { $0.matches(server) }
        return files.filter { $0.notAfter >= server.notAfter || !hasChanged && !CertificatePin.certificate($0).matches(server) }
    }

    /// What is wrong with files at the moment, each with the setting that names it.
    var fileFailures: [(String, TLSFileError)] {
        [("roots", roots?.failure), ("crl", revoked?.failure), ("pinned_server_certificate", pinFiles?.failure)].compactMap { name, failure in failure.map { (name, $0) } }
    }

    /// The server of the last connection; nil before the first one.
    package var server: Server? {
        met.withLock { met in
            if let peer = (met.transport as? any SecuredTransport)?.securePeer { Self.note(peer, &met.server) }
            return met.server
        }
    }

    /// Loads files that have changed; invalid ones are reported, and their previous contents stay in force.
    ///
    /// - Returns: whether the next connection will use different ones.
    @discardableResult
    func refresh(_ logger: Logger) -> Bool {
        let hasPins = TLSFileReload.run("pinned_server_certificate", logger) { () throws(TLSFileError) in try pinFiles?.reload() }
        let hasRoots = TLSFileReload.run("roots", logger) { () throws(TLSFileError) in try roots?.reload() }
        let hasRevoked = TLSFileReload.run("crl", logger) { () throws(TLSFileError) in try revoked?.reload() }
        let hasIdentity = TLSFileReload.run("authenticator", logger) { () throws(TLSFileError) in try identity?.reload() }
        identity?.logIdentityChanges(logger)
        guard hasPins || hasRoots || hasRevoked || hasIdentity else { return false }
        do throws(TLSError) {
            context.replace(
                with: try Self.context(
                    publicKeys, pinFiles?.current, roots?.current, revoked?.current, acceptsOnlySelfSigned, isUnsafe, identity?.current, minimum))
            logger.notice("the next connection uses the TLS files as they are now")
            return true
        } catch {
            logger.error("TLS goes on as before: \(error)")
            return false
        }
    }

    /// Makes a connector record the server that it connects to.
    func watching(_ connector: any TransportConnector) -> any TransportConnector { Watching(connector: connector, security: self) }

    private func note(_ transport: any MessageTransport) {
        guard let peer = (transport as? any SecuredTransport)?.securePeer else { return }
        met.withLock { met in
            Self.note(peer, &met.server)
            met.transport = transport
        }
    }

    private static func note(_ peer: SecurePeer, _ server: inout Server?) {
        guard let leaf = peer.certificates.first else { return }
        if let known = server, known.certificate.der == leaf {
            server?.summary = peer.summary
        } else if let certificate = try? Certificate(der: leaf) {
            server = Server(certificate: certificate, summary: peer.summary)
        }
    }

    private struct Watching: TransportConnector {
        let connector: any TransportConnector
        let security: ReplicatorSecurity

        func connect() async throws -> any MessageTransport { try await reach(nil).transport }

        func reach(_ remote: String?) async throws -> ReachedRemote {
            let reached = try await connector.reach(remote)
            security.note(reached.transport)
            return reached
        }
    }

    private static func context(
        _ keys: [CertificatePin], _ pinned: [Certificate]?, _ roots: [Certificate]?, _ revoked: [RevocationList]?,
        _ selfSigned: Bool, _ isUnsafe: Bool, _ identity: Identity?, _ minimum: TLSVersion
    ) throws(TLSError) -> TLSContext {
        var options = TLSClientOptions(serverAuthentication: serverAuthentication(keys, pinned, roots, revoked, selfSigned, isUnsafe), identity: identity)
        options.minimum = minimum
        return try TLSContext(client: options)
    }

    private static func serverAuthentication(
        _ keys: [CertificatePin], _ pinned: [Certificate]?, _ roots: [Certificate]?, _ revoked: [RevocationList]?, _ selfSigned: Bool, _ isUnsafe: Bool
    ) -> ServerAuthentication {
        ServerAuthentication(
            pins: keys + (pinned ?? []).map { .certificate($0) }, acceptsOnlySelfSigned: selfSigned, extraRoots: roots ?? [],
            revocationLists: revoked ?? [], unsafelySkipsVerification: isUnsafe)
    }
}
