extension HTTPConnectionHandler {
    /// Fired through the pipeline by the listener.
    enum Order: Sendable {
        /// It stops: idle connections and incomplete requests end now, others after their response.
        case drain
        /// The place is needed by another connection.
        case leave
    }

    enum Phase {
        /// Waits for a request's header.
        case idle
        /// A request is answered; what comes behind it waits in `queue`.
        case exchange(Exchange)
        /// The last response was sent; whatever comes is thrown away until the client closes or `linger_time` is over.
        case closing
        /// Another protocol took over.
        case upgraded
    }
}
