import COpenSSL

/// Shared by all TLS connections of one listener or one replicator: identity, trust, ciphers. Immutable; a reload creates another one.
///
/// At least TLS 1.2, or 1.3 if that is requested; 1.3 whenever the peer supports it; only ephemeral keys and authenticated ciphers; no compression,
/// no renegotiation; ALPN `http/1.1`.
package final class TLSContext: Sendable {
    /// The `SSL_CTX`, owned by this object.
    // Unsafe only in name: OpenSSL reference-counts and locks it, and nothing here changes it after init.
    nonisolated(unsafe) let handle: OpaquePointer
    package let limits: TLSConnectionLimits
    /// This side's identity; nil for a client without a certificate.
    package let identity: Identity?
    /// How servers are judged; nil for a server.
    let client: ServerJudge?
    /// A client's sessions, to be resumed.
    let sessions: SessionCache?
    /// What a server requires of its clients.
    let clientCertificates: ClientCertificates

    /// For a listener.
    ///
    /// - Throws: ``TLSError`` of kind `configuration` if OpenSSL refuses the identity.
    package convenience init(server options: TLSServerOptions) throws(TLSError) {
        try self.init(
            isClient: false, limits: options.limits, identity: options.identity, client: nil, sessions: nil,
            clientCertificates: options.clientCertificates, minimum: options.minimum, securityLevel: options.securityLevel)
    }

    /// For replicators and HTTP clients.
    package convenience init(client options: TLSClientOptions) throws(TLSError) {
        try self.init(
            isClient: true, limits: options.limits, identity: options.identity,
            client: try ServerJudge(options.serverAuthentication, limits: options.limits),
            sessions: SessionCache(capacity: options.limits.sessions), clientCertificates: .none, minimum: options.minimum,
            securityLevel: options.securityLevel)
    }

    private init(
        isClient: Bool, limits: TLSConnectionLimits, identity: Identity?, client: ServerJudge?, sessions: SessionCache?,
        clientCertificates: ClientCertificates, minimum: TLSVersion, securityLevel: Int32
    ) throws(TLSError) {
        OpenSSLErrors.clear()
        guard let handle = SSL_CTX_new(isClient ? TLS_client_method() : TLS_server_method()) else {
            throw TLSError(.configuration, "OpenSSL offers no TLS", reason: OpenSSLErrors.text(otherwise: "out of memory"))
        }
        self.handle = handle
        self.limits = limits
        self.identity = identity
        self.client = client
        self.sessions = sessions
        self.clientCertificates = clientCertificates
        SSL_CTX_set_security_level(handle, securityLevel)
        try Self.check(nightjar_ssl_ctx_harden(handle), "TLS 1.2 and 1.3 cannot be enabled")
        if minimum == .v1_3 { try Self.check(nightjar_ssl_ctx_min_version(handle, TLS1_3_VERSION), "TLS 1.3 cannot be asked for") }
        try Self.check(SSL_CTX_set_cipher_list(handle, Self.ciphers), "the ciphers of TLS 1.2 are not available")
        try Self.check(SSL_CTX_set_ciphersuites(handle, Self.suites), "the ciphers of TLS 1.3 are not available")
        try Self.check(nightjar_ssl_ctx_groups(handle, "X25519:P-256:P-384"), "the curves are not available")
        nightjar_ssl_ctx_max_chain_bytes(handle, limits.chainBytes)
        SSL_CTX_set_verify_depth(handle, Int32(clamping: limits.chainDepth))
        if let identity { try useIdentity(identity) }
        if isClient { configureClient() } else { try configureServer() }
        OpenSSLErrors.clear()
    }

    deinit { SSL_CTX_free(handle) }

    private static let ciphers =
        "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384"
        + ":ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
    /// AES-128 first: just as secure for the lifetime of a connection, and a third faster.
    private static let suites = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

    private static func check(_ result: Int32, _ message: String) throws(TLSError) {
        guard result != 1 else { return }
        throw TLSError(
            .configuration, message, reason: OpenSSLErrors.text(otherwise: "no reason given"),
            advice: "check OpenSSL's configuration (openssl.cnf)")
    }

    private func useIdentity(_ identity: Identity) throws(TLSError) {
        func refuse(_ what: String) -> TLSError {
            TLSError(
                .configuration, "OpenSSL refuses \(what) of the identity \(identity.leaf.subject)", certificate: identity.leaf.subject,
                reason: OpenSSLErrors.text(otherwise: "no reason given"), advice: "make or import another identity")
        }
        guard SSL_CTX_use_certificate(handle, identity.leaf.handle) == 1 else { throw refuse("the certificate") }
        guard SSL_CTX_use_PrivateKey(handle, identity.key.handle) == 1, SSL_CTX_check_private_key(handle) == 1 else { throw refuse("the key") }
        for certificate in identity.chain.dropFirst() {
            guard nightjar_ssl_ctx_add_chain(handle, certificate.handle) == 1 else { throw refuse("the intermediate \(certificate.subject)") }
        }
    }

    private func configureClient() {
        SSL_CTX_set_verify(handle, SSL_VERIFY_PEER, nil)
        SSL_CTX_set_cert_verify_callback(handle, verifyServer, nil)
        SSL_CTX_set_alpn_protos(handle, httpProtocol.pointer, UInt32(httpProtocol.count))
        nightjar_ssl_ctx_cache_mode(handle, Int(SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL))
        SSL_CTX_sess_set_new_cb(handle, keepSession)
    }

    private func configureServer() throws(TLSError) {
        SSL_CTX_set_alpn_select_cb(handle, chooseProtocol, nil)
        // Only tickets, so that sessions take no memory in the server.
        nightjar_ssl_ctx_cache_mode(handle, Int(SSL_SESS_CACHE_OFF))
        let name = "nightjar"
        SSL_CTX_set_session_id_context(handle, name, UInt32(name.utf8.count))
        guard clientCertificates.mode != .none else { return }
        // A ticket preserves the leaf but not the rest of the chain, which authenticators look at, so each connection has to present the chain
        // again.
        nightjar_ssl_ctx_no_tickets(handle)
        SSL_CTX_set_num_tickets(handle, 0)
        let mode = clientCertificates.mode == .require ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_PEER
        SSL_CTX_set_verify(handle, mode, nil)
        SSL_CTX_set_cert_verify_callback(handle, verifyClient, nil)
        guard let roots = clientCertificates.roots else { return }
        guard let store = SSL_CTX_get_cert_store(handle) else { throw TLSError(.configuration, "OpenSSL has no store for roots") }
        X509_STORE_set_flags(store, UInt(X509_V_FLAG_PARTIAL_CHAIN))
        for root in roots {
            guard X509_STORE_add_cert(store, root.handle) == 1, SSL_CTX_add_client_CA(handle, root.handle) == 1 else {
                throw TLSError(
                    .configuration, "OpenSSL refuses the root \(root.subject)", certificate: root.subject,
                    reason: OpenSSLErrors.text(otherwise: "no reason given"))
            }
        }
        try Self.check(Revocation.add(clientCertificates.revocationLists, to: store) ? 1 : 0, "OpenSSL refuses a revocation list")
    }
}

