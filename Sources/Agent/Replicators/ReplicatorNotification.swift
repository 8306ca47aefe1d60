import Documents
import Interfaces
import Replication

/// What plugins receive about a replicator, as JSON. Absent values are omitted, which makes them nil in Lua; times are seconds since 1970.
enum ReplicatorNotification {
    static func status(_ status: ReplicatorStatus) -> [UInt8] {
        let counts = status.counts
        var object = JSONObject()
        object["activity"] = .string(status.activity.rawValue)
        object["since"] = JSONOutput.number(status.since)
        object["is_suspended"] = .bool(status.isSuspended)
        object["progress"] = JSONOutput.object(["completed": JSONOutput.number(counts.completed), "total": JSONOutput.number(counts.total)])
        object["pushed"] = JSONOutput.number(counts.pushed)
        object["pulled"] = JSONOutput.number(counts.pulled)
        object["rejected"] = JSONOutput.number(counts.rejected)
        object["failed"] = JSONOutput.number(counts.failed)
        object["access_removed"] = JSONOutput.number(counts.accessRemoved)
        object["conflicts_resolved"] = JSONOutput.number(counts.resolved)
        object["attempt"] = JSONOutput.number(status.attempt)
        object["next_retry_at"] = status.retryInSeconds.map { JSONOutput.number(status.since + Int64($0)) }
        object["last_success_at"] = status.lastSuccess.map { JSONOutput.number($0) }
        object["protocol"] = status.peerProtocol.map { JSONValue.string($0) }
        object["correlation_id"] = status.correlationID.map { JSONValue.string($0) }
        object["error"] = status.error.map { error($0) }
        return JSONValue.object(object).serialize()
    }

    static func documents(_ events: [DocumentEvent]) -> [UInt8] {
        JSONValue.array(
            events.map { event in
                var object = JSONObject()
                object["id"] = .string(event.id.text)
                object["collection"] = .string(event.collection.description)
                object["is_push"] = .bool(event.direction == .push)
                object["flags"] = JSONOutput.object(["deleted": .bool(event.isDeleted), "access_removed": .bool(event.isAccessRemoved)])
                object["time"] = event.time.map { JSONOutput.number($0) }
                object["correlation_id"] = event.correlationID.map { JSONValue.string($0) }
                object["error"] = event.error.map { error($0) }
                return .object(object)
            }
        ).serialize()
    }

    private static func error(_ error: ReplicationError) -> JSONValue {
        var object = JSONObject()
        object["domain"] = .string(error.domain.rawValue)
        object["code"] = JSONOutput.number(error.code)
        object["public_code"] = JSONOutput.number(error.publicCode)
        object["message"] = .string(error.message)
        object["is_transient"] = .bool(error.isTransient)
        object["remedy"] = error.remedy.map { JSONValue.string($0) }
        return .object(object)
    }
}
