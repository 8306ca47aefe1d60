extension AgentSettings {
    /// Every secret in the configuration, to be removed from anything that is given to somebody else.
    package var secretTexts: [String] {
        var secrets: [Secret?] = [admin?.token?.value] + (admin?.tokens.map(\.token.value) ?? [])
        for listener in listeners {
            if case .files(_, _, let passphrase)? = listener.identity { secrets.append(passphrase) }
            secrets.append(listener.tokens?.secret?.value)
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
            case .identity, .plugin, nil: break
            }
        }
        return (secrets.compactMap { $0?.revealed } + expandedParameters).filter { $0.utf8.count > 4 }
    }

    /// Expanded `${…}` values in parameters: it is not known here which of them are secret.
    private var expandedParameters: [String] {
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
        return nodes.flatMap { $0?.expandedTexts ?? [] }
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
}
