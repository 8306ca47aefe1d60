/// Settings that are valid but probably not what their author meant. They do not prevent an agent from running: `check` and the log of `run` report
/// them.
extension AgentSettings {
    /// - Parameter plugins: the names of the plugins in the folder; nil if unknown.
    package func advice(plugins: Set<String>?) -> [ConfigurationProblem] {
        var advice: [ConfigurationProblem] = []
        if databases.isEmpty, listeners.isEmpty, replicators.isEmpty, !namesDatabases {
            advice.append(
                ConfigurationProblem(
                    file: file ?? "", line: 0, column: 0,
                    message: "it has no database, no listener and no replicator, like an empty file: an agent would do nothing with it; write databases: {} if this "
                        + "is intended"))
        }
        let unread = Paths.resolve("nightjar.yaml", in: folder)
        if file == nil, Paths.isFile(unread) {
            advice.append(
                ConfigurationProblem(
                    file: "", line: 0, column: 0,
                    message: "\(unread) is there and is not used, since no file was named: name it with --config, or move it away if the built-in default is intended"))
        }
        if let admin, !Address.isLoopback(admin.address.value) {
            advice.append(
                ConfigurationProblem(
                    at: admin.address.position,
                    "admin: the token travels in clear text, and anybody on the way can read it: keep 127.0.0.1 and connect through ssh -L or a proxy with TLS, "
                        + "unless that network is yours alone"))
        }
        for listener in listeners where listener.takesLoginsInClearText {
            advice.append(
                ConfigurationProblem(
                    at: listener.disableTLS.position,
                    "listener \(ValueQuoting.quoted(listener.name.value)): peers send their \(listener.authenticator == nil ? "tokens" : "passwords") in clear text, "
                        + "and anybody on the way can read them: leave "
                        + "disable_tls out, or bind it to 127.0.0.1 behind a proxy with TLS"))
        }
        for replicator in replicators {
            let target = replicator.target
            let name = "replicator \(ValueQuoting.quoted(replicator.name.value))"
            if let secret = replicator.sentInClearText {
                advice.append(
                    ConfigurationProblem(
                        at: target.position,
                        "\(name): sends \(secret) in clear text to \(target.value.scheme == .discover ? "whoever announces this \(target.value.group == nil ? "name" : "group")" : target.value.host); anybody "
                            + "on the way can read it: use "
                            + target.value.scheme.withTLS))
            }
            if let own = listeners.first(where: { $0.isReached(by: target.value) }), own.serves(target.value.database, replicator.database.value) {
                advice.append(
                    ConfigurationProblem(
                        at: target.position,
                        "\(name): the target is this agent's own listener \(ValueQuoting.quoted(own.name.value)), so the database would replicate with itself"))
            }
        }
        for replicator in replicators { advice += replicator.keysWithoutEffect }
        for database in databases {
            guard let quota = database.quota, quota < database.maxDocumentBytes else { continue }
            advice.append(
                ConfigurationProblem(
                    at: database.name.position,
                    "database \(ValueQuoting.quoted(database.name.value)): its quota (\(quota)) is less than a document may have (max_document_bytes, \(database.maxDocumentBytes)): one that is "
                        + "larger than the quota can never be stored, and is tried again for ever; set max_document_bytes below the quota, so that it is refused with that reason"))
        }
        if let plugins {
            for limits in pluginLimits where !plugins.contains(limits.name.value) {
                advice.append(
                    ConfigurationProblem(
                        at: limits.name.position == .none ? limits.position : limits.name.position,
                        "plugin_limits: there is no plugin \(ValueQuoting.quoted(limits.name.value))"
                            + NearestName.hint(for: limits.name.value, among: plugins.sorted(), otherwise: "plugins")))
            }
        }
        return advice
    }

