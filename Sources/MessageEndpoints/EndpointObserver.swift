import Interfaces

/// Callbacks to the owner of an ``EndpointTransport``, in the transport's context.
struct EndpointObserver: Sendable {
    /// On a listener: a peer has made this offer and awaits an answer.
    var offered: @Sendable (EndpointOffer) -> Void = { _ in }
    /// The connection is open and speaks this protocol, or has failed to open.
    var opened: @Sendable (Result<String, ReplicationError>) -> Void = { _ in }
    var ended: @Sendable (ConnectionEnd) -> Void = { _ in }
}
