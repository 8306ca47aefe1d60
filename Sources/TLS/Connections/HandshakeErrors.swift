import COpenSSL

/// Maps OpenSSL's errors for a failed connection to a ``TLSError``.
enum HandshakeErrors {
    /// - Parameter entries: OpenSSL's error queue, cause first.
    static func error(_ entries: [OpenSSLErrors.Entry], isClient: Bool, hasIdentity: Bool, isHandshaking: Bool) -> TLSError {
        let text = OpenSSLErrors.text(entries, otherwise: "no reason given")
        let reasons = entries.filter { $0.library == ERR_LIB_SSL }.map(\.reason)
        // OpenSSL reports the peer's alerts as 1000 + alert.
        if let alert = reasons.first(where: { (1000..<1256).contains($0) }) {
            return peerAlert(alert - 1000, text, isClient: isClient, hasIdentity: hasIdentity)
        }
        switch reasons.first {
        case SSL_R_UNSUPPORTED_PROTOCOL?, SSL_R_VERSION_TOO_LOW?, SSL_R_UNKNOWN_PROTOCOL?:
            return TLSError(
                .handshakeFailed, "the peer supports no version of TLS that is accepted here", reason: text,
                advice: "older versions are refused: update the peer; 1.2 and 1.3 are accepted, or only 1.3 if min_tls_version is 1.3")
        case SSL_R_NO_SHARED_CIPHER?, SSL_R_NO_CIPHERS_AVAILABLE?, SSL_R_NO_SHARED_GROUPS?, SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM?:
            return TLSError(
                .handshakeFailed, "the peer and this side have no cipher in common", reason: text,
                advice: "the peer has to offer ECDHE with AES-GCM or ChaCha20 (TLS 1.2), or TLS 1.3")
        case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE?:
            return TLSError(
                .certificateRequired, "the client presented no certificate, and this listener requires one", reason: text,
                advice: "give the client an identity, or set client_certificates to request")
        case SSL_R_EXCESSIVE_MESSAGE_SIZE?:
            return TLSError(.limitExceeded, "the peer's certificates are larger than chain_bytes allows", reason: text)
        case SSL_R_WRONG_VERSION_NUMBER?, SSL_R_HTTP_REQUEST?, SSL_R_HTTPS_PROXY_REQUEST?, SSL_R_WRONG_SSL_VERSION?:
            return TLSError(.notTLS, "the peer does not speak TLS", reason: text)
        default:
            return TLSError(.handshakeFailed, isHandshaking ? "the TLS handshake failed" : "what the peer sent is not valid TLS", reason: text)
        }
    }

    /// The alert of a peer for which the certificate has expired.
    private static let certificateExpired: Int32 = 45

    /// - Parameter alert: RFC 8446, section 6.
    private static func peerAlert(_ alert: Int32, _ text: String, isClient: Bool, hasIdentity: Bool) -> TLSError {
        switch alert {
        case 116:
            return TLSError(
                .certificateRequired, "the server requires a client certificate", reason: text,
                advice: hasIdentity
                    ? "the identity in use was not sent: the server asks for one from other authorities"
                    : "set authenticator: { identity: LABEL }")
        case 42, 43, 44, 45, 46, 48, 49:
            if isClient {
                return TLSError(
                    .certificateRejected,
                    hasIdentity
                        ? "the server refused our client certificate"
                        : "the server refused the connection because there was no client certificate",
                    reason: text,
                    advice: alert == certificateExpired && hasIdentity
                        ? "renew it, and check the server's clock" : "the server has to trust the certificate's root or know the certificate")
            }
            return TLSError(
                .certificateRejected, "the client does not trust this listener's certificate", reason: text,
                advice: alert == certificateExpired
                    ? "renew it, and check the client's clock" : "pin the certificate at the client, or use one whose root the client trusts")
        case 70:
            return TLSError(.handshakeFailed, "the peer requires a version of TLS that is not supported here: 1.2 and 1.3, or 1.3 alone with min_tls_version", reason: text)
        case 40, 71:
            return TLSError(
                .handshakeFailed, "the peer found no TLS settings in common", reason: text,
                advice: "it may require a cipher, a curve, a version or a client certificate that this side does not offer")
        default:
            return TLSError(.handshakeFailed, "the peer ended the connection with an alert", reason: text)
        }
    }
}
