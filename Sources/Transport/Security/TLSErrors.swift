import Interfaces
import TLS

extension ReplicationError {
    /// Uses the tls domain, with LiteCore's numbers, for invalid certificates and failed handshakes; and the network domain,
    /// whose errors are retried, for connections that ended early.
    ///
    /// - Parameter target: the target of the connection, as shown to the operator; nil at a listener.
    init(_ error: TLSError, target: String?) {
        let message = (target.map { "\($0): " } ?? "") + "\(error)"
        switch error.kind {
        case .timedOut: self.init(network: .timeout, message: message)
        case .closedInHandshake, .truncated: self.init(network: .connectionReset, message: message)
        default:
            // Advice about this particular certificate is better than the general remedy for the code.
            if let advice = error.advice {
                self.init(domain: .tls, code: Self.code(error.kind), message: message, remedy: advice)
            } else {
                self.init(domain: .tls, code: Self.code(error.kind), message: message)
            }
        }
    }

    /// LiteCore's TLS codes 6 to 15, which are shown as 5006 to 5015.
    private static func code(_ kind: TLSError.Kind) -> Int {
        switch kind {
        case .certificateExpired: 7
        case .certificateUntrusted, .certificateNotYetValid: 8
        case .certificateRequired: 9
        case .certificateRejected: 10
        // LiteCore uses the same number for a server without TLS: there is no root to trust.
        case .unknownRoot, .notTLS, .plainHTTP: 11
        case .certificateRevoked: 14
        case .nameMismatch: 15
        case .handshakeFailed, .limitExceeded, .configuration, .timedOut, .closedInHandshake, .truncated: 6
        }
    }
}
