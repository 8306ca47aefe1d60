import Environment

/// Why a file with certificates or keys cannot be used, and what to do about it.
package struct TLSFileError: Error, Sendable, Equatable, CustomStringConvertible {
    package enum Kind: Sendable, Equatable {
        case missing
        case unreadable
        /// A folder, a pipe, a device.
        case notAFile
        case tooLarge
        /// Others than the owner may read a secret.
        case loosePermissions
        case foreignOwner
        /// Not what the format asks for.
        case malformed
        case noCertificate
        case noKey
        /// A passphrase is needed.
        case encrypted
        case wrongPassphrase
        /// The key is that of another certificate.
        case keyMismatch
        case expired
        case notYetValid
        /// Keys or algorithms that peers refuse.
        case weak
        /// Valid, and this system's OpenSSL cannot handle it.
        case unsupported
        /// Something of that name is there already.
        case exists
        /// A label, name or validity that cannot be.
        case invalid
        /// Writing failed.
        case unwritable
    }

    package var kind: Kind
    /// The file, or what was given in its place (a label, a `pkcs11:` URI).
    package var path: String
    package var reason: String
    /// What to do; empty where the reason says it.
    package var advice: String

    package init(_ kind: Kind, path: String, reason: String, advice: String = "") {
        self.kind = kind
        self.path = path
        self.reason = reason
        self.advice = advice
    }

    /// Writing failed.
    init(unwritable error: FileError) {
        self.init(.unwritable, path: error.path, reason: "cannot be written: \(error.reason)")
    }

    package var description: String { "\(path): \(reason)\(advice.isEmpty ? "" : "; \(advice)")" }
}

/// Why bytes are no certificate or no key.
package struct CertificateError: Error, Sendable, Equatable, CustomStringConvertible {
    package var reason: String

    package init(_ reason: String) { self.reason = reason }

    package var description: String { reason }
}
