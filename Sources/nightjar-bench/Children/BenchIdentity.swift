import Environment
import TLS
import Transport

/// The identity of the passive side in a run over TLS, which the active side verifies by the pinned certificate.
///
/// An anonymous self-signed P-256 identity, like the one an agent makes for itself, so that the figures are those of the
/// defaults.
struct BenchIdentity {
    let identity: Identity
    /// The file with certificate and key.
    let path: String

    /// - Parameter folder: where it is stored; created on first use.
    init(folder: String) throws {
        let store = KeyStore(dataFolder: folder, time: SystemTime())
        let label = try IdentityLabel("bench")
        path = store.path(of: label)
        identity = Files.exists(path) ? try store.load(label) : try store.create(label, .anonymous)
    }

    func serverContext() throws -> TLSContext { try TLSContext(server: TLSServerOptions(identity: identity)) }

    /// - Parameter resumes: whether sessions are kept for resumption.
    func clientContext(resumes: Bool = true) throws -> TLSContext {
        var options = TLSClientOptions(serverAuthentication: ServerAuthentication(pins: [.certificate(identity.leaf)]))
        if !resumes { options.limits.sessions = 0 }
        return try TLSContext(client: options)
    }

    func server() throws -> SecureLayer { .tls(server: CurrentContext(try serverContext())) }
    func client() throws -> SecureLayer { .tls(client: CurrentContext(try clientContext())) }
}
