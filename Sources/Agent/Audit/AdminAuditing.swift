import Documents
import HTTPServer
import Logging
import PluginHost

/// What is recorded about requests to the admin API: everything that changes something, and every refused request.
struct AdminAuditing: Sendable {
    /// Query parameters that say how far an action went. No others are recorded: a secret that somebody puts in the wrong place must not end up in a
    /// log.
    private static let recordedKeys = ["reset", "keep", "to", "db", "missing_blobs", "collection", "dry_run"]

    let log: AuditLog
    let logins: RefusedLogins
    let logger: Logger

    /// Records a request with its outcome.
    func note(_ request: HTTPRequest, by who: String, from: String, _ respond: () async throws -> HTTPResponse) async throws -> HTTPResponse {
        if ["GET", "HEAD"].contains(request.method) { return try await respond() }
        func note(_ outcome: String) {
            let (action, target) = Self.action(request)
            // Without the port, which differs for each connection: requests for documents are folded.
            log.note(
                .init(who: who, from: target == nil ? from : Self.host(from), action: action, target: target?.database ?? "", outcome: outcome), isFolded: target != nil,
                document: target?.id)
        }
        do {
            let response = try await respond()
            note("\(response.status)")
            return response
        } catch {
            let answer = error as? HTTPError ?? AdminListener.explain(error)
            note("\(answer.status)")
            // Only whoever asked gets the answer, which may have been a script.
            if Self.action(request).text == "POST /api/reload" {
                logger.error("a reload requested by \(who) (\(from)): the configuration is refused, the old one stays in force: \(answer.reason)")
            }
            throw error
        }
    }

    /// Records a caller who was not let in, or lacks permission for the request.
    func note(_ request: HTTPRequest, by who: String, refusedBy error: HTTPError) {
        guard [401, 403].contains(error.status) else { return }
        if error.status == 401 { logins.note(RefusedLogins.adminPort) }
        let action = error.status == 401 ? "login" : Self.action(request).text
        log.note(
            .init(who: who, from: Self.host(request.connection.remoteAddress), action: action, target: "admin port", outcome: "\(error.status)"), isFolded: true)
    }

    /// What a request was about that is for one document, or for one blob.
    private struct Target {
        /// As the path names it, with the collection if that is not the default one.
        var database: String
        var id: String?
    }

    /// Document requests come by the thousand: of those for one database and with one outcome, a few a minute are recorded, and the others counted.
    private static func action(_ request: HTTPRequest) -> (text: String, target: Target?) {
        let parts = (try? RequestTarget.components(request.path))?.filter { !$0.isEmpty } ?? request.path.split(separator: "/").map(String.init)
        let isDocument = parts.count > 3 && parts[1] == "databases" && ["documents", "blobs"].contains(parts[3])
        if isDocument {
            let target = Target(database: parts[2], id: parts.count > 4 ? parts.dropFirst(4).joined(separator: "/") : nil)
            return ("\(request.method) /\(parts.prefix(4).joined(separator: "/"))", target)
        }
        return ("\(request.method) /\(parts.joined(separator: "/"))\(query(request))", nil)
    }

    private static func query(_ request: HTTPRequest) -> String {
        let pairs = recordedKeys.compactMap { key in (try? request.queryValue(key)).map { "\(key)=\($0)" } }
        return pairs.isEmpty ? "" : "?\(pairs.joined(separator: "&"))"
    }

    /// Without the port, which differs for each connection.
    private static func host(_ address: String) -> String { address.lastIndex(of: ":").map { String(address[..<$0]) } ?? address }
}

extension AuditLog {
    /// Records that a replicator purged documents to which its peer withdrew access.
    func notePurge(by replicator: String, database: String, _ collection: CollectionName, count: Int) {
        note(.init(
            who: "replicator \(replicator)", from: "", action: "purge of documents with access removed", target: "\(database).\(collection)",
            outcome: "\(count) purged"))
    }
}

extension Agent {
    /// Records a failed login at a listener.
    nonisolated func noteRefusedLogin(at listener: String, user: String, from: String) {
        refusedLogins.note(listener)
        audit.note(.init(who: user, from: from, action: "login", target: "listener \(listener)", outcome: "refused"), isFolded: true)
    }

    /// Records what happened to a plugin, and notes the time for the list of what needs attention.
    nonisolated func note(_ event: PluginEvent) {
        let now = environment.time.wallSeconds()
        func begins(_ kinds: [AttentionKind], _ plugin: String) {
            for kind in kinds { attentionTimes.sign(of: kind, "plugin \(plugin)", at: now) }
        }
        func note(_ plugin: String, _ action: String, _ outcome: String) {
            audit.note(.init(who: "plugins folder", from: "", action: "plugin \(action)", target: plugin, outcome: outcome))
        }
        switch event {
        case .loaded(let plugin, let version): note(plugin, "loaded", version)
        case .reloaded(let plugin, let old, let new): note(plugin, "changed", "\(old) to \(new)")
        case .refused(let plugin, let version, _, _):
            note(plugin, "refused", version)
            begins([.pluginRefused, .pluginUnavailable], plugin)
        case .missing(let plugin, _), .removed(let plugin):
            note(plugin, "file gone", "")
            begins([.pluginFileGone], plugin)
        case .returned(let plugin, let version), .restored(let plugin, let version): note(plugin, "back", version)
        case .rolledBack(let plugin, let old, let new): note(plugin, "rolled back", "\(old) to \(new)")
        case .parameterFileChanged(let plugin, let use, let parameter): note(plugin, "parameter file changed", "\(parameter) of \(use)")
        case .parameterFileRefused(let plugin, _, _, _): begins([.nextStartFails], plugin)
        case .failed, .failing, .recovered, .notKept, .folder: break
        }
    }
}
