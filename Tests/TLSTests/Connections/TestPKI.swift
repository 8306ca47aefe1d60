import COpenSSL
import Glibc
import Testing

@testable import TLS

/// Certificates of any kind, made on the spot.
enum TestPKI {
    enum Key: Sendable { case ec, rsa(bits: Int32) }

    static func key(_ kind: Key = .ec) throws -> PrivateKey {
        let name: String
        switch kind {
        case .ec: name = "EC"
        case .rsa: name = "RSA"
        }
        let context = try #require(EVP_PKEY_CTX_new_from_name(nil, name, nil))
        defer { EVP_PKEY_CTX_free(context) }
        try #require(EVP_PKEY_keygen_init(context) == 1)
        switch kind {
        case .ec: try #require(EVP_PKEY_CTX_set_group_name(context, "P-256") == 1)
        case .rsa(let bits): try #require(EVP_PKEY_CTX_set_rsa_keygen_bits(context, bits) == 1)
        }
        var key: OpaquePointer?
        try #require(EVP_PKEY_generate(context, &key) == 1)
        return PrivateKey(taking: try #require(key))
    }

    /// - Parameters:
    ///   - issuer: nil for a self-signed one.
    ///   - days: from when until when it is valid, counted from now.
    ///   - names: as OpenSSL writes them: `DNS:localhost`.
    static func certificate(
        _ commonName: String, key: PrivateKey, issuer: Identity? = nil, days: (Int, Int) = (-1, 30), isCA: Bool = false, names: [String] = []
    ) throws -> Certificate {
        let x509 = try #require(X509_new())
        X509_set_version(x509, 2)
        ASN1_INTEGER_set_uint64(X509_get_serialNumber(x509), UInt64.random(in: 1...UInt64(Int64.max)))
        X509_gmtime_adj(X509_getm_notBefore(x509), days.0 * 86400)
        X509_gmtime_adj(X509_getm_notAfter(x509), days.1 * 86400)
        let name = X509_get_subject_name(x509)
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, commonName, Int32(commonName.utf8.count), -1, 0)
        X509_set_issuer_name(x509, issuer.map { X509_get_subject_name($0.leaf.handle) } ?? name)
        X509_set_pubkey(x509, key.handle)
        func add(_ nid: Int32, _ value: String) throws {
            let ext = try #require(X509V3_EXT_conf_nid(nil, nil, nid, value))
            X509_add_ext(x509, ext, -1)
            X509_EXTENSION_free(ext)
        }
        try add(NID_basic_constraints, isCA ? "critical,CA:TRUE" : "critical,CA:FALSE")
        if isCA { try add(NID_key_usage, "critical,keyCertSign,cRLSign") }
        if !names.isEmpty { try add(NID_subject_alt_name, names.joined(separator: ",")) }
        try #require(X509_sign(x509, issuer?.key.handle ?? key.handle, EVP_sha256()) > 0)
        return try Certificate(taking: x509)
    }

    static func identity(
        _ commonName: String, issuer: Identity? = nil, days: (Int, Int) = (-1, 30), isCA: Bool = false, kind: Key = .ec,
        names: [String] = ["DNS:localhost", "IP:127.0.0.1"], sends intermediates: [Certificate] = []
    ) throws -> Identity {
        let key = try key(kind)
        let certificate = try certificate(commonName, key: key, issuer: issuer, days: days, isCA: isCA, names: isCA ? [] : names)
        return try Identity(chain: [certificate] + intermediates, key: key, path: commonName)
    }
}

/// The authorities and servers of the tests, made once.
struct TestServers: Sendable {
    enum Chain: String, Sendable, CaseIterable {
        case good, selfSigned, expired, notYetValid, wrongName, unknownRoot, intermediateMissing, weakKey
    }

    let root: Identity
    let intermediate: Identity
    let stranger: Identity
    let client: Identity
    let servers: [Chain: Identity]

    static let shared: Result<TestServers, any Error> = Result { try TestServers() }

    static func get() throws -> TestServers { try shared.get() }

    private init() throws {
        let root = try TestPKI.identity("Test root", days: (-100, 100), isCA: true)
        let intermediate = try TestPKI.identity("Test intermediate", issuer: root, days: (-100, 100), isCA: true)
        let otherRoot = try TestPKI.identity("Other root", isCA: true)
        let otherIntermediate = try TestPKI.identity("Other intermediate", issuer: otherRoot, isCA: true)
        let between = [intermediate.leaf]
        self.root = root
        self.intermediate = intermediate
        stranger = try TestPKI.identity("stranger")
        client = try TestPKI.identity("gateway-7", issuer: intermediate, sends: between)
        servers = [
            .good: try TestPKI.identity("good", issuer: intermediate, sends: between),
            .selfSigned: try TestPKI.identity("alone"),
            .expired: try TestPKI.identity("expired", issuer: intermediate, days: (-20, -1), sends: between),
            .notYetValid: try TestPKI.identity("early", issuer: intermediate, days: (2, 20), sends: between),
            .wrongName: try TestPKI.identity("elsewhere", issuer: intermediate, names: ["DNS:elsewhere.example"], sends: between),
            .unknownRoot: try TestPKI.identity("unknown", issuer: otherIntermediate, sends: [otherIntermediate.leaf]),
            .intermediateMissing: try TestPKI.identity("orphan", issuer: intermediate),
            .weakKey: try TestPKI.identity("weak", issuer: intermediate, kind: .rsa(bits: 1024), sends: between),
        ]
    }

    func identity(_ chain: Chain) throws -> Identity { try #require(servers[chain]) }

    func serverContext(_ chain: Chain = .good, _ change: (inout TLSServerOptions) -> Void = { _ in }) throws -> TLSContext {
        var options = TLSServerOptions(identity: try identity(chain))
        if chain == .weakKey { options.securityLevel = 0 }
        change(&options)
        return try TLSContext(server: options)
    }

    /// Trusts the root, nothing else.
    func clientContext(_ change: (inout TLSClientOptions) -> Void = { _ in }) throws -> TLSContext {
        var options = TLSClientOptions(serverAuthentication: ServerAuthentication(trustsSystemRoots: false, extraRoots: [root.leaf]))
        change(&options)
        return try TLSContext(client: options)
    }
}
