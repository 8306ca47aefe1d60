import Interfaces
import TLS

extension ReplicationError {
    /// The domain tls, in LiteCore's numbers, for what is wrong with certificates and handshakes; the network domain, which is
    /// tried again, for connections that ended early.
    ///
    /// - Parameter target: what was to be reached, as shown to the operator; nil at a listener.
    init(_ error: TLSError, target: String?) {
        let message = (target.map { "\($0): " } ?? "") + "\(error)"
        switch error.kind {
        case .timedOut: self.init(network: .timeout, message: message)
        case .closedInHandshake, .truncated: self.init(network: .connectionReset, message: message)
        default:
            // What helps against this very certificate beats what is known of the number.
            if let advice = error.advice {
                self.init(domain: .tls, code: Self.code(error.kind), message: message, remedy: advice)
            } else {
                self.init(domain: .tls, code: Self.code(error.kind), message: message)
            }
        }
    }

    /// LiteCore's network codes 6 to 15, which show as 5006 to 5015.
    private static func code(_ kind: TLSError.Kind) -> Int {
        switch kind {
        case .certificateExpired: 7
        case .certificateUntrusted, .certificateNotYetValid: 8
        case .certificateRequired: 9
        case .certificateRejected: 10
        // The field's number for a server without TLS, too: there is no root to trust.
        case .unknownRoot, .notTLS, .plainHTTP: 11
        case .certificateRevoked: 14
        case .nameMismatch: 15
        case .handshakeFailed, .limitExceeded, .configuration, .timedOut, .closedInHandshake, .truncated: 6
        }
    }
}
