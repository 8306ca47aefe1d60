/// The source of an identity, as configured.
package enum IdentitySetting: Sendable, CustomStringConvertible {
    /// A self-signed one that the agent makes for itself.
    case anonymous
    /// One from the key store.
    case label(IdentityLabel)
    /// PEM files (or provider URIs), which may be the same. The passphrase is for an encrypted key.
    case files(certificate: String, key: String, passphrase: SecretBytes?)
    /// Certificate and key behind the URI of an OpenSSL provider, such as `pkcs11:token=plant;object=gateway`.
    case provider(uri: String)

    /// For status and errors: the label, the path, or the URI without its PIN.
    package var description: String {
        switch self {
        case .anonymous: IdentityLabel.anonymous.text
        case .label(let label): label.text
        case .files(let certificate, _, _): ProviderURI.redacted(certificate)
        case .provider(let uri): ProviderURI.redacted(uri)
        }
    }

    /// The files that it consists of.
    func paths(_ store: KeyStore) -> [String] {
        switch self {
        case .anonymous: [store.path(of: .anonymous)]
        case .label(let label): [store.path(of: label)]
        case .files(let certificate, let key, _): [certificate, key].filter { !ProviderURI.isOne($0) }
        case .provider: []
        }
    }

    /// Reads it; the anonymous one is created if needed.
    ///
    /// - Parameter memory: records what happened to the anonymous one.
    func load(_ store: KeyStore, _ memory: AnonymousMemory? = nil) throws(TLSFileError) -> Identity {
        switch self {
        case .anonymous: return try Self.anonymous(store, memory)
        case .label(let label): return try label == .anonymous ? Self.anonymous(store, memory) : store.load(label)
        case .provider(let uri):
            return try Identity(
                chain: try ProviderURI.certificates(uri), key: try ProviderURI.key(uri, passphrase: nil), path: ProviderURI.redacted(uri))
        case .files(let certificate, let key, let passphrase):
            return try Identity(
                chain: try Self.chain(certificate), key: try Self.key(key, passphrase, store), path: ProviderURI.redacted(certificate))
        }
    }

    private static func anonymous(_ store: KeyStore, _ memory: AnonymousMemory?) throws(TLSFileError) -> Identity {
        let (identity, event) = try store.anonymous(inForce: memory?.identity)
        memory?.note(identity, event)
        return identity
    }

    static func chain(_ place: String) throws(TLSFileError) -> [Certificate] {
        ProviderURI.isOne(place) ? try ProviderURI.certificates(place) : try CertificateFile.read(place)
    }

    static func key(_ place: String, _ passphrase: SecretBytes?, _ store: KeyStore) throws(TLSFileError) -> PrivateKey {
        guard !ProviderURI.isOne(place) else { return try ProviderURI.key(place, passphrase: passphrase) }
        return try PrivateKey.readPEM(try TLSFile.read(place, .secret, owner: store.agentUser), passphrase: passphrase, path: place)
    }
}
