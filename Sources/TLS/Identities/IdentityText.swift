import Glibc

/// An identity as PEM text: certificates, leaf first, and the key.
enum IdentityText {
    static func make(_ identity: Identity, path: String, passphrase: SecretBytes? = nil) throws(TLSFileError) -> SecretBytes {
        let key: SecretBytes
        do throws(CertificateError) { key = try identity.key.writePEM(passphrase: passphrase) } catch {
            throw TLSFileError(.unsupported, path: path, reason: error.reason)
        }
        let certificates = identity.certificatesPEM
        return SecretBytes(capacity: certificates.utf8.count + key.count) { room in
            room.copyBytes(from: certificates.utf8)
            key.withBytes { UnsafeMutableRawBufferPointer(rebasing: room[certificates.utf8.count...]).copyMemory(from: $0) }
            return room.count
        }
    }

    /// Parses the certificates and key in a text.
    static func parse(_ bytes: SecretBytes, passphrase: SecretBytes?, path: String) throws(TLSFileError) -> Identity {
        try bytes.withBytes { buffer throws(TLSFileError) in
            let chain = try Certificate.readPEM(buffer, path: path)
            let key = try PrivateKey.readPEM(buffer, passphrase: passphrase, path: path)
            return try Identity(chain: chain, key: key, path: path)
        }
    }
}

extension Identity {
    /// The chain, without the key.
    package var certificatesPEM: String { chain.map(\.pem).joined() }

    /// Chain and key as PEM text; the key is encrypted if there is a passphrase.
    package func pem(passphrase: SecretBytes?) throws(TLSFileError) -> SecretBytes {
        try IdentityText.make(self, path: leaf.subject, passphrase: passphrase)
    }
}

/// Times in errors and warnings.
enum TimeText {
    /// `2026-11-21T14:00:00Z`
    static func utc(_ seconds: Int64) -> String {
        var time = time_t(seconds)
        var parts = tm()
        gmtime_r(&time, &parts)
        var room = [CChar](repeating: 0, count: 40)
        let count = strftime(&room, room.count, "%Y-%m-%dT%H:%M:%SZ", &parts)
        return String(decoding: room[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
