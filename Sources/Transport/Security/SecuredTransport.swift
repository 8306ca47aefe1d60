/// A connection that may have a secure layer.
public protocol SecuredTransport: Sendable {
    /// Who is at the other end; nil without a secure layer.
    var securePeer: SecurePeer? { get }
}
