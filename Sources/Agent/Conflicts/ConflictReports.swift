import AgentConfiguration
import Documents
import DocumentStore
import Replication

/// Decided and pending conflicts as JSON, for the admin API and the commands.
enum ConflictReports {
    static func json(_ entry: ConflictHistoryEntry, database: String, includeBodies: Bool) -> JSONValue {
        var members: [(String, JSONValue)] = [
            ("state", .string("decided")), ("number", JSONOutput.number(entry.number)), ("at", .string(Timestamp.format(entry.at))),
            ("database", .string(database)), ("collection", .string(entry.collection.name.description)), ("id", .string(entry.id.text)),
            ("place", json(entry.place)), ("local_rev", .string(entry.local.revision.text)),
            ("remote_rev", .string(entry.remote.revision.text)), ("base_rev", JSONOutput.text(entry.base?.revision.text)),
            ("decision", .string(entry.decision.rawValue)), ("rev", .string(entry.result.revision.text)),
            ("plugin", plugin(entry.plugin)), ("version", plugin(entry.version)),
            ("duration_ms", milliseconds(entry.microseconds)), ("shadow", entry.shadow.map { json($0, includeBodies: includeBodies) } ?? .null),
        ]
        if includeBodies {
            members += [
                ("local", json(entry.local)), ("remote", json(entry.remote)), ("base", entry.base.map { json($0) } ?? .null),
                ("result", json(entry.result)),
            ]
        }
        return object(members)
    }

    /// - Parameters:
    ///   - remote: the store's name for the remote, which is its URL; nil if unknown.
    ///   - replicator: the name of the replicator that the configuration has for it; nil if it has none any more, or several.
    ///   - sides: the two sides with their bodies, if those are requested.
    static func json(
        _ pending: PendingConflict, database: String, collection: CollectionName, remote: String?, replicator: String?, sides: Conflict?
    ) -> JSONValue {
        let kind = pending.remoteID == .pusher ? "listener" : pending.remoteID == nil ? "unknown" : "replicator"
        var members: [(String, JSONValue)] = [
            ("state", .string("pending")), ("number", .null), ("since", .string(Timestamp.format(pending.since))),
            ("database", .string(database)), ("collection", .string(collection.description)), ("id", .string(pending.id.text)),
            (
                "place",
                JSONOutput.object([
                    "kind": .string(kind), "name": JSONOutput.text(kind == "replicator" ? replicator : nil),
                    "peer": JSONOutput.text(remote.map { ReplicatorTarget.shown($0) }), "user": .null,
                ])
            ),
            ("local_rev", .string(pending.local.text)), ("remote_rev", .string(pending.remote.text)),
            ("plugin", plugin(pending.plugin)), ("version", plugin(pending.version)), ("error", plugin(pending.error)),
            ("tries", JSONOutput.number(pending.tries)),
        ]
        if let sides {
            members += [
                ("base_rev", JSONOutput.text(sides.baseRevision?.text)), ("local", json(sides.local)), ("remote", json(sides.remote)),
                ("base", sides.base.map { side($0.revision, isDeleted: false, .whole($0.body)) } ?? .null),
            ]
        }
        return object(members)
    }

    static func json(_ event: ConflictEvent) -> JSONValue {
        var members: [(String, JSONValue)] = [
            ("state", .null), ("database", .string(event.database)), ("collection", .string(event.collection.description)),
            ("id", .string(event.id.text)), ("place", json(event.place)), ("plugin", plugin(event.plugin)),
            ("version", plugin(event.version)),
        ]
        switch event.kind {
        case .decided(let decision, let revision, let number):
            members[0].1 = .string("decided")
            members += [
                ("number", number.map { JSONOutput.number($0) } ?? .null), ("decision", .string(decision.rawValue)),
                ("rev", .string(revision.text)),
            ]
        case .pending(let failure):
            members[0].1 = .string("pending")
            members += [("kind", .string(failure.kind)), ("error", .string(failure.message))]
        }
        return object(members)
    }

    static func json(_ counts: ConflictHistoryCounts) -> JSONValue {
        JSONOutput.object([
            "kept": JSONOutput.number(counts.kept),
            "shadow": JSONOutput.object([
                "same": JSONOutput.number(counts.shadowSame), "differs": JSONOutput.number(counts.shadowDiffers),
                "failed": JSONOutput.number(counts.shadowFailed),
            ]),
        ])
    }

    // MARK: - Parts

    private static func json(_ place: ConflictPlace) -> JSONValue {
        let kind = switch place.kind {
        case .replicator: "replicator"
        case .listener: "listener"
        case .save: "save"
        }
        return JSONOutput.object([
            "kind": .string(kind), "name": place.name.isEmpty ? .null : .string(place.name),
            "peer": place.kind == .save ? .null : .string(ReplicatorTarget.shown(place.peer)), "user": JSONOutput.text(place.user),
        ])
    }

    private static func json(_ shadow: ShadowVerdict, includeBodies: Bool) -> JSONValue {
        let outcome = switch shadow.outcome {
        case .same: "same"
        case .differs: "differs"
        case .failed: "failed"
        }
        var members: [(String, JSONValue)] = [
            ("plugin", .string(shadow.plugin)), ("version", .string(shadow.version)), ("outcome", .string(outcome)),
            ("decision", JSONOutput.text(shadow.decision?.rawValue)), ("error", plugin(shadow.error)),
            ("duration_ms", milliseconds(shadow.microseconds)),
        ]
        if includeBodies, shadow.decision == .merged { members.append(("merged", body(shadow.body))) }
        return object(members)
    }

    private static func json(_ side: ConflictHistoryEntry.Side) -> JSONValue {
        self.side(side.revision, side.version, isDeleted: side.isDeleted, side.body)
    }

    private static func json(_ side: Conflict.Side) -> JSONValue {
        self.side(side.revision, side.version, isDeleted: side.isDeleted, side.isDeleted ? nil : .whole(side.body))
    }

    private static func side(_ revision: RevisionID, _ version: VectorVersion? = nil, isDeleted: Bool, _ kept: KeptBody?) -> JSONValue {
        var object = JSONObject([
            .init(key: "rev", value: .string(revision.text)), .init(key: "cv", value: JSONOutput.text(version?.description)),
            .init(key: "deleted", value: .bool(isDeleted)),
        ])
        if let members = body(kept).asObject { object.members += members.members }
        return .object(object)
    }

    /// `{"body": …, "omitted": null}`, or `{"body": null, "omitted": {"sha256", "bytes", "reason"}}`.
    private static func body(_ kept: KeptBody?) -> JSONValue {
        switch kept {
        case nil: JSONOutput.object(["body": .null, "omitted": .null])
        case .whole(let body): JSONOutput.object(["body": (try? JSONValue(stored: body)) ?? .null, "omitted": .null])
        case .digest(let digest, let bytes):
            JSONOutput.object([
                "body": .null,
                "omitted": JSONOutput.object([
                    "sha256": .string(digest), "bytes": JSONOutput.number(bytes),
                    "reason": .string("larger than \(StoreLimits.maxHistoryBodyBytes) bytes (maxHistoryBodyBytes)"),
                ]),
            ])
        }
    }

    private static func plugin(_ text: String) -> JSONValue { text.isEmpty ? .null : .string(text) }

    private static func milliseconds(_ microseconds: Int64) -> JSONValue { JSONOutput.number(Double(microseconds) / 1_000) }

    private static func object(_ members: [(String, JSONValue)]) -> JSONValue {
        .object(JSONObject(members.map { JSONObject.Member(key: $0.0, value: $0.1) }))
    }
}
