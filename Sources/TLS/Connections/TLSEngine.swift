import COpenSSL
import NIOCore

/// One TLS connection without its socket: bytes in, bytes out. Confined to one event loop.
final class TLSEngine {
    enum Progress: Equatable {
        case done
        case needsMore
        case failed(TLSError)
    }

    enum Reading: Equatable {
        /// The limit was reached; there may be more.
        case full
        case needsMore
        /// The peer's close_notify.
        case closed
        case failed(TLSError)
    }

    let context: TLSContext
    let records = RecordBIO()
    /// The server that a client connects to.
    let endpoint: TLSEndpoint?
    private let ssl: OpaquePointer
    /// Why verification refused the peer.
    private var refusal: TLSError?
    /// Why a client accepted the server.
    private var trust: ServerTrust?

    /// - Parameter endpoint: for a client; nil for a server.
    init(_ context: TLSContext, endpoint: TLSEndpoint?) throws(TLSError) {
        OpenSSLErrors.clear()
        guard let ssl = SSL_new(context.handle) else {
            throw TLSError(.configuration, "no TLS connection can be made", reason: OpenSSLErrors.text(otherwise: "out of memory"))
        }
        self.context = context
        self.endpoint = endpoint
        self.ssl = ssl
        guard let bio = records.makeBIO(), nightjar_ssl_set_owner(ssl, Unmanaged.passUnretained(self).toOpaque()) == 1 else {
            throw TLSError(.configuration, "no TLS connection can be made", reason: "out of memory")
        }
        SSL_set_bio(ssl, bio, bio)
        if let endpoint {
            SSL_set_connect_state(ssl)
            if let name = endpoint.serverName { nightjar_ssl_set_server_name(ssl, name) }
            context.sessions?.resume(ssl, at: endpoint)
        } else {
            SSL_set_accept_state(ssl)
        }
        OpenSSLErrors.clear()
    }

    deinit { SSL_free(ssl) }

    static func owner(of ssl: OpaquePointer?) -> TLSEngine? {
        nightjar_ssl_owner(ssl).map { Unmanaged<TLSEngine>.fromOpaque($0).takeUnretainedValue() }
    }

    // MARK: Handshake

    func handshake() -> Progress {
        OpenSSLErrors.clear()
        let result = SSL_do_handshake(ssl)
        if result == 1 { return resumedServerIsRefused() ?? .done }
        if SSL_get_error(ssl, result) == SSL_ERROR_WANT_READ { return .needsMore }
        return .failed(failure())
    }

    /// In a resumed session the server sends no certificates; those it sent originally are judged again, because one may have expired
    /// since.
    private func resumedServerIsRefused() -> Progress? {
        guard endpoint != nil, SSL_session_reused(ssl) == 1 else { return nil }
        guard let leaf = SSL_get0_peer_certificate(ssl) else {
            return .failed(TLSError(.handshakeFailed, "a resumed session without the server's certificate"))
        }
        return judgeServer(leaf: leaf, chain: SSL_get_peer_cert_chain(ssl)) ? nil : .failed(failure())
    }

    /// Called by OpenSSL's verification, and for resumed sessions.
    func judgeServer(leaf: OpaquePointer, chain: OpaquePointer?) -> Bool {
        guard let endpoint, let client = context.client else { return false }
        switch client.judge(leaf: leaf, chain: chain, host: endpoint.host) {
        case .accepted(let trust):
            self.trust = trust
            return true
        case .refused(let error):
            refusal = error
            return false
        }
    }

    /// Called by OpenSSL's verification of a client's certificate.
    func refuseClient(_ error: TLSError) { refusal = error }

    /// The negotiated parameters; nil before the end of the handshake.
    func completed() -> TLSHandshakeCompleted? {
        guard SSL_is_init_finished(ssl) == 1 else { return nil }
        var length: UInt32 = 0
        var name: UnsafePointer<UInt8>?
        SSL_get0_alpn_selected(ssl, &name, &length)
        return TLSHandshakeCompleted(
            certificates: peerCertificates(),
            version: SSL_get_version(ssl).map { String(cString: $0) } ?? "TLS",
            cipher: SSL_CIPHER_get_name(SSL_get_current_cipher(ssl)).map { String(cString: $0) } ?? "",
            applicationProtocol: name.map { String(decoding: UnsafeBufferPointer(start: $0, count: Int(length)), as: UTF8.self) },
            serverName: SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name).map { String(cString: $0) },
            isResumed: SSL_session_reused(ssl) == 1, trust: trust
        )
    }

    private func peerCertificates() -> [Certificate] {
        let chain = SSL_get_peer_cert_chain(ssl)
        var found = ChainVerification.certificates(chain)
        // In a server's view of the chain, the leaf is missing.
        if let leaf = SSL_get0_peer_certificate(ssl), let certificate = try? Certificate(borrowing: leaf), found.first != certificate {
            found.insert(certificate, at: 0)
        }
        return found
    }

    // MARK: Bytes

    /// Whether there are received bytes that have not been processed.
    var hasInput: Bool { records.inbound.readableBytes > 0 || SSL_has_pending(ssl) == 1 }

    /// Decrypts into `buffer` until it holds `limit` bytes or no complete record is left.
    func read(into buffer: inout ByteBuffer, upTo limit: Int) -> Reading {
        while buffer.readableBytes < limit {
            // The rest of a record whose size was not known before.
            let pending = Int(SSL_pending(ssl))
            if pending > buffer.writableBytes { buffer.reserveCapacity(minimumWritableBytes: min(pending, limit - buffer.readableBytes)) }
            let room = limit - buffer.readableBytes
            var result: Int32 = 0
            ERR_clear_error()
            buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: 1) { target in
                var count = 0
                result = SSL_read_ex(ssl, target.baseAddress, min(target.count, room), &count)
                return result == 1 ? count : 0
            }
            if result == 1 { continue }
            switch SSL_get_error(ssl, result) {
            case SSL_ERROR_WANT_READ: return .needsMore
            case SSL_ERROR_ZERO_RETURN: return .closed
            default: return .failed(failure())
            }
        }
        return .full
    }

    /// Encrypts all of `bytes` into ``records``.
    func write(_ bytes: UnsafeRawBufferPointer) -> Progress {
        guard bytes.count > 0 else { return .done }
        ERR_clear_error()
        // One record header, tag and nonce for each 16 KiB.
        records.outbound.reserveCapacity(minimumWritableBytes: bytes.count + (bytes.count / 16384 + 1) * 40)
        var written = 0
        let result = SSL_write_ex(ssl, bytes.baseAddress, bytes.count, &written)
        return result == 1 && written == bytes.count ? .done : .failed(failure())
    }

    /// Writes the close_notify.
    func closeOutput() {
        OpenSSLErrors.clear()
        _ = SSL_shutdown(ssl)
        OpenSSLErrors.clear()
    }

    private func failure() -> TLSError {
        let entries = OpenSSLErrors.drain()
        if let refusal { return refusal }
        return HandshakeErrors.error(
            entries, isClient: endpoint != nil, hasIdentity: context.identity != nil, isHandshaking: SSL_is_init_finished(ssl) == 0)
    }
}
