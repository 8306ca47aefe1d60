/// The identity of one side of a connection: a certificate, its issuers, and the key.
package struct Identity: Sendable, CustomStringConvertible {
    /// Leaf first, each followed by its issuer; never empty.
    package let chain: [Certificate]
    package let key: PrivateKey

    package var leaf: Certificate { chain[0] }

    /// - Parameters:
    ///   - chain: in any order: the leaf is the certificate that matches the key, and the others are ordered as issuers.
    ///   - path: named in errors.
    /// - Throws: ``TLSFileError`` of kind `keyMismatch` if no certificate matches the key, or of kind `tooLarge`.
    package init(chain: [Certificate], key: PrivateKey, path: String) throws(TLSFileError) {
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
        self.chain = Self.ordered(chain, leaf: leaf)
        self.key = key
    }

    /// Each certificate followed by its issuer, as TLS 1.2 requires; certificates that issued none of them are dropped.
    private static func ordered(_ chain: [Certificate], leaf: Int) -> [Certificate] {
        var rest = chain
        var ordered = [rest.remove(at: leaf)]
        while let last = ordered.last, let next = rest.firstIndex(where: { last.isIssued(by: $0) }) {
            ordered.append(rest.remove(at: next))
        }
        return ordered + rest
    }

    /// The leaf's subject and fingerprint.
    package var description: String { "\(leaf.subject) (SHA-256 \(leaf.sha256))" }
}
