import Environment
import Interfaces
import Synchronization

/// Keeps a token or a session until it is about to end. It is asked for when it is needed, one question at a time.
final class TokenKeeper: Sendable {
    struct Token: Sendable {
        var text: String
        /// The cookie that carries it; nil for a bearer token.
        var cookie: String?
        /// Seconds since 1970 from which it is not used any more.
        var end: Int64

        /// The value of the header `Cookie`; nil for a bearer token.
        var cookieHeader: String? { cookie.map { "\($0)=\(text)" } }
    }

    private struct State {
        var token: Token?
        var asking: SharedWork<Token>?
    }

    /// `token_life`: seconds that a token lives of which nobody says it.
    static let usualLife: Int64 = 600

    /// Seconds; a token that says that it lives for longer is asked for anew after so long.
    static let longestLife: Int64 = 86_400

    private let environment: Environment
    private let state = Mutex(State())

    init(_ environment: Environment) { self.environment = environment }

    /// A token that begins to live now. A fifth is left for requests under way, and for clocks that differ.
    func token(_ text: String, cookie: String? = nil, life: Int64) -> Token {
        let life = max(0, min(life, Self.longestLife))
        return Token(text: text, cookie: cookie, end: environment.time.wallSeconds() + life - life / 5)
    }

    /// A token that is good now.
    ///
    /// - Parameter ask: gets another one.
    /// - Throws: ``ReplicationError`` of `ask`, and `CancellationError`.
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
            // Others may have given it up.
            do { if let asking { return try await asking.value() } } catch is CancellationError { try Task.checkCancellation() }
        }
    }

    /// The other side did not take this token: it is not used any more.
    func forget(_ token: String) {
        state.withLock { state in if state.token?.text == token { state.token = nil } }
    }

    /// What must not be shown.
    var texts: [String] { state.withLock { $0.token.map { [$0.text] } } ?? [] }

    private func keep(_ result: Result<Token, ReplicationError>, of asking: SharedWork<Token>) -> Result<Token, ReplicationError> {
        state.withLock { state in
            if state.asking === asking { state.asking = nil }
            if case .success(let token) = result { state.token = token }
            return result
        }
    }
}
