import Interfaces
import Logging
import Replication

/// Logs documents that cannot be replicated between a listener and its peers: one line for each cause in a batch, with an example document and the
/// peer; lines with the same cause are folded over time.
enum RefusalLog {
    private struct Cause: Hashable {
        var direction: Direction
        var domain: ReplicationError.Domain
        var code: Int
    }

    /// - Parameter logger: includes the peer in its metadata.
    static func note(_ events: [DocumentEvent], user: String?, database: String, _ logger: Logger) {
        var found: [Cause: (first: DocumentEvent, error: ReplicationError, more: Int)] = [:]
        for event in events {
            guard let error = event.error else { continue }
            let cause = Cause(direction: event.direction, domain: error.domain, code: error.code)
            if found[cause] == nil { found[cause] = (event, error, 0) } else { found[cause]?.more += 1 }
        }
        for (cause, each) in found.sorted(by: { ($0.value.first.collection, $0.value.first.id) < ($1.value.first.collection, $1.value.first.id) }) {
            let document = "document \(each.first.id) of \(each.first.collection)\(each.more > 0 ? " and \(each.more) more" : "")"
            let what =
                switch (cause.direction, cause.domain) {
                case (.push, .plugin): "\(document) not sent to a peer, because the push filter fails"
                case (.push, _) where each.error.exceedsLocalSize: "\(document) not sent to a peer that pulls"
                case (.push, _): "\(document) refused by a peer that pulls"
                case (.pull, .plugin): "\(document) not accepted from a peer at the moment"
                case (.pull, _): "\(document) refused in a push from a peer"
                }
            let metadata: Logger.Metadata = [
                "cause": "\(cause.direction.rawValue) \(cause.domain.rawValue)/\(cause.code)", "database": "\(database)", "user": "\(user ?? "")",
            ]
            // The peer gives up a document that is too large here.
            let isSevere = cause.domain == .plugin || cause.direction == .push && each.error.exceedsLocalSize || cause == Cause(direction: .pull, domain: .http, code: 413)
            logger.log(level: isSevere ? .warning : .info, "\(what): \(each.error)", metadata: metadata)
        }
    }
}
