import Environment

/// Why a file with certificates or keys cannot be used, and what to do about it.
package struct TLSFileError: Error, Sendable, Equatable, CustomStringConvertible {
    package enum Kind: Sendable, Equatable {
        case missing
        case unreadable
        /// A folder, a pipe, a device.
        case notAFile
        case tooLarge
        /// Users other than the owner may read a secret.
        case loosePermissions
        case foreignOwner
        /// Not in the required format.
        case malformed
        case noCertificate
        case noKey
        /// A passphrase is needed.
        case encrypted
        case wrongPassphrase
        /// The key does not match the certificate.
        case keyMismatch
        case expired
        case notYetValid
        /// Keys or algorithms that peers reject.
        case weak
        /// Valid, but this system's OpenSSL does not support it.
        case unsupported
        /// Something with that name already exists.
        case exists
        /// An invalid label, name or validity.
        case invalid
        /// Writing failed.
        case unwritable
    }

    package var kind: Kind
    /// The file, or what was given instead (a label, a `pkcs11:` URI).
    package var path: String
    package var reason: String
    /// What to do; empty if the reason says so.
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

/// Why bytes are not a certificate or a key.
package struct CertificateError: Error, Sendable, Equatable, CustomStringConvertible {
    package var reason: String

    package init(_ reason: String) { self.reason = reason }

    package var description: String { reason }
}
