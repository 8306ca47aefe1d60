/// Why a TLS connection could not be established or broke, and what to do about it.
package struct TLSError: Error, Sendable, Equatable, CustomStringConvertible {
    package enum Kind: String, Sendable, CaseIterable {
        /// The two sides have no protocol parameters in common, or the received data is not valid TLS.
        case handshakeFailed
        /// No complete handshake within `handshake_time`.
        case timedOut
        /// The peer closed the connection before the handshake was complete.
        case closedInHandshake
        /// The connection ended without the peer's close_notify: data may be missing.
        case truncated
        /// The peer does not speak TLS.
        case notTLS
        /// The peer speaks HTTP in clear text.
        case plainHTTP
        case certificateExpired
        case certificateNotYetValid
        /// Rejected by the rule in force (a pin, self-signed only), or because of its key or signature.
        case certificateUntrusted
        /// Self-signed, or from a root that is not trusted, or an intermediate is missing.
        case unknownRoot
        case nameMismatch
        case certificateRevoked
        /// The peer requires a certificate from us.
        case certificateRequired
        /// The peer refused our certificate.
        case certificateRejected
        /// A limit in ``TLSConnectionLimits`` was exceeded.
        case limitExceeded
        /// OpenSSL does not accept an identity or option.
        case configuration
    }

    package var kind: Kind
    /// What happened, in a sentence without a full stop.
    package var message: String
    /// The subject of the certificate concerned.
    package var certificate: String?
    /// OpenSSL's own message.
    package var reason: String?
    /// What to do.
    package var advice: String?

    package init(_ kind: Kind, _ message: String, certificate: String? = nil, reason: String? = nil, advice: String? = nil) {
        self.kind = kind
        self.message = message
        self.certificate = certificate
        self.reason = reason
        self.advice = advice
    }

    package var description: String {
        var text = message
        if let reason { text += " (\(reason))" }
        if let advice { text += "; \(advice)" }
        return text
    }
}