    /// Why this configuration must not replace one that has databases: it has none and does not say so explicitly; nil if it may.
    package func lostDatabases(from old: AgentSettings) -> ConfigurationProblem? {
        guard databases.isEmpty, !old.databases.isEmpty, !namesDatabases else { return nil }
        return ConfigurationProblem(
            file: file ?? "", line: 0, column: 0,
            message: "it names no database, and the configuration in force has \(old.databases.count), which would be closed; if this is intended, write databases: {}")
    }
}

extension ReplicatorTarget.Scheme {
    fileprivate var withTLS: String {
        switch self {
        case .ws: "wss://"
        case .discover: "a listener with TLS, without tls=off"
        default: "https://"
        }
    }
}

extension ReplicatorSettings {
    /// Keys that are set but have no effect with this target or type.
    fileprivate var keysWithoutEffect: [ConfigurationProblem] {
        let name = "replicator \(ValueQuoting.quoted(name.value))"
        var advice: [ConfigurationProblem] = []
        let scheme = target.value.scheme
        if direction.pulls, enableAutoPurge.position != .none, scheme == .http || scheme == .https {
            advice.append(
                ConfigurationProblem(
                    at: enableAutoPurge.position,
                    "\(name): enable_auto_purge has no effect, since the target is \(scheme.rawValue): and a CouchDB database does not report that it took access "
                        + "away: such documents stay here; remove the key, or replicate with ws or wss"))
        }
        var unused: [(String, SourcePosition?)] = []
        // Only a pulling replicator learns that the other side has withdrawn access.
        if !direction.pulls, enableAutoPurge.position != .none { unused.append(("enable_auto_purge", enableAutoPurge.position)) }
        for collection in collections {
            if !direction.pushes {
                unused += [("push_filter", collection.pushFilter?.plugin.position), ("push_transform", collection.pushTransform?.plugin.position)]
            }
            if !direction.pulls {
                // Conflicts arise from pulled documents; a push that conflicts is refused by the other side.
                unused += [
                    ("pull_filter", collection.pullFilter?.plugin.position), ("pull_transform", collection.pullTransform?.plugin.position),
                    ("channels", collection.channels.first?.position), ("conflict_resolver", collection.conflictResolver?.plugin.position),
                ]
            }
        }
        for (key, position) in unused {
            guard let position else { continue }
            advice.append(
                ConfigurationProblem(
                    at: position, "\(name): \(key) has no effect, since type is \(direction.rawValue): take it out, or set type: push_and_pull"))
        }
        return advice
    }

    /// Which credentials cross a network, where others may listen, in clear text; nil if none do.
    fileprivate var sentInClearText: String? {
        let target = target.value
        guard target.scheme.isNetwork, !target.usesTLS, !Address.isLoopback(target.host) else { return nil }
        switch authenticator {
        case .basic: return "its password"
        case .session: return "its session"
        case .bearer, .iam: return "its token"
        case .plugin(let plugin): return "what the plugin \(plugin.plugin.value) logs in with"
        default: break
        }
        let secret = headers.first { ["authorization", "cookie", "proxy-authorization"].contains($0.name.value.lowercased()) }
        return secret.map { "its header \($0.name.value)" }
    }
}

extension ListenerSettings {
    /// Whether passwords or tokens are received over a network where others may listen.
    fileprivate var takesLoginsInClearText: Bool { endpoint == nil && disableTLS.value && (authenticator != nil || tokens != nil) && !isLoopback }

    /// Whether the target is on this machine, as far as the configuration tells.
    fileprivate func isReached(by target: ReplicatorTarget) -> Bool {
        guard endpoint == nil, target.scheme.isNetwork, target.port == port.value, target.port != 0 else { return false }
        if Address.isLoopback(target.host) {
            return interface.map { $0.value == "lo" || Address.isLoopback($0.value) || $0.value == "0.0.0.0" || $0.value == "::" } ?? true
        }
        return interface?.value == target.host
    }

    /// Whether the target's database is the replicator's own, so that nothing would ever change.
    fileprivate func serves(_ database: String?, _ source: String) -> Bool {
        database.map { $0 == source || $0.hasPrefix("\(source).") } ?? false
    }
}
