import AgentConfiguration
import Synchronization

/// A replicator's secrets that come from files. Each connection reads them again; this notices when they have changed.
package final class ReplicatorSecrets: Sendable {
    private let known: Mutex<[Secret]>

    /// Nil if none comes from a file.
    init?(_ settings: ReplicatorSettings) {
        let secrets = settings.changingSecrets
        guard !secrets.isEmpty else { return nil }
        known = Mutex(secrets)
    }

    /// Checks the files.
    ///
    /// - Returns: whether the next connection will use different secrets.
    func refresh() -> Bool {
        known.withLock { known in
            let now = known.map(\.current)
            defer { known = now }
            return now != known
        }
    }
}

extension ReplicatorSettings {
    /// The secrets that come from files.
    var changingSecrets: [Secret] {
        var all = headers.map(\.value)
        if let password = proxy?.password { all.append(password.value) }
        switch authenticator {
        case .basic(_, let password): all.append(password)
        case .bearer(let token): all.append(token.value)
        case .iam(let key, _): all.append(key.value)
        case .session(let id, _, _): all.append(id)
        case .identity, .plugin, nil: break
        }
        return all.filter(\.mayChange)
    }
}
