/// Why a TLS connection could not be made or broke, and what to do about it.
package struct TLSError: Error, Sendable, Equatable, CustomStringConvertible {
    package enum Kind: String, Sendable, CaseIterable {
        /// The two sides found no common ground, or what came is no sound TLS.
        case handshakeFailed
        /// No complete handshake within `handshake_time`.
        case timedOut
        /// The peer closed the connection before the handshake was complete.
        case closedInHandshake
        /// The connection ended without the peer's close_notify: bytes may be missing.
        case truncated
        /// The peer speaks something else.
        case notTLS
        /// The peer speaks HTTP in clear text.
        case plainHTTP
        case certificateExpired
        case certificateNotYetValid
        /// Refused by the rule in force (a pin, self-signed only), or for its key or signature.
        case certificateUntrusted
        /// Self-signed, or of a root that is not trusted, or an intermediate is missing.
        case unknownRoot
        case nameMismatch
        case certificateRevoked
        /// The peer wants a certificate of ours.
        case certificateRequired
        /// The peer refused our certificate.
        case certificateRejected
        /// A bound of ``TLSConnectionLimits`` was hit.
        case limitExceeded
        /// An identity or option that OpenSSL does not take.
        case configuration
    }

    package var kind: Kind
    /// What happened, in a sentence without a full stop.
    package var message: String
    /// The subject of the certificate that this is about.
    package var certificate: String?
    /// OpenSSL's own words.
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
