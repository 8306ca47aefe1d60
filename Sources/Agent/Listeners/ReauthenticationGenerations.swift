/// Counts the changes that may affect who is admitted. The token keys say nothing about peers that authenticated in another way, so a change of them
/// concerns only peers that presented a token.
struct ReauthenticationGenerations: Sendable {
    /// The number of the authenticator's last change.
    private(set) var authenticator = 0
    /// The number of the last change of the token keys; both are counted in one sequence.
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

    /// The number of the last change that affects peers that authenticated in this way.
    func last(for proof: PeerAuthentication.Proof) -> Int {
        if case .token = proof { max(authenticator, tokens) } else { authenticator }
    }
}
