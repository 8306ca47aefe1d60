import AgentConfiguration
import Logging
import TLS
import Transport

/// TLS for one listener: its identity and its clients' authorities, which can be replaced while it runs.
final class ListenerSecurity: Sendable {
    let identity: IdentitySource
    private let roots: ReloadableFiles<[Certificate]>?
    private let revoked: ReloadableFiles<[RevocationList]>?
    private let mode: ClientCertificates.Mode
    private let minimum: TLSVersion
    private let context: CurrentContext

    /// - Parameter own: remembers the identity that the agent makes for itself.
    init(_ settings: ListenerSettings, store: KeyStore, own: AnonymousMemory, logger: Logger) throws(ConfigurationProblem) {
        let name = "listener \"\(settings.name.value)\""
        let position = settings.identity?.position ?? settings.position
        do throws(TLSFileError) {
            identity = try IdentitySource(try settings.identity.map { reference throws(TLSFileError) in try IdentitySetting(reference) } ?? .anonymous, store: store, memory: own)
        } catch { throw ConfigurationProblem(at: position, "\(name) identity: \(error)") }
        identity.logIdentityChanges(logger)
        do throws(TLSFileError) {
            roots = settings.roots.isEmpty ? nil : try .certificates(settings.roots.map(\.value))
        } catch { throw ConfigurationProblem(at: settings.roots.first?.position ?? position, "\(name) roots: \(error)") }
        do throws(TLSFileError) {
            revoked = settings.revocationLists.isEmpty ? nil : try .revocationLists(settings.revocationLists.map(\.value))
        } catch { throw ConfigurationProblem(at: settings.revocationLists.first?.position ?? position, "\(name) crl: \(error)") }
        mode =
            switch settings.clientCertificates.value {
            case .none: .none
            case .request: .request
            case .require: .require
            }
        minimum = TLSVersion(settings.minimumTLS.value)
        do throws(TLSError) {
            context = CurrentContext(try Self.context(identity.current, ClientCertificates(mode, roots, revoked), minimum))
        } catch { throw ConfigurationProblem(at: position, "\(name): \(error)") }
    }

    /// Whether the present authorities vouch for a chain that a client presented; true if there are none.
    func accepts(_ chain: [Certificate]) -> Bool { ClientCertificates(mode, roots, revoked).accepts(chain) }

    /// Whether authorities have judged a certificate that a client presents.
    var checksClients: Bool { roots != nil }

    var layer: SecureLayer { .tls(server: context) }

    /// The authorities of clients.
    var rootCertificates: [Certificate] { roots?.current ?? [] }

    /// What is wrong with their files at the moment.
    var rootsFailure: TLSFileError? { roots?.failure }
    var revokedFailure: TLSFileError? { revoked?.failure }

    /// Loads files that have changed; invalid ones are reported, and their previous contents stay in force.
    ///
    /// - Returns: true if the authorities, or what they revoke, have changed: clients that were let in may no longer be acceptable.
    func refresh(_ logger: Logger) -> Bool {
        if let next = identity.lookForNext() {
            logger.notice(
                "the key is going to change: peers that pin this listener should pin the next key too, before it is put in force",
                metadata: ["identity": "\(identity.label)", "pin": "\(identity.current.leaf.pin)", "next_pin": "\(next.pin)"])
        }
        let hasIdentity = TLSFileReload.run("identity", logger) { () throws(TLSFileError) in try identity.reload() }
        identity.logIdentityChanges(logger)
        let hasRoots = TLSFileReload.run("roots", logger) { () throws(TLSFileError) in try roots?.reload() }
        let hasRevoked = TLSFileReload.run("crl", logger) { () throws(TLSFileError) in try revoked?.reload() }
        guard hasIdentity || hasRoots || hasRevoked else { return false }
        do throws(TLSError) {
            context.replace(with: try Self.context(identity.current, ClientCertificates(mode, roots, revoked), minimum))
            logger.notice("new connections use the TLS files as they are now", metadata: ["identity": "\(identity.current)"])
        } catch { logger.error("TLS goes on as before: \(error)") }
        return hasRoots || hasRevoked
    }

    private static func context(_ identity: Identity, _ clients: ClientCertificates, _ minimum: TLSVersion) throws(TLSError) -> TLSContext {
        var options = TLSServerOptions(identity: identity)
        options.clientCertificates = clients
        options.minimum = minimum
        return try TLSContext(server: options)
    }
}

extension TLSVersion {
    init(_ setting: MinimumTLS) { self = setting == .v1_3 ? .v1_3 : .v1_2 }
}

extension ClientCertificates {
    /// From the present files.
    fileprivate init(_ mode: Mode, _ roots: ReloadableFiles<[Certificate]>?, _ revoked: ReloadableFiles<[RevocationList]>?) {
        self.init(mode: mode, roots: roots?.current, revocationLists: revoked?.current ?? [])
    }
}
