/// A connection that may have a secure layer.
public protocol SecuredTransport: Sendable {
    /// The peer's identity; nil without a secure layer.
    var securePeer: SecurePeer? { get }
}
