/// Who a side of a connection is: a certificate, those that vouch for it, and the key.
package struct Identity: Sendable, CustomStringConvertible {
    /// Leaf first, then each by whom the one before was issued; never empty.
    package let chain: [Certificate]
    package let key: PrivateKey

    package var leaf: Certificate { chain[0] }

    /// - Parameters:
    ///   - chain: in any order: the leaf is the certificate of the key, and the others follow as they vouch for each other.
    ///   - path: named in errors.
    /// - Throws: ``TLSFileError`` of kind `keyMismatch` where no certificate is that of the key, and of kind `tooLarge`.
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

    /// Each certificate followed by the one that vouches for it, as TLS 1.2 demands; what vouches for none of them stays behind.
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
