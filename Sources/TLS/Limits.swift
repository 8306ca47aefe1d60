import NIOCore

/// Every limit of this module. Certificates come from strangers, files from tools and templates.
package enum TLSLimits {
    /// Size of one certificate. Typical ones have 0.5 to 4 KiB; those with hundreds of names up to 30.
    package static let certificateBytes = 64 << 10
    /// Size of a file with certificates or keys. Debian's bundle of all authorities has 220 KiB.
    package static let fileBytes = 2 << 20
    /// Certificates in one file. Debian's bundle has 140.
    package static let certificatesInFile = 1000
    /// Certificates in an identity, including the leaf. Public chains have 2 to 4.
    package static let chainLength = 16
    /// Alternative names that are read from one certificate; the rest are ignored.
    package static let alternativeNames = 1000
    /// Size of a passphrase: OpenSSL's limit for PEM files.
    package static let passphraseBytes = 1024
    /// Total iterations of key derivations that an encrypted file may require. OpenSSL writes 2,048, careful tools up to a million; ten
    /// million take a few seconds.
    package static let derivationIterations: Int64 = 10_000_000
    /// Objects that one provider URI may return.
    package static let storeObjects = 100
    /// Bits of RSA keys for verifying signatures: weaker ones are refused everywhere, larger ones only cost time.
    package static let rsaBits = 2048...8192
    /// Minimum size of a secret for verifying signatures (HS256): the size of its digest.
    package static let sharedSecretBytes = 32
    /// Characters of a name or reason that are quoted in an error.
    package static let quotedCharacters = 200
}

/// Limits for one connection, configurable because networks differ. Errors name the property.
package struct TLSConnectionLimits: Sendable, Equatable {
    /// `handshake_time`, by the event loop's clock: from the accepted or established connection to the end of the handshake. A handshake
    /// takes two round trips of 0.6 s each on a satellite link, and slow gateways need 0.1 s for a signature.
    package var handshakeTime: TimeAmount = .seconds(10)
    /// `linger_time`: how long a client that spoke plain HTTP may continue to send, so that it can read the refusal.
    package var lingerTime: TimeAmount = .seconds(2)
    /// `handshake_bytes`: plaintext bytes that wait for the end of the handshake. A request's header is a few KiB; bodies wait in the layer above.
    package var handshakeBytes = 1 << 20
    /// `read_bytes`: plain bytes passed on at once. Four records: more only makes the allocator work harder.
    package var readBytes = 64 << 10
    /// `chain_bytes`: total size of a peer's certificates. OpenSSL's own limit.
    package var chainBytes = 100 << 10
    /// `chain_depth`: certificates between a leaf and its root. Public chains have one or two.
    package var chainDepth = 10
    /// `sessions`: how many servers' last sessions a client keeps for a faster handshake; the oldest is dropped. Each has a few KiB.
    package var sessions = 256

    package init() {}
}
