/// A message from a peer that breaks the protocol or a limit.
struct MessageError: Error, Sendable {
    var domain = "HTTP"
    var code: Int
    var message: String

    static func bad(_ message: String) -> MessageError { MessageError(code: 400, message: message) }

    /// The store could not answer: 503 is the one status that every client survives and retries.
    static let busy = MessageError(code: 503, message: "the database cannot answer now")
}
