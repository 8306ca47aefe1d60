import Environment
import NIOCore

/// A remote database reached by HTTP requests instead of messages. As a ``MessageTransport`` it only has an execution context and an end; it neither
/// delivers nor accepts messages.
///
/// Implementations log in, renew their session and follow redirects: what they return is the database's own answer.
public protocol HTTPPeer: MessageTransport {
    /// Sends one request and collects its answer. Any number of requests may be in flight.
    ///
    /// - Throws: ``ReplicationError`` if there was no complete answer; `CancellationError`.
    func exchange(_ request: PeerRequest) async throws -> PeerAnswer

    /// Sends one request and passes on the body of a successful answer (2xx) as it arrives, each piece with the answer's status and headers; the body
    /// of any other answer is collected.
    func download(_ request: PeerRequest, _ take: @escaping @Sendable (_ head: PeerAnswer, ByteBuffer) async throws -> Void) async throws -> PeerAnswer

    /// A text from the other side, which may quote what was sent to it, with passwords, tokens and cookies removed.
    func withoutSecrets(_ text: String) -> String

    /// Returns when the session is ready for more: at once, unless it called ``MessageTransport/setReading(_:)`` with false.
    func untilReading() async
}

extension MessageTransport {
    /// The protocol spoken over the connection, for logs and status: a subprotocol as in the handshake, or `CouchDB`.
    package var protocolName: String { self is any HTTPPeer ? "CouchDB" : (subprotocol ?? .generation3).rawValue }
}

/// A request to an ``HTTPPeer``.
public struct PeerRequest: Sendable {
    public enum Body: Sendable {
        case none
        case bytes(ByteBuffer)
        /// Pieces in order, produced while they are sent; `length` is their total size in bytes.
        case pieces(length: Int, @Sendable (_ write: (ByteBuffer) async throws -> Void) async throws -> Void)

        /// In bytes.
        public var length: Int {
            switch self {
            case .none: 0
            case .bytes(let bytes): bytes.readableBytes
            case .pieces(let length, _): length
            }
        }
    }

    public var method: String
    /// Relative to the database's own path: empty, or beginning with `/` or `?`, percent-encoded.
    public var path: String
    public var headers: [(name: String, value: String)] = []
    public var body = Body.none
    /// The longest time without progress, in milliseconds.
    public var patience = 30_000
    /// While there is nothing to report, the answer consists of white space: no particular pace is required.
    public var hasHeartbeat = false
    /// Maximum number of bytes collected of a successful answer.
    public var maximumAnswer = 64 << 20
    /// Called with the number of body bytes sent or received.
    public var moved: (@Sendable (Int) -> Void)?
    /// Called before a successful answer is collected up to this many bytes. The peer is not read while it waits; an error aborts the request.
    public var collecting: (@Sendable (Int) async throws -> Void)?

    public init(_ method: String, _ path: String) {
        self.method = method
        self.path = path
    }
}

/// The answer of an ``HTTPPeer``.
public struct PeerAnswer: Sendable {
    public var status: Int
    public var headers: [(name: String, value: String)]
    public var body: ByteBuffer
    /// The body exceeds the limit; the answer contains only its beginning.
    public var isTooLarge: Bool
    /// The memory claimed for it.
    package var claim: MemoryBudget.Claim?
    /// Bytes that were received, if fewer were kept.
    package var receivedBytes: Int?
    /// Memory of a body of this size when parsed into values, if it was computed: for a large body that takes a pass over all of it.
    package var counted: (text: Int, values: Int)?

    public init(status: Int, headers: [(name: String, value: String)] = [], body: ByteBuffer = ByteBuffer(), isTooLarge: Bool = false) {
        self.status = status
        self.headers = headers
        self.body = body
        self.isTooLarge = isTooLarge
    }

    public var isGood: Bool { (200..<300).contains(status) }

    /// The first header with this name, which must be in lower case.
    public func header(_ name: String) -> String? { headers.first { $0.name.lowercased() == name }?.value }
}
