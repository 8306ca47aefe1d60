import Encodings

extension AgentSettings {
    /// Every secret in the configuration, to be removed from anything that is given to somebody else.
    package var secretTexts: [String] { (secrets.map(\.revealed) + expandedParameters).filter { $0.utf8.count > 4 } }

    /// The files that its secrets come from, as `${file:PATH}`.
    package var secretFiles: [String] { secrets.flatMap(\.files) + parameters.flatMap { $0.secretFiles(folder: folder) } }

    /// Whether it holds a password, a token or a passphrase itself. Headers are not counted: few of them are secret.
    package var holdsSecrets: Bool { credentials.contains(where: \.isInline) }

    private var secrets: [Secret] { credentials + replicators.flatMap { $0.headers.map(\.value) } }

    private var credentials: [Secret] {
        var secrets: [Secret?] = [admin?.token?.value] + (admin?.tokens.map(\.token.value) ?? [])
        for listener in listeners {
            if case .files(_, _, let passphrase)? = listener.identity { secrets.append(passphrase) }
            secrets.append(listener.tokens?.secret?.value)
        }
        for replicator in replicators {
            secrets.append(replicator.proxy?.password?.value)
            switch replicator.authenticator {
            case .basic(_, let password): secrets.append(password)
            case .session(let id, _, _): secrets.append(id)
            case .bearer(let token): secrets.append(token.value)
            case .iam(let key, _): secrets.append(key.value)
            case .identity(.files(_, _, let passphrase)): secrets.append(passphrase)
            case .identity, .plugin, nil: break
            }
        }
        return secrets.compactMap(\.self)
    }

    /// Expanded `${…}` values in parameters: it is not known here which of them are secret.
    private var expandedParameters: [String] { parameters.flatMap(\.expandedTexts) }

    /// What plugins and the filters of other databases are given.
    private var parameters: [ConfigurationNode] {
        var plugins: [PluginReference?] = []
        var nodes: [ConfigurationNode?] = []
        for database in databases { plugins += [database.conflictResolver, database.validate] }
        for listener in listeners { plugins += [listener.authenticator, listener.pushFilter, listener.pullFilter, listener.sync] }
        plugins += replicators.flatMap { [$0.authenticator?.plugin, $0.observer, $0.selectPeer] }
        for collection in replicators.flatMap(\.collections) {
            plugins += [collection.pushFilter, collection.pullFilter, collection.pushTransform, collection.pullTransform, collection.conflictResolver]
            nodes += [collection.sourceFilter?.params, collection.selector]
        }
        for plugin in plugins { nodes += [plugin?.params, plugin?.shadow?.params] }
        return nodes.compactMap(\.self)
    }
}

extension ConfigurationNode {
    /// The texts in it that come from `${…}`.
    fileprivate var expandedTexts: [String] {
        switch content {
        case .scalar(let scalar): scalar.isExpanded ? [scalar.text] : []
        case .sequence(let elements): elements.flatMap(\.expandedTexts)
        case .mapping(let entries): entries.flatMap(\.value.expandedTexts)
        }
    }

    /// Whether a parameter is a secret by its name.
    private static func namesSecret(_ name: String) -> Bool {
        let name = name.lowercased()
        return ["password", "passphrase", "secret", "token"].contains { name.holds($0) } || name.hasSuffix("key") && !name.holds("public")
    }

    /// The files of parameters that are secrets by their names: a file of anything else may be for everybody.
    fileprivate func secretFiles(folder: String, isSecret: Bool = false) -> [String] {
        switch content {
        case .scalar(let scalar): isSecret ? (scalar.source.map { Expansion.files(in: $0, folder: folder) } ?? []) : []
        case .sequence(let elements): elements.flatMap { $0.secretFiles(folder: folder, isSecret: isSecret) }
        case .mapping(let entries):
            entries.flatMap { $0.value.secretFiles(folder: folder, isSecret: isSecret || Self.namesSecret($0.key)) }
        }
    }
}
