import Environment
import Interfaces

/// Bearer tokens or sessions from a local source such as a plugin: requested when needed, and kept until shortly before they expire.
public final class SuppliedTokens: Sendable {
    private let keeper: TokenKeeper
    private let source: any TokenSource
    private let replicator: String
    private let remote: String

    /// - Parameters:
    ///   - replicator: the one that uses them.
    ///   - remote: the server that they are for.
    public init(_ source: any TokenSource, replicator: String, remote: String, environment: Environment) {
        (self.source, self.replicator, self.remote) = (source, replicator, remote)
        keeper = TokenKeeper(environment)
    }

    /// A token that is valid now.
    ///
    /// - Throws: ``ReplicationError``: http 503 if the source fails.
    func current() async throws -> TokenKeeper.Token { try await keeper.current { await self.ask() } }

    /// The other side rejected this token, so it is not used any more.
    func forget(_ token: String) { keeper.forget(token) }

    /// Texts that must not be logged.
    var secrets: [String] { keeper.texts }

    private func ask() async -> Result<TokenKeeper.Token, ReplicationError> {
        switch await source.token(replicator: replicator, remote: remote) {
        case .success(let token):
            let life = token.seconds.map { Int64(min(max($0, 0), Double(TokenKeeper.longestLife))) }
            return .success(keeper.token(token.text, cookie: token.cookie, life: life ?? TokenKeeper.defaultTokenLife))
        case .failure(let failure):
            let (what, hook) = source.givesSessions ? ("session", "get_session") : ("token", "token")
            var error = ReplicationError(domain: .http, code: 503, message: "the plugin \(failure.plugin) gave no \(what): \(failure.kind): \(failure.message)")
            error.specificRemedy = "fix the plugin: nightjar plugin run \(failure.plugin) \(hook) shows what it returns"
            return .failure(error)
        }
    }
}

extension SuppliedTokens: Equatable {
    public static func == (left: SuppliedTokens, right: SuppliedTokens) -> Bool { left === right }
}
