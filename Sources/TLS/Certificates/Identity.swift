/// Who a side of a connection is: a certificate, those that vouch for it, and the key.
public struct Identity: Sendable, CustomStringConvertible {
    /// Leaf first, then the intermediates as they were given; never empty.
    public let chain: [Certificate]
    public let key: PrivateKey

    public var leaf: Certificate { chain[0] }

    /// - Parameters:
    ///   - chain: the leaf is looked for: it is the certificate of the key.
    ///   - path: named in errors.
    /// - Throws: ``TLSFileError`` of kind `keyMismatch` where no certificate is that of the key, and of kind `tooLarge`.
    public init(chain: [Certificate], key: PrivateKey, path: String) throws(TLSFileError) {
        guard chain.count <= TLSLimits.chainLength else {
            throw TLSFileError(
                .tooLarge, path: path, reason: "\(chain.count) certificates, more than chainLength = \(TLSLimits.chainLength)",
                advice: "an identity is its certificate and the intermediates; roots and other authorities do not belong here")
        }
        guard let leaf = chain.firstIndex(where: { key.matches($0) }) else {
            throw TLSFileError(
                .keyMismatch, path: path,
                reason: "the private key (\(key.facts)) is not that of the certificate \(chain.first.map { "\($0.subject) (\($0.key))" } ?? "")",
                advice: "give the key that the certificate was made with")
        }
        var ordered = chain
        ordered.insert(ordered.remove(at: leaf), at: 0)
        self.chain = ordered
        self.key = key
    }

    /// The leaf's subject and fingerprint.
    public var description: String { "\(leaf.subject) (SHA-256 \(leaf.sha256))" }
}
