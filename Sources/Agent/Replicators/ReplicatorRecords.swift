import Documents
import Encodings
import Environment
import Glibc
import Replication
import Synchronization

/// What is kept about a replicator across restarts.
struct ReplicatorRecord: Sendable, Equatable {
    /// An operator stopped it, and wants it to stay stopped.
    var isStopped = false
    /// When that was (seconds since 1970); nil if it was not, or with an earlier version.
    var stoppedAt: Int64?
    /// An operator wants it to start over, and it has not come to that.
    var owesReset = false
    /// For all runs.
    var counts = ReplicationCounts()
    /// Seconds since 1970.
    var lastSuccess: Int64?
    /// `enable_auto_purge` at its last start; nil before the first.
    var autoPurge: Bool?
    var wentBack: RemoteWentBack?

    private static let counters: [(String, any WritableKeyPath<ReplicationCounts, UInt64> & Sendable)] = [
        ("pushed", \.pushed), ("pulled", \.pulled), ("rejected", \.rejected), ("failed", \.failed), ("held", \.held), ("resolved", \.resolved),
        ("access_removed", \.accessRemoved),
        ("bytes_sent", \.bytesSent), ("bytes_received", \.bytesReceived),
        ("blob_bytes_sent", \.blobBytesSent), ("blob_bytes_received", \.blobBytesReceived),
        ("deltas_requested", \.deltas.requested), ("deltas_sent", \.deltas.sent), ("deltas_received", \.deltas.received),
        ("deltas_applied", \.deltas.applied), ("deltas_failed", \.deltas.failed), ("delta_bytes_saved", \.deltas.bytesSaved),
        ("deltas_without_base", \.deltas.withoutBase), ("deltas_not_open", \.deltas.notOpen), ("deltas_not_smaller", \.deltas.notSmaller),
        ("deltas_unfit", \.deltas.unfit), ("deltas_without_memory", \.deltas.withoutMemory), ("deltas_refused", \.deltas.refused),
    ]

    init() {}

    /// Anything that is not a record of this version counts as empty.
    init(json: JSONValue) {
        isStopped = json["stopped"]?.asBool ?? false
        stoppedAt = json["stopped_at"]?.asInt64
        owesReset = json["owes_reset"]?.asBool ?? false
        lastSuccess = json["last_success"]?.asInt64
        autoPurge = json["enable_auto_purge"]?.asBool
        if let noted = json["remote_went_back"], let time = noted["time"]?.asInt64 {
            wentBack = RemoteWentBack(
                time: time, message: noted["message"]?.asString ?? "", isComparing: noted["comparing"]?.asBool ?? false,
                times: Int(clamping: max(1, noted["times"]?.asInt64 ?? 1)))
        }
        for (name, path) in Self.counters { counts[keyPath: path] = UInt64(clamping: json["counts"]?[name]?.asInt64 ?? 0) }
    }

    var json: JSONValue {
        JSONOutput.object([
            "stopped": .bool(isStopped), "stopped_at": stoppedAt.map { JSONOutput.number($0) } ?? .null, "owes_reset": .bool(owesReset), "last_success": lastSuccess.map { JSONOutput.number($0) } ?? .null, "counts": Self.report(counts),
            "enable_auto_purge": autoPurge.map { .bool($0) } ?? .null,
            "remote_went_back": wentBack.map {
                JSONOutput.object([
                    "time": JSONOutput.number($0.time), "message": .string($0.message), "comparing": .bool($0.isComparing),
                    "times": JSONOutput.number(Int64($0.times)),
                ])
            } ?? .null,
        ])
    }

    static func report(_ counts: ReplicationCounts) -> JSONValue {
        .object(JSONObject(counters.map { JSONObject.Member(key: $0.0, value: JSONOutput.number(counts[keyPath: $0.1])) }))
    }
}

/// The records of all replicators: a small file each in the data folder, written periodically and at the end. A crash loses a few minutes of
/// counts.
final class ReplicatorRecords: Sendable {
    /// `replicator_record_interval`: seconds between two checks for records to be written.
    static let seconds = 300
    /// `replicator_record_bytes`.
    private static let maximumBytes = 4_096

    private let folder: String
    private let written = Mutex([String: ReplicatorRecord]())

    init(dataFolder: String) {
        folder = "\(dataFolder)/replicators"
    }

    func read(_ name: String) -> ReplicatorRecord {
        if let known = written.withLock({ $0[name] }) { return known }
        let record = Self.bytes(of: path(name)).flatMap { try? JSONValue(stored: $0) }.map { ReplicatorRecord(json: $0) } ?? ReplicatorRecord()
        written.withLock { $0[name] = record }
        return record
    }

    /// - Throws: why it cannot be written; the old file then remains.
    func write(_ name: String, _ record: ReplicatorRecord) throws {
        guard read(name) != record else { return }
        try Folders.make(folder)
        try DurableFile.write(path(name), record.json.serialize(), writers: .thisProcess)
        written.withLock { $0[name] = record }
    }

    private func path(_ name: String) -> String { "\(folder)/\(PercentEncoding.encode(name)).json" }

    private static func bytes(of path: String) -> [UInt8]? {
        let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: maximumBytes)
        let count = bytes.withUnsafeMutableBytes { Glibc.read(file, $0.baseAddress, $0.count) }
        return count > 0 ? Array(bytes[..<count]) : nil
    }
}
