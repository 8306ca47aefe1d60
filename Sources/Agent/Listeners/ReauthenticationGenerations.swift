/// The changes of who may come in, counted. The keys of tokens say nothing of anybody who came by something else, so that their changes are only
/// those of who came by a token.
struct ReauthenticationGenerations: Sendable {
    /// The last change of the authenticator.
    private(set) var authenticator = 0
    /// The last change of the keys of tokens: both are numbers of one row.
    private var tokens = 0

    /// - Returns: the number of this change.
    mutating func authenticatorChanges() -> Int {
        authenticator = max(authenticator, tokens) + 1
        return authenticator
    }

    /// - Returns: the number of this change.
    mutating func tokenKeysChange() -> Int {
        tokens = max(authenticator, tokens) + 1
        return tokens
    }

    /// The last change that whoever has shown this has to be judged by.
    func last(for proof: PeerAuthentication.Proof) -> Int {
        if case .token = proof { max(authenticator, tokens) } else { authenticator }
    }
}
