import AgentConfiguration
import Documents
import DocumentStore
import Environment
import Interfaces
import PluginHost
import Replication

/// The agent's status as JSON, in a shape that tools rely on.
extension Agent {
    package nonisolated func statusReport() async -> JSONValue {
        let attention = await attention()
        var databases: [JSONValue] = []
        for database in self.databases {
            databases.append(await Self.report(database, disks.place(database.name), await resyncs.report(database.name)))
        }
        return JSONOutput.object([
            "version": .string(AgentVersion.number),
            "started_at": .string(Timestamp.format(startedAt)),
            "uptime_seconds": JSONOutput.number(Double(uptimeNanoseconds / 1_000_000) / 1_000),
            "resident_bytes": JSONOutput.number(System.memory.resident),
            "peak_resident_bytes": JSONOutput.number(System.peakMemory),
            "descriptors": JSONOutput.object([
                "limit": JSONOutput.number(descriptors.limit), "reserve": JSONOutput.number(descriptors.reserve),
                "open_blobs": JSONOutput.number(openBlobs.count), "max_open_blobs": JSONOutput.number(openBlobs.limit),
                "open": DescriptorBudget.open().map { JSONOutput.number($0) } ?? .null,
            ]),
            "ready": .bool(isReady),
            "configuration": configurationReport(),
            "databases": .array(databases),
            "listeners": .array(listeners.map { report($0, attention) }),
            "replicators": .array(await replicatorReports(attention)),
            "plugins": .array((plugins?.status() ?? []).map { report($0) }),
            "health": .string(Self.word(attention)),
            "attention": .array(attention.map { Self.report($0) }),
            "fleet": fleetReport(),
            // Settings that were changed, by a reload or by the fleet, and take effect at the next restart.
            "at_next_start": .array(waitingForStart.map { .string($0) }),
            "plugin_folder_problems": .array((plugins?.folderProblems() ?? []).map { .string($0.description) }),
        ])
    }

    /// The file that a reload and the next start read, and whether that would change anything; null without a file.
    private nonisolated func configurationReport() -> JSONValue {
        let settings = settings
        guard let file = settings.file else { return .null }
        return JSONOutput.object([
            "file": .string(AbsolutePath.make(file)), "in_force": .bool(nextStart.matchesRunningConfiguration(settings)),
        ])
    }

    package nonisolated func replicatorReports() async -> [JSONValue] { await replicatorReports(nil) }

    /// - Parameter attention: the agent's list; if nil, each replicator is asked.
    private nonisolated func replicatorReports(_ attention: [Attention]?) async -> [JSONValue] {
        var reports: [JSONValue] = []
        for replicator in replicators { reports.append(await report(replicator, attention)) }
        return reports
    }

    nonisolated func report(_ replicator: Replicator, _ attention: [Attention]? = nil) async -> JSONValue {
        let name = replicator.configuration.name
        var mine: [Attention]
        if let attention {
            mine = attention.filter { $0.concerns("replicator \(name)") }
        } else {
            mine = await self.attention(of: replicator)
        }
        mine += await conflictsBlockingPush(of: replicator)
        return await Self.report(
            replicator, shared.withLock { $0.replicatorSecurity[name] }, staysStopped: records.read(name).isStopped,
            resumesAt: resumption(of: replicator, now: environment.time.wallSeconds()), bandwidth: settings.replicator(named: name)?.bandwidth,
            now: environment.time.wallSeconds(), attention: mine)
    }

    private static func report(_ database: Database, _ place: DiskGuard.Place?, _ resync: Resync?) async -> JSONValue {
        let statistics = (try? await database.statistics()) ?? []
        let history = (try? await database.read { try $0.conflictHistoryCounts() }) ?? ConflictHistoryCounts()
        let held: JSONValue = place.flatMap { $0.usage.areBlobsKnown ? JSONOutput.number($0.usage.heldBytes) : nil } ?? .null
        let blobs: JSONValue = place.flatMap { $0.usage.areBlobsKnown ? JSONOutput.number($0.usage.blobBytes) : nil } ?? .null
        let quota: JSONValue = place?.quota.map { JSONOutput.number($0) } ?? .null
        return JSONOutput.object([
            "name": .string(database.name),
            "folder": .string(database.folder),
            // The database file and its WAL; then the blobs, null while they are still being counted.
            "size_bytes": JSONOutput.number(database.sizeBytes()), "blob_bytes": blobs,
            // What counts towards the quota: pages in use and blobs, not free pages in the file. Null while the blobs are still being counted.
            "held_bytes": held, "quota_bytes": quota,
            "collections": .array(
                statistics.map { collection in
                    JSONOutput.object([
                        "name": .string(collection.name.description),
                        "documents": JSONOutput.number(collection.documents),
                        "deleted": JSONOutput.number(collection.deleted),
                        "last_sequence": JSONOutput.number(collection.lastSequence),
                        "conflicts_pending": JSONOutput.number(collection.conflictsPending),
                        "held": JSONOutput.number(collection.held),
                        "unrouted": JSONOutput.number(collection.unrouted),
                    ])
                }),
            "conflicts_pending": JSONOutput.number(statistics.reduce(0) { $0 + $1.conflictsPending }),
            "held": JSONOutput.number(statistics.reduce(0) { $0 + $1.held }),
            "unrouted": JSONOutput.number(statistics.reduce(0) { $0 + $1.unrouted }),
            // The last resync since the start.
            "resync": resync?.figuresJSON ?? .null,
            "conflicts_decided": ConflictReports.json(history),
            "damaged_documents": .array(
                database.damagedDocuments.map {
                    JSONOutput.object([
                        "collection": .string($0.collection.description), "id": .string($0.id.text), "problem": .string($0.detail),
                    ])
                }),
            "has_more_problems": .bool(database.hasMoreProblems),
            "has_versions": .bool(database.hasVersions),
        ])
    }

