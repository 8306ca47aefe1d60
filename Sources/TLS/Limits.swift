/// Every bound of this target. Certificates come from strangers, files from tools and templates.
public enum TLSLimits {
    /// Bytes of one certificate. Those in use have 0.5 to 4 KiB; ones with hundreds of names reach 30.
    public static let certificateBytes = 64 << 10
    /// Bytes of a file with certificates or keys. Debian's bundle of all authorities has 220 KiB.
    public static let fileBytes = 2 << 20
    /// Certificates in one file. Debian's bundle has 140.
    public static let certificatesInFile = 1000
    /// Certificates of an identity, leaf included. Public chains have 2 to 4.
    public static let chainLength = 16
    /// Alternative names that are read from one certificate; the rest is left out.
    public static let alternativeNames = 1000
    /// Bytes of a passphrase: what OpenSSL takes for PEM files.
    public static let passphraseBytes = 1024
    /// Repetitions of key derivations that an encrypted file may ask for, all together. OpenSSL writes 2,048, careful tools up to a million;
    /// ten million take a few seconds.
    public static let derivationIterations: Int64 = 10_000_000
    /// Objects that one provider URI may bring in.
    public static let storeObjects = 100
    /// Characters of a name or reason that stand in an error.
    public static let quotedCharacters = 200
}
