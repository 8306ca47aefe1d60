extension AgentSettings {
    /// Every secret that the configuration holds, to be taken out of what leaves the house.
    public var secretTexts: [String] {
        var secrets: [Secret?] = [admin?.token?.value] + (admin?.tokens.map(\.token.value) ?? [])
        for listener in listeners {
            if case .files(_, _, let passphrase)? = listener.identity { secrets.append(passphrase) }
        }
        for replicator in replicators {
            secrets.append(replicator.proxy?.password?.value)
            secrets += replicator.headers.map(\.value)
            switch replicator.authenticator {
            case .basic(_, let password): secrets.append(password)
            case .session(let id, _, _): secrets.append(id)
            case .bearer(let token): secrets.append(token.value)
            case .iam(let key, _): secrets.append(key.value)
            case .identity(.files(_, _, let passphrase)): secrets.append(passphrase)
            case .identity, nil: break
            }
        }
        return secrets.compactMap { $0?.revealed }.filter { $0.utf8.count > 4 }
    }
}
