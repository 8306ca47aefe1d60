import Interfaces

/// A message from a peer that violates the protocol or a limit. Contains what is sent to the peer, with the domain and number of an error reply.
struct MessageError: Error, Sendable {
    var domain = "HTTP"
    var code: Int
    var message: String
    /// What the peer is told, if that has to be said in other words on its side.
    var messageForPeer: String?
    /// The document is larger than the local settings allow.
    var exceedsLocalSize = false
    /// See `ReplicationError.neededMemory`.
    var neededMemory: Int?

    static func bad(_ message: String) -> MessageError { MessageError(code: 400, message: message) }

    static func forbidden(_ message: String) -> MessageError { MessageError(code: 403, message: message) }

    static func missing(_ message: String) -> MessageError { MessageError(code: 404, message: message) }

    static func conflict(_ message: String) -> MessageError { MessageError(code: 409, message: message) }

    static func tooLarge(_ message: String) -> MessageError { MessageError(code: 413, message: message) }

    /// A delta that cannot be applied here: the peer sends the whole document.
    static func needsWhole(_ message: String) -> MessageError { MessageError(code: 422, message: message) }

    /// The peer should retry: 503 is the one status that every client survives and retries.
    static func notNow(_ message: String) -> MessageError { MessageError(code: 503, message: message) }

    static func tooManyQueued(_ limit: Int) -> MessageError { .notNow("\(limit) requests wait for an answer already (queued_requests); come back later") }

    /// The store could not answer.
    static let busy = notNow("the database cannot answer now")
}

extension ReplicationError {
    /// The same error for code that decides about the document or the connection.
    init(_ error: MessageError) {
        self.init(domain: .http, code: error.code, message: error.message)
        (exceedsLocalSize, neededMemory) = (error.exceedsLocalSize, error.neededMemory)
    }

    /// The store could not answer a question of the peer.
    static let storeIsBusy = ReplicationError(MessageError.busy)
}
