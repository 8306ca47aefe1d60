import NIOCore

/// A remote database that is spoken to in HTTP requests instead of messages. As a ``MessageTransport`` it has a place and an end; it
/// neither delivers nor takes messages.
///
/// Whoever implements it logs in, renews its session and follows redirects: what comes out is the database's own answer.
public protocol HTTPPeer: MessageTransport {
    /// Sends one request and collects its answer. Any number may be under way.
    ///
    /// - Throws: ``ReplicationError`` where there was no complete answer; `CancellationError`.
    func exchange(_ request: PeerRequest) async throws -> PeerAnswer

    /// Sends one request and passes the body of a good answer (2xx) on as it comes, each piece with the answer's status and headers; the body
    /// of another is collected.
    func download(_ request: PeerRequest, _ take: @escaping @Sendable (_ head: PeerAnswer, ByteBuffer) async throws -> Void) async throws -> PeerAnswer

    /// A text of the other side's, which may repeat what was sent to it, in which passwords, tokens and cookies are not shown.
    func withoutSecrets(_ text: String) -> String

    /// Returns when the session wants more: at once, unless it said ``MessageTransport/setReading(_:)`` false.
    func untilReading() async
}

extension MessageTransport {
    /// What is spoken over the connection, for logs and status: a subprotocol as it stands in the handshake, or `CouchDB`.
    package var protocolName: String { self is any HTTPPeer ? "CouchDB" : (subprotocol ?? .generation3).rawValue }
}

/// A request to an ``HTTPPeer``.
public struct PeerRequest: Sendable {
    public enum Body: Sendable {
        case none
        case bytes(ByteBuffer)
        /// Pieces in order, made as they are sent; `length` bytes together.
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
    /// Behind the database's own path: empty, or beginning with `/` or `?`, percent-encoded.
    public var path: String
    public var headers: [(name: String, value: String)] = []
    public var body = Body.none
    /// The longest time in which nothing moves, in milliseconds.
    public var patience = 30_000
    /// The answer is whitespace for as long as there is nothing to say: it need not come at a pace.
    public var hasHeartbeat = false
    /// Bytes of a good answer that are collected.
    public var maximumAnswer = 64 << 20
    /// Told of bytes of bodies that went or came.
    public var moved: (@Sendable (Int) -> Void)?

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
    /// The body has more than was to be collected; what is here is its beginning.
    public var isTooLarge: Bool
    /// What a body of so many bytes comes to as values, where that was counted: for a large one it is a look at all of it.
    package var counted: (text: Int, values: Int)?

    public init(status: Int, headers: [(name: String, value: String)] = [], body: ByteBuffer = ByteBuffer(), isTooLarge: Bool = false) {
        self.status = status
        self.headers = headers
        self.body = body
        self.isTooLarge = isTooLarge
    }

    public var isGood: Bool { (200..<300).contains(status) }

    /// The first header of that name, given in lower case.
    public func header(_ name: String) -> String? { headers.first { $0.name.lowercased() == name }?.value }
}
