/// An identity in other software's files, to be imported: PEM, or PKCS#12.
package struct IdentityFile: Sendable {
    private let certificate: SecretBytes
    private let key: SecretBytes?
    private let certificatePath: String
    private let keyPath: String

    /// Reads the files. Their permissions are not checked: they are the operator's, and the key store keeps its own copy.
    ///
    /// - Parameter key: nil if the certificate's file also contains the key.
    package init(certificate: String, key: String?) throws(TLSFileError) {
        certificatePath = certificate
        keyPath = key ?? certificate
        self.certificate = try TLSFile.read(certificate, .certificates)
        if let key { self.key = try TLSFile.read(key, .certificates) } else { self.key = nil }
    }

    /// Whether a passphrase is needed.
    package var isEncrypted: Bool {
        do throws(TLSFileError) {
            _ = try identity(passphrase: nil)
            return false
        } catch { return error.kind == .encrypted }
    }

    /// - Throws: `encrypted` if a passphrase is needed and none was given.
    package func identity(passphrase: SecretBytes?) throws(TLSFileError) -> Identity {
        guard let key else {
            if PKCS12File.isLikely(certificate) { return try PKCS12File.read(certificate, passphrase: passphrase, path: certificatePath) }
            return try IdentityText.parse(certificate, passphrase: passphrase, path: certificatePath)
        }
        let chain = try certificate.withBytes { buffer throws(TLSFileError) in try Certificate.readPEM(buffer, path: certificatePath) }
        return try Identity(chain: chain, key: try PrivateKey.readPEM(key, passphrase: passphrase, path: keyPath), path: keyPath)
    }
}
