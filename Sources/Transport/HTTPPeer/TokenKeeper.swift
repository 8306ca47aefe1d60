import Environment
import Interfaces
import Synchronization

/// Keeps a token or a session until shortly before it expires. It is requested when needed, with one request at a time.
final class TokenKeeper: Sendable {
    struct Token: Sendable {
        var text: String
        /// The name of the cookie that carries it; nil for a bearer token.
        var cookie: String?
        /// When it stops being used (seconds since 1970).
        var end: Int64

        /// The value of the `Cookie` header; nil for a bearer token.
        var cookieHeader: String? { cookie.map { "\($0)=\(text)" } }
    }

    private struct State {
        var token: Token?
        var asking: SharedWork<Token>?
    }

    /// `token_life`: assumed lifetime in seconds of a token that does not state it.
    static let defaultTokenLife: Int64 = 600

    /// Seconds; even a token with a longer lifetime is requested again after this.
    static let longestLife: Int64 = 86_400

    private let environment: Environment
    private let state = Mutex(State())

    init(_ environment: Environment) { self.environment = environment }

    /// A token whose lifetime starts now. A fifth of it is reserved for requests in progress, and for differing clocks.
    func token(_ text: String, cookie: String? = nil, life: Int64) -> Token {
        let life = max(0, min(life, Self.longestLife))
        return Token(text: text, cookie: cookie, end: environment.time.wallSeconds() + life - life / 5)
    }

    /// A token that is valid now.
    ///
    /// - Parameter ask: requests a new one.
    /// - Throws: the ``ReplicationError`` of `ask`, or `CancellationError`.
    func current(_ ask: @escaping @Sendable () async -> Result<Token, ReplicationError>) async throws -> Token {
        while true {
            let now = environment.time.wallSeconds()
            let (token, asking) = state.withLock { state -> (Token?, SharedWork<Token>?) in
                if let token = state.token, token.end > now { return (token, nil) }
                if let asking = state.asking, !asking.isGivenUp { return (nil, asking) }
                let asking = SharedWork<Token>(environment) { [self] work in keep(await ask(), of: work) }
                state.asking = asking
                return (nil, asking)
            }
            if let token { return token }
            // Other waiters may have abandoned it.
            do { if let asking { return try await asking.value() } } catch is CancellationError { try Task.checkCancellation() }
        }
    }

    /// The other side rejected this token, so it is not used any more.
    func forget(_ token: String) {
        state.withLock { state in if state.token?.text == token { state.token = nil } }
    }

    /// Texts that must not be logged.
    var texts: [String] { state.withLock { $0.token.map { [$0.text] } } ?? [] }

    private func keep(_ result: Result<Token, ReplicationError>, of asking: SharedWork<Token>) -> Result<Token, ReplicationError> {
        state.withLock { state in
            if state.asking === asking { state.asking = nil }
            if case .success(let token) = result { state.token = token }
            return result
        }
    }
}