    /// `held_in_status`: how many documents that wait for a plugin a status names for each peer.
    private static let heldShown = 20

    nonisolated func report(_ listener: PeerListener, _ attention: [Attention]? = nil) -> JSONValue {
        let subject = "listener \(listener.settings.name.value)"
        let attention = attention?.filter { $0.concerns(subject) } ?? self.attention(of: listener)
        let peers = listener.peers
        let refused = listener.refusedByPeers
        let names = listener.settings.databases.map(\.value)
        let activity = listener.binding.condition
        return JSONOutput.object([
            "name": .string(listener.settings.name.value),
            "activity": .string(activity.word),
            // Why it is not listening, and when it will try again.
            "error": activity.error.map { Self.report($0) } ?? .null,
            "next_attempt_at": JSONOutput.text(activity.nextAttempt.map { Timestamp.format($0) }),
            "urls": .array(
                listener.addresses.flatMap { address in
                    listener.settings.endpoint != nil ? [JSONValue.string(address)] : names.map { .string("\(listener.security == nil ? "ws" : "wss")://\(address)/\($0)") }
                }),
            "port": JSONOutput.number(listener.port),
            // The name under which it is announced on the local network; null if it is not.
            "announced_as": JSONOutput.text(
                announcer.isAnnounced(listener.settings.announcedName) && listener.settings.advertise.value != .no ? listener.settings.announcedName : nil),
            "tls": listener.security.map { Self.report($0.identity) } ?? .null,
            "connections": JSONOutput.number(peers.count),
            "max_connections": JSONOutput.number(listener.maxConnections),
            "active_connections": JSONOutput.number(peers.count { $0.isActive }),
            // The bandwidth of the connections, all together and each, in bytes per second; null for no limit.
            "bandwidth": Self.report(listener.settings.bandwidth),
            "connection_bandwidth": Self.report(listener.settings.connectionBandwidth),
            "attention": .array(attention.map { .string($0.what) }),
            "held": JSONOutput.number(listener.heldDocuments.count),
            // Documents that peers refused when they pulled.
            "refused_by_peers": .array(
                refused.refusals.sorted { $0.key < $1.key }.prefix(RefusedByPeers.shown).map { key, refusal in
                    JSONOutput.object([
                        "peer": .string(key.peer), "database": .string(key.database), "collection": .string(key.collection.description),
                        "id": .string(key.id.text), "error": Self.report(refusal.error), "since": .string(Timestamp.format(refusal.since)),
                    ])
                }),
            "more_refused_by_peers": JSONOutput.number(refused.more + max(0, refused.refusals.count - RefusedByPeers.shown)),
            // Clients of CouchDB's API that follow the changes; they do not count as connections.
            "feeds": .array(listener.feeds.map(\.report)),
            "peers": .array(
                peers.map { peer in
                    JSONOutput.object([
                        "address": .string(peer.address),
                        "user": JSONOutput.text(peer.user),
                        "since": .string(Timestamp.format(peer.since)),
                        "database": .string(peer.database),
                        "correlation_id": JSONOutput.text(peer.correlationID),
                        "protocol": .string(peer.subprotocol),
                        "tls": JSONOutput.text(peer.tls),
                        "certificate": peer.certificate.map { Self.report($0) } ?? .null,
                        "active": .bool(peer.isActive),
                        // Seconds since it was last idle, with everything exchanged.
                        "lag_seconds": peer.lag(now: environment.time.wallSeconds()).map { JSONOutput.number($0) } ?? .null,
                        "sent_bytes": JSONOutput.number(peer.counts.bytesSent),
                        "received_bytes": JSONOutput.number(peer.counts.bytesReceived),
                        "pulled_by_peer": JSONOutput.number(peer.counts.pushed),
                        "pushed_by_peer": JSONOutput.number(peer.counts.pulled),
                        "delta": Self.report(peer.counts.deltas),
                        "held": .array(
                            peer.stalls.prefix(Self.heldShown).map { held in
                                JSONOutput.object([
                                    "collection": .string(held.collection.description), "id": .string(held.id.text),
                                    "plugin": .string(held.failure.plugin), "error": .string(held.failure.message),
                                ])
                            }),
                        "more_held": JSONOutput.number(max(0, peer.stalls.count - Self.heldShown)),
                    ])
                }),
        ])
    }

