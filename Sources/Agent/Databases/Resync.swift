import Documents
import Encodings
import Replication

/// What a resync is to do.
struct ResyncRequest: Sendable {
    var database: String
    /// Nil for the whole database.
    var collection: CollectionName?
    /// A single document of the collection.
    var document: DocumentID?
    /// Writes nothing and only reports what would change.
    var isTrial = false
}

/// A resync and its results so far.
struct Resync: Sendable {
    enum State: String {
        case running, done
        /// The configuration was reloaded, and no sync function judges the documents any more.
        case interrupted
        case failed
    }

    let request: ResyncRequest
    let startedAt: Int64
    var state = State.running
    var endedAt: Int64?
    var error: String?
    /// How often it started over because the sync function changed.
    var restarts = 0
    /// In the order of the collections.
    var figures: [(collection: CollectionName, figures: ResyncFigures)] = []

    init(_ request: ResyncRequest, startedAt: Int64) {
        self.request = request
        self.startedAt = startedAt
    }

    /// Some stored documents may be in channels that the sync function does not assign.
    var isIncomplete: Bool { state != .done || sum(\.failed) > 0 }

    mutating func note(_ new: ResyncFigures, of collection: CollectionName) {
        if figures.last?.collection == collection { figures.removeLast() }
        figures.append((collection, new))
    }

    private func sum(_ count: KeyPath<ResyncFigures, Int>) -> Int { figures.reduce(0) { $0 + $1.figures[keyPath: count] } }

    /// For the log and the audit log.
    var summary: String {
        "looked at \(Plural.count(sum(\.looked), "document")), \(sum(\.changed)) \(request.isTrial ? "would change" : "changed"), \(sum(\.refused)) rejected, \(sum(\.failed)) failed"
    }

    /// For a status, which many people see and which goes into support bundles: without documents.
    var figuresJSON: JSONValue { JSONOutput.object(members) }

    /// For a request about this resync: with the first documents of each kind (`resync_shown`), and what the function said about them.
    var json: JSONValue {
        guard case .object(var object) = figuresJSON else { return .null }
        object["changed_documents"] = list(\.changedFirst)
        object["rejected_documents"] = list(\.refusedFirst)
        // Its former name.
        object["refused_documents"] = list(\.refusedFirst)
        object["failed_documents"] = list(\.failedFirst)
        return .object(object)
    }

    private var members: KeyValuePairs<String, JSONValue?> {
        [
            "database": .string(request.database), "state": .string(state.rawValue), "dry_run": .bool(request.isTrial),
            "collection": JSONOutput.text(request.collection?.description), "document": JSONOutput.text(request.document?.text),
            "started_at": .string(Timestamp.format(startedAt)), "ended_at": JSONOutput.text(endedAt.map { Timestamp.format($0) }),
            "error": JSONOutput.text(error), "restarts": JSONOutput.number(restarts),
            // For the collections that it has reached.
            "total": JSONOutput.number(sum(\.total)), "looked_at": JSONOutput.number(sum(\.looked)), "changed": JSONOutput.number(sum(\.changed)),
            // "refused" is the former name of "rejected".
            "rejected": JSONOutput.number(sum(\.refused)), "refused": JSONOutput.number(sum(\.refused)), "failed": JSONOutput.number(sum(\.failed)),
        ]
    }

    private func list(_ findings: KeyPath<ResyncFigures, [ResyncFigures.Finding]>) -> JSONValue {
        var rows: [JSONValue] = []
        for each in figures {
            for finding in each.figures[keyPath: findings].prefix(ResyncFigures.shown - rows.count) {
                rows.append(
                    JSONOutput.object([
                        "collection": .string(each.collection.description), "id": .string(finding.id.text),
                        "error": JSONOutput.text(finding.error.isEmpty ? nil : finding.error),
                    ]))
            }
        }
        return .array(rows)
    }
}