/// The only supported protocol, in ALPN's wire format (RFC 7301); OpenSSL keeps pointers to it.
// Unchecked: the memory is written once, here, and never freed.
private struct ProtocolName: @unchecked Sendable {
    // Unchecked: written once and never freed.
    let pointer: UnsafeMutablePointer<UInt8>
    let count: Int

    init(_ name: StaticString) {
        count = name.utf8CodeUnitCount + 1
        pointer = .allocate(capacity: count)
        pointer[0] = UInt8(name.utf8CodeUnitCount)
        (pointer + 1).initialize(from: name.utf8Start, count: name.utf8CodeUnitCount)
    }
}

private let httpProtocol = ProtocolName("http/1.1")

private func chooseProtocol(
    _: OpaquePointer?, _ chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?, _ length: UnsafeMutablePointer<UInt8>?,
    _ offered: UnsafePointer<UInt8>?, _ offeredLength: UInt32, _: UnsafeMutableRawPointer?
) -> Int32 {
    var name: UnsafeMutablePointer<UInt8>?
    let outcome = SSL_select_next_proto(&name, length, httpProtocol.pointer, UInt32(httpProtocol.count), offered, offeredLength)
    guard outcome == OPENSSL_NPN_NEGOTIATED else {
        return SSL_TLSEXT_ERR_ALERT_FATAL
    }
    chosen?.pointee = UnsafePointer(name)
    return SSL_TLSEXT_ERR_OK
}

private func verifyServer(_ store: OpaquePointer?, _: UnsafeMutableRawPointer?) -> Int32 {
    guard let engine = TLSEngine.owner(of: nightjar_store_ctx_ssl(store)), let leaf = X509_STORE_CTX_get0_cert(store) else { return 0 }
    let isAccepted = engine.judgeServer(leaf: leaf, chain: X509_STORE_CTX_get0_untrusted(store))
    // OpenSSL derives the alert from this.
    X509_STORE_CTX_set_error(store, isAccepted ? X509_V_OK : X509_V_ERR_CERT_UNTRUSTED)
    return isAccepted ? 1 : 0
}

private func verifyClient(_ store: OpaquePointer?, _: UnsafeMutableRawPointer?) -> Int32 {
    guard let engine = TLSEngine.owner(of: nightjar_store_ctx_ssl(store)), let leaf = X509_STORE_CTX_get0_cert(store) else { return 0 }
    guard engine.context.clientCertificates.roots != nil else {
        // Only collected, for an authenticator, which bears all responsibility.
        X509_STORE_CTX_set_error(store, X509_V_OK)
        return 1
    }
    if let store { Revocation.tolerateMissingLists(store) }
    if X509_verify_cert(store) == 1 { return 1 }
    let subject = (try? Certificate(borrowing: leaf))?.subject ?? "that cannot be read"
    let problem = ChainProblem(code: X509_STORE_CTX_get_error(store), certificate: subject)
    engine.refuseClient(
        TLSError(
            problem.kind.errorKind, "the client's certificate \(subject) is refused: \(problem.words)", certificate: subject, reason: problem.reason,
            advice: problem.kind == .revoked
                ? "give it a new one"
                : problem.kind == .expired
                    ? "have the client's certificate renewed, and check this machine's clock"
                    : "its root has to be in this listener's roots"))
    return 0
}

private func keepSession(_ ssl: OpaquePointer?, _ session: OpaquePointer?) -> Int32 {
    guard let session, let engine = TLSEngine.owner(of: ssl), let endpoint = engine.endpoint, let cache = engine.context.sessions else { return 0 }
    // Returning 1 means that we own the reference.
    cache.keep(session, for: endpoint)
    return 1
}