    /// In the same form as `nightjar replicate` reports its own.
    package static func report(_ replicator: Replicator) async -> JSONValue {
        await report(replicator, nil, staysStopped: false, resumesAt: nil, bandwidth: nil, now: 0, attention: [])
    }

    private static func report(
        _ replicator: Replicator, _ security: ReplicatorSecurity?, staysStopped: Bool, resumesAt: Int64?, bandwidth: BandwidthSettings?, now: Int64,
        attention: [Attention]
    ) async -> JSONValue {
        let configuration = replicator.configuration
        let status = replicator.status
        let held = (try? await replicator.heldCount()) ?? 0
        let pending = (try? await replicator.pendingEstimate()) ?? Replicator.Pending()
        let refused = (try? await replicator.refusedCount()) ?? 0
        let notTaken = (try? await replicator.notTaken().count) ?? 0
        let tooLarge = (try? await replicator.tooLarge()) ?? Replicator.TooLarge()
        return JSONOutput.object([
            "name": .string(configuration.name),
            "database": .string(configuration.database.name),
            "target": .string(configuration.shownTarget),
            "remote_id": JSONOutput.text(configuration.remoteID),
            // For a group target: the listener that it is connected to, or was last.
            "remote": JSONOutput.text(configuration.chosenRemote),
            "type": .string(configuration.type.rawValue),
            "continuous": .bool(configuration.isContinuous),
            "activity": .string(status.activity.rawValue),
            // When it entered its present activity.
            "since": .string(Timestamp.format(status.since)),
            "stopped_by_operator": .bool(staysStopped),
            // What needs attention, even while it is connected and idle.
            "attention": .array(attention.map { .string($0.what) }),
            // The counts from progress to conflicts_resolved are for this run; those for all runs are in lifetime and in /metrics.
            "counts_since": .string(Timestamp.format(replicator.startedAt)),
            "progress": JSONOutput.object([
                "completed": JSONOutput.number(status.counts.completed), "total": JSONOutput.number(status.counts.total),
            ]),
            // As in Couchbase Lite 1.x: starts from zero whenever an idle replicator becomes busy.
            "completed_changes_count": JSONOutput.number(status.burst.completed),
            "changes_count": JSONOutput.number(status.burst.total),
            "pushed": JSONOutput.number(status.counts.pushed),
            "pulled": JSONOutput.number(status.counts.pulled),
            // Documents that a local filter rejected.
            "rejected": JSONOutput.number(status.counts.rejected),
            // Attempts that failed: a document that fails again counts again.
            "failed": JSONOutput.number(status.counts.failed),
            // Documents that were purged here because the peer withdrew access to them.
            "access_removed": JSONOutput.number(status.counts.accessRemoved),
            "conflicts_resolved": JSONOutput.number(status.counts.resolved),
            "pending": JSONOutput.number(pending.count),
            // Counting stopped at a limit; the true number is greater.
            "pending_is_capped": .bool(pending.isCapped),
            // For the counted documents, without blobs.
            "pending_bytes": JSONOutput.number(pending.bytes),
            // Seconds that the oldest of them has waited; null if none waits, or it has only just arrived.
            "oldest_pending_seconds": pending.oldest.map { JSONOutput.number(max(0, now - $0)) } ?? .null,
            // Documents held at the moment: a filter failed, they are too large, or a blob cannot be obtained.
            "held": JSONOutput.number(held),
            // Documents that the peer refuses at the moment.
            "refused": JSONOutput.number(refused),
            // Documents of the peer that cannot be stored here as they are; those that are too large are counted apart.
            "not_taken": JSONOutput.number(notTaken),
            // Documents of the peer that were larger than the limits here allowed; they are requested again once the agent runs with a larger
            // limits.memory.
            "too_large": JSONOutput.number(tooLarge.count),
            // There are more, whose ids are not recorded; they are requested again as well.
            "too_large_is_capped": .bool(tooLarge.isCapped),
            // The least limits.memory, in bytes, for all of them for which it is known.
            "too_large_needs": tooLarge.neededMemory.map { JSONOutput.number($0) } ?? .null,
            // Documents that were too large for earlier limits, and are requested again with these.
            "asked_again": JSONOutput.number(tooLarge.awaited),
            "attempt": JSONOutput.number(status.attempt),
            "next_retry_at": JSONOutput.text(status.retryInSeconds.map { Timestamp.format(status.since + Int64($0)) }),
            "last_success_at": JSONOutput.text(status.lastSuccess.map { Timestamp.format($0) }),
            // Seconds since both sides were last known to hold the same.
            "lag_seconds": status.lag(now: now).map { JSONOutput.number($0) } ?? .null,
            "bytes_sent": JSONOutput.number(status.counts.bytesSent),
            "bytes_received": JSONOutput.number(status.counts.bytesReceived),
            // Its bandwidth in bytes per second; null for no limit.
            "bandwidth": report(bandwidth),
            "blob_bytes_sent": JSONOutput.number(status.counts.blobBytesSent),
            "blob_bytes_received": JSONOutput.number(status.counts.blobBytesReceived),
            // Blobs that are partly transferred.
            "blobs_under_way": .array(status.blobs.map { report($0) }),
            // For all runs, including those before a restart.
            "lifetime": ReplicatorRecord.report(replicator.lifetime),
            "delta": report(status.counts.deltas),
            "correlation_id": JSONOutput.text(status.correlationID),
            // The protocol of the present connection, or of the last one in this run.
            "protocol": JSONOutput.text(status.peerProtocol),
            "suspended": .bool(status.isSuspended),
            // According to its schedule; null if an operator suspended it.
            "resumes_at": JSONOutput.text(resumesAt.map { Timestamp.format($0) }),
            "silence": JSONOutput.object([
                "checks": JSONOutput.number(status.silence.checks), "reconnects": JSONOutput.number(status.silence.reconnects),
            ]),
            "tls": security.map { report($0) } ?? .null,
            "error": status.error.map { report($0) } ?? .null,
            // What the peer refuses while the rest goes on: it takes no documents from us, or stores no checkpoint for us.
            "push_refused": status.refusals.push.map { report($0) } ?? .null,
            // There is no disk space here for what the peer has; pushing goes on.
            "pull_waits": status.refusals.space.map { report($0, remedy: roomRemedy) } ?? .null,
            "checkpoint_refused": status.refusals.checkpoint.map { report($0) } ?? .null,
            // When the remote was last found at an earlier sequence than before, as after a restore from a backup.
            "remote_went_back": status.wentBack.map { report($0) } ?? .null,
        ])
    }

