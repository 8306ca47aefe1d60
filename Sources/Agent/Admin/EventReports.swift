import Documents
import Encodings
import PluginHost
import Replication

/// The contents of the events of `/api/events`: for each, the JSON of its `data`.
enum EventReports {
    static func report(_ replicator: String, _ wentBack: RemoteWentBack) -> JSONValue {
        JSONOutput.object([
            "replicator": .string(replicator), "at": .string(Timestamp.format(wentBack.time)), "message": .string(wentBack.message),
        ])
    }

    static func report(_ replicator: String, _ events: [DocumentEvent]) -> JSONValue {
        JSONOutput.object([
            "replicator": .string(replicator),
            "documents": .array(
                events.map { event in
                    var flags: [JSONValue] = []
                    if event.isDeleted { flags.append(.string("deleted")) }
                    if event.isAccessRemoved { flags.append(.string("access_removed")) }
                    return JSONOutput.object([
                        "id": .string(event.id.text), "collection": .string(event.collection.description),
                        "direction": .string(event.direction.rawValue), "flags": .array(flags),
                        "time": JSONOutput.text(event.time.map { Timestamp.format($0) }), "correlation_id": JSONOutput.text(event.correlationID),
                        "held": .bool(event.error?.domain == .plugin && event.error?.code == 503),
                        "error": event.error.map { Agent.report($0) } ?? .null,
                    ])
                }),
        ])
    }

    /// Whether the event is about a replicator other than the one the reader asked for.
    static func isAboutAnother(_ subject: String, than only: String?) -> Bool {
        guard let only, subject.hasPrefix("replicator ") else { return false }
        return subject != "replicator \(only)" && !subject.hasPrefix("replicator \(only),")
    }

    static func report(_ change: AttentionChange) -> JSONValue {
        let entry = change.entry
        return JSONOutput.object([
            "state": .string(change.isOver ? "over" : "began"), "time": .string(Timestamp.format(change.time)),
            "kind": .string(entry.kind.rawValue), "gravity": .string(entry.kind.gravity.rawValue), "subject": .string(entry.subject),
            "since": JSONOutput.text(entry.since.map { Timestamp.format($0) }), "text": .string(entry.text), "remedy": .string(entry.remedy),
        ])
    }

    static func report(_ event: PluginEvent, _ generation: UInt64?, at time: Int64) -> JSONValue {
        func object(_ kind: String, _ plugin: String, _ version: String? = nil, _ message: String? = nil) -> JSONValue {
            JSONOutput.object([
                "kind": .string(kind), "plugin": .string(plugin), "version": JSONOutput.text(version), "time": .string(Timestamp.format(time)),
                "generation": generation.map { JSONOutput.number($0) } ?? .null, "message": JSONOutput.text(message),
            ])
        }
        switch event {
        case .loaded(let plugin, let version): return object("loaded", plugin, version)
        case .reloaded(let plugin, _, let to): return object("reloaded", plugin, to)
        case .refused(let plugin, let version, _, let problem): return object("refused", plugin, version, problem.description)
        case .missing(let plugin, let serving): return object("missing", plugin, serving)
        case .returned(let plugin, let version): return object("returned", plugin, version)
        case .restored(let plugin, let version): return object("restored", plugin, version)
        case .removed(let plugin): return object("removed", plugin)
        case .parameterFileChanged(let plugin, let usedBy, let parameter):
            return object("parameter_file_changed", plugin, nil, "\(usedBy): \(parameter)")
        case .parameterFileRefused(let plugin, let usedBy, let parameter, let message):
            return object("parameter_file_refused", plugin, nil, "\(usedBy): \(parameter): \(message)")
        case .failed(let plugin, let version, let kind, let message): return object("failed", plugin, version, "\(kind): \(message)")
        case .rolledBack(let plugin, let from, let to): return object("rolled_back", plugin, to, "from \(from)")
        case .failing(let plugin, let version, let usedBy, let failures, let message):
            return object("failing", plugin, version, "\(usedBy) failed \(Plural.count(failures, "time")) in a row: \(message)")
        case .recovered(let plugin, let version, let usedBy): return object("recovered", plugin, version, usedBy)
        case .notKept(let plugin, let version, let message): return object("not_kept", plugin, version, message)
        case .folder(let problem): return object("folder", "", nil, problem.description)
        }
    }
}
