import Interfaces

/// What the owner of an ``EndpointTransport`` hears, in the transport's context.
struct EndpointObserver: Sendable {
    /// A listener's: who is there, and may it come in?
    var offered: @Sendable (EndpointOffer) -> Void = { _ in }
    /// The connection is open and speaks this protocol, or never will be.
    var opened: @Sendable (Result<String, ReplicationError>) -> Void = { _ in }
    var ended: @Sendable (ConnectionEnd) -> Void = { _ in }
}
