import Environment
import TLS
import Transport

/// Whom the passive side of a run over TLS is, and how the active side knows it: by its pinned certificate.
///
/// An anonymous self-signed P-256 identity, as an agent makes for itself, so that the figures are those of the defaults.
struct BenchIdentity {
    let identity: Identity
    /// The file with certificate and key.
    let path: String

    /// - Parameter folder: where it is kept; made when it is first asked for.
    init(folder: String) throws {
        let store = KeyStore(dataFolder: folder, time: SystemTime())
        let label = try IdentityLabel("bench")
        path = store.path(of: label)
        identity = Files.exists(path) ? try store.load(label) : try store.create(label, .anonymous)
    }

    func serverContext() throws -> TLSContext { try TLSContext(server: TLSServerOptions(identity: identity)) }

    /// - Parameter resumes: whether sessions are kept to be taken up again.
    func clientContext(resumes: Bool = true) throws -> TLSContext {
        var options = TLSClientOptions(serverAuthentication: ServerAuthentication(pins: [.certificate(identity.leaf)]))
        if !resumes { options.limits.sessions = 0 }
        return try TLSContext(client: options)
    }

    func server() throws -> SecureLayer { .tls(server: CurrentContext(try serverContext())) }
    func client() throws -> SecureLayer { .tls(client: CurrentContext(try clientContext())) }
}