    private static func report(_ bandwidth: BandwidthSettings?) -> JSONValue {
        guard let bandwidth else { return .null }
        return JSONOutput.object([
            "send": bandwidth.send.map { JSONOutput.number($0) } ?? .null, "receive": bandwidth.receive.map { JSONOutput.number($0) } ?? .null,
        ])
    }

    static func report(_ wentBack: RemoteWentBack) -> JSONValue {
        JSONOutput.object([
            "at": .string(Timestamp.format(wentBack.time)), "message": .string(wentBack.message), "comparing": .bool(wentBack.isComparing),
            "times": JSONOutput.number(Int64(wentBack.times)),
        ])
    }

    private static func report(_ blob: BlobUnderWay) -> JSONValue {
        JSONOutput.object([
            "direction": .string(blob.direction.rawValue), "id": JSONOutput.text(blob.document?.text), "blob": .string(blob.name),
            "bytes": JSONOutput.number(blob.bytes), "size": blob.size.map { JSONOutput.number($0) } ?? .null,
        ])
    }

    private static func report(_ deltas: DeltaCounts) -> JSONValue {
        JSONOutput.object([
            "requested": JSONOutput.number(deltas.requested), "sent": JSONOutput.number(deltas.sent),
            "received": JSONOutput.number(deltas.received), "applied": JSONOutput.number(deltas.applied),
            "failed": JSONOutput.number(deltas.failed), "bytes_saved": JSONOutput.number(deltas.bytesSaved),
            "not_used": .object(JSONObject(deltas.reasons.map { .init(key: $0.name, value: JSONOutput.number($0.count)) })),
        ])
    }

    /// For a pull that lacks disk space.
    static let roomRemedy = "make room: \(RoomRemedy.purge), remove what is not the agent's from the disk, or raise the database's quota; "
        + "the pull goes on by itself then, and pushing goes on meanwhile"

    static func report(_ error: ReplicationError, remedy: String? = nil) -> JSONValue {
        JSONOutput.object([
            "domain": .string(error.domain.rawValue),
            "code": JSONOutput.number(error.code),
            "public_code": JSONOutput.number(error.publicCode),
            "message": .string(error.message),
            "transient": .bool(error.isTransient),
            "kind": .string(error.kind.rawValue),
            "remedy": JSONOutput.text(remedy ?? error.remedy),
        ])
    }
}
