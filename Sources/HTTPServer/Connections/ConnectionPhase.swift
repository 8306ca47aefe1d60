extension HTTPConnectionHandler {
    /// Sent through the pipeline by the listener.
    enum Order: Sendable {
        /// The listener is stopping: idle connections and incomplete requests end now, others after their response.
        case drain
        /// Another connection needs this one's place.
        case leave
    }

    enum Phase {
        /// Waits for a request's header.
        case idle
        /// A request is being answered; requests that arrive meanwhile wait in `queue`.
        case exchange(Exchange)
        /// The last response was sent; further input is discarded until the client closes or `linger_time` is over.
        case closing
        /// Another protocol took over.
        case upgraded
    }
}
