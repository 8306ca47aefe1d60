import NIOCore

/// Every bound of this target. Certificates come from strangers, files from tools and templates.
package enum TLSLimits {
    /// Bytes of one certificate. Those in use have 0.5 to 4 KiB; ones with hundreds of names reach 30.
    package static let certificateBytes = 64 << 10
    /// Bytes of a file with certificates or keys. Debian's bundle of all authorities has 220 KiB.
    package static let fileBytes = 2 << 20
    /// Certificates in one file. Debian's bundle has 140.
    package static let certificatesInFile = 1000
    /// Certificates of an identity, leaf included. Public chains have 2 to 4.
    package static let chainLength = 16
    /// Alternative names that are read from one certificate; the rest is left out.
    package static let alternativeNames = 1000
    /// Bytes of a passphrase: what OpenSSL takes for PEM files.
    package static let passphraseBytes = 1024
    /// Repetitions of key derivations that an encrypted file may ask for, all together. OpenSSL writes 2,048, careful tools up to a million;
    /// ten million take a few seconds.
    package static let derivationIterations: Int64 = 10_000_000
    /// Objects that one provider URI may bring in.
    package static let storeObjects = 100
    /// Bits of RSA keys that verify signatures: weaker ones are refused everywhere, larger ones only cost time.
    package static let rsaBits = 2048...8192
    /// Bytes of a secret that verifies signatures (HS256), at least: as many as its digest has.
    package static let sharedSecretBytes = 32
    /// Characters of a name or reason that stand in an error.
    package static let quotedCharacters = 200
}

/// Bounds of one connection, settable because networks differ. Errors name the property.
package struct TLSConnectionLimits: Sendable, Equatable {
    /// `handshake_time`, by the event loop's clock: from the accepted or made connection to the end of the
    /// handshake. A handshake takes two round trips; a satellite link has 0.6 s each, and slow gateways sign for 0.1 s.
    package var handshakeTime: TimeAmount = .seconds(10)
    /// `linger_time`: how long a client that spoke plain HTTP may go on sending, so that it can read the refusal.
    package var lingerTime: TimeAmount = .seconds(2)
    /// `handshake_bytes`: plain bytes that wait for the end of the handshake. A request's header is a few KiB; bodies wait above.
    package var handshakeBytes = 1 << 20
    /// `read_bytes`: plain bytes passed on at once. Four records: more only makes the allocator work harder.
    package var readBytes = 64 << 10
    /// `chain_bytes`: a peer's certificates all together. OpenSSL's own bound.
    package var chainBytes = 100 << 10
    /// `chain_depth`: certificates between a leaf and its root. Public chains have one or two.
    package var chainDepth = 10
    /// `sessions`: servers whose last session a client keeps for a faster handshake; the oldest makes way. One has a few KiB.
    package var sessions = 256

    package init() {}
}
