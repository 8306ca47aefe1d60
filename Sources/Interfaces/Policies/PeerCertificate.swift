/// One certificate of a peer's chain, as presented to an authenticator.
public struct PeerCertificate: Sendable, Equatable {
    /// RFC 4514 text, such as "CN=anna,O=Example".
    public var subject: String
    /// The first common name of the subject.
    public var commonName: String?
    /// Subject alternative names, by kind.
    public var dnsNames: [String]
    public var ipAddresses: [String]
    public var emails: [String]
    public var uris: [String]
    /// Hex digits, lower case.
    public var serial: String
    /// SHA-256 of the whole certificate; hex digits, lower case.
    public var sha256: String
    /// SHA-256 of its public key; hex digits, lower case.
    public var spkiSHA256: String
    /// Seconds since 1970, UTC.
    public var notBefore: Int64
    public var notAfter: Int64
    public var der: [UInt8]

    public init(
        subject: String, commonName: String? = nil, dnsNames: [String] = [], ipAddresses: [String] = [], emails: [String] = [],
        uris: [String] = [], serial: String, sha256: String, spkiSHA256: String, notBefore: Int64, notAfter: Int64, der: [UInt8]
    ) {
        self.subject = subject
        self.commonName = commonName
        self.dnsNames = dnsNames
        self.ipAddresses = ipAddresses
        self.emails = emails
        self.uris = uris
        self.serial = serial
        self.sha256 = sha256
        self.spkiSHA256 = spkiSHA256
        self.notBefore = notBefore
        self.notAfter = notAfter
        self.der = der
    }
}
