import AgentConfiguration
import Documents
import DocumentStore
import Interfaces
import PluginHost
import Replication

/// The status as JSON, in the shape that tools rely on.
extension Agent {
    public nonisolated func statusReport() async -> JSONValue {
        var databases: [JSONValue] = []
        for database in self.databases {
            databases.append(await Self.report(database))
        }
        return JSONOutput.object([
            "version": .string(AgentVersion.number),
            "started_at": .string(Timestamp.format(startedAt)),
            "uptime_seconds": JSONOutput.number(Double(uptimeNanoseconds / 1_000_000) / 1_000),
            "resident_bytes": JSONOutput.number(System.residentBytes),
            "descriptors": JSONOutput.object([
                "limit": JSONOutput.number(descriptors.limit), "reserve": JSONOutput.number(descriptors.reserve),
                "open": DescriptorBudget.open().map { JSONOutput.number($0) } ?? .null,
            ]),
            "ready": .bool(isReady),
            "databases": .array(databases),
            "listeners": .array(listeners.map { report($0) }),
            "replicators": .array(await replicatorReports()),
            "plugins": .array((plugins?.status() ?? []).map { Self.report($0) }),
            "problems": .array(await problems().map { .string($0) }),
            "plugin_folder_problems": .array((plugins?.folderProblems() ?? []).map { .string($0.description) }),
        ])
    }

    public nonisolated func replicatorReports() async -> [JSONValue] {
        var reports: [JSONValue] = []
        let security = shared.withLock { $0.replicatorSecurity }
        for replicator in replicators { reports.append(await report(replicator, security[replicator.configuration.name])) }
        return reports
    }

    nonisolated func report(_ replicator: Replicator) async -> JSONValue {
        await report(replicator, shared.withLock { $0.replicatorSecurity[replicator.configuration.name] })
    }

    private nonisolated func report(_ replicator: Replicator, _ security: ReplicatorSecurity?) async -> JSONValue {
        await Self.report(
            replicator, security, isKeptStopped: records.read(replicator.configuration.name).isStopped, now: environment.time.wallSeconds())
    }

    private static func report(_ database: Database) async -> JSONValue {
        let statistics = (try? await database.statistics()) ?? []
        let history = (try? await database.read { try $0.conflictHistoryCounts() }) ?? ConflictHistoryCounts()
        return JSONOutput.object([
            "name": .string(database.name),
            "folder": .string(database.folder),
            "size_bytes": JSONOutput.number(database.sizeBytes()),
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
            "conflicts_decided": ConflictReports.json(history),
            "damaged_documents": .array(
                database.damagedDocuments.map {
                    JSONOutput.object([
                        "collection": .string($0.collection.description), "id": .string($0.id.text), "problem": .string($0.detail),
                    ])
                }),
            "has_more_problems": .bool(database.hasMoreProblems),
        ])
    }

    /// Logins that its authenticator could not judge. A stranger can bring that about by a name, so it is told, and no matter of health.
    nonisolated func attention(of listener: PeerListener) -> [String] {
        let place = "listener \(listener.settings.name.value) authenticator: "
        return listener.attention + (plugins?.status() ?? []).flatMap { plugin in
            plugin.loginFailures.filter { $0.utf8.starts(with: place.utf8) }.map {
                "plugin \(plugin.name): a login could not be judged: \($0.dropFirst(place.count))"
            }
        }
    }

    /// `held_in_status`: documents that a status names of those that wait for a plugin, for each peer; and of a listener's in its health.
    private static let heldShown = 20

    nonisolated func report(_ listener: PeerListener) -> JSONValue {
        let attention = attention(of: listener)
        let peers = listener.peers
        let refused = listener.refusedByPeers
        let names = listener.settings.databases.map(\.value)
        return JSONOutput.object([
            "name": .string(listener.settings.name.value),
            "urls": .array(
                listener.addresses.flatMap { address in
                    listener.settings.endpoint != nil ? [JSONValue.string(address)] : names.map { .string("\(listener.security == nil ? "ws" : "wss")://\(address)/\($0)") }
                }),
            "port": JSONOutput.number(listener.port),
            "tls": listener.security.map { Self.report($0.identity) } ?? .null,
            "connections": JSONOutput.number(peers.count),
            "max_connections": JSONOutput.number(listener.maxConnections),
            "active_connections": JSONOutput.number(peers.count { $0.isActive }),
            "attention": .array(attention.map { .string($0) }),
            "rejected_by_peers": .array(
                refused.refusals.sorted { $0.key < $1.key }.prefix(RefusedByPeers.shown).map { key, refusal in
                    JSONOutput.object([
                        "peer": .string(key.peer), "database": .string(key.database), "collection": .string(key.collection.description),
                        "id": .string(key.id.text), "error": Self.report(refusal.error), "since": .string(Timestamp.format(refusal.since)),
                    ])
                }),
            "more_rejected_by_peers": JSONOutput.number(refused.more + max(0, refused.refusals.count - RefusedByPeers.shown)),
            "peers": .array(
                peers.map { peer in
                    JSONOutput.object([
                        "address": .string(peer.address),
                        "user": JSONOutput.text(peer.user),
                        "since": .string(Timestamp.format(peer.since)),
                        "database": .string(peer.database),
                        "protocol": .string(peer.subprotocol),
                        "tls": JSONOutput.text(peer.tls),
                        "certificate": peer.certificate.map { Self.report($0) } ?? .null,
                        "pulled_by_peer": JSONOutput.number(peer.counts.pushed),
                        "pushed_by_peer": JSONOutput.number(peer.counts.pulled),
                        "delta": Self.report(peer.counts.deltas),
                        "held": .array(
                            peer.standstills.prefix(Self.heldShown).map { held in
                                JSONOutput.object([
                                    "collection": .string(held.collection.description), "id": .string(held.id.text),
                                    "plugin": .string(held.failure.plugin), "error": .string(held.failure.message),
                                ])
                            }),
                        "more_held": JSONOutput.number(max(0, peer.standstills.count - Self.heldShown)),
                    ])
                }),
        ])
    }

    package static func report(
        _ replicator: Replicator, _ security: ReplicatorSecurity? = nil, isKeptStopped: Bool = false, now: Int64 = 0
    ) async -> JSONValue {
        let configuration = replicator.configuration
        let status = replicator.status
        let held = (try? await replicator.heldCount()) ?? 0
        let pending = (try? await replicator.pendingEstimate()) ?? Replicator.Pending()
        let refused = (try? await replicator.refusedCount()) ?? 0
        return JSONOutput.object([
            "name": .string(configuration.name),
            "database": .string(configuration.database.name),
            "target": .string(configuration.target),
            "type": .string(configuration.type.rawValue),
            "continuous": .bool(configuration.isContinuous),
            "activity": .string(status.activity.rawValue),
            "stopped_by_operator": .bool(isKeptStopped),
            // What somebody should look at, also while it is connected and idle.
            "attention": .array(await replicator.attention(held: held).map { .string($0) }),
            "progress": JSONOutput.object([
                "completed": JSONOutput.number(status.counts.completed), "total": JSONOutput.number(status.counts.total),
            ]),
            "pushed": JSONOutput.number(status.counts.pushed),
            "pulled": JSONOutput.number(status.counts.pulled),
            "rejected": JSONOutput.number(status.counts.rejected),
            "failed": JSONOutput.number(status.counts.failed),
            "conflicts_resolved": JSONOutput.number(status.counts.resolved),
            "pending": JSONOutput.number(pending.count),
            // Counting has stopped there; the true number is greater.
            "pending_is_capped": .bool(pending.isCapped),
            "held": JSONOutput.number(held),
            // Documents that the peer refused.
            "rejected_by_peer": JSONOutput.number(refused),
            "attempt": JSONOutput.number(status.attempt),
            "next_retry_at": JSONOutput.text(status.retryInSeconds.map { Timestamp.format(status.since + Int64($0)) }),
            "last_success_at": JSONOutput.text(status.lastSuccess.map { Timestamp.format($0) }),
            // How long ago both sides were last known to hold the same.
            "lag_seconds": status.lag(now: now).map { JSONOutput.number($0) } ?? .null,
            "bytes_sent": JSONOutput.number(status.counts.bytesSent),
            "bytes_received": JSONOutput.number(status.counts.bytesReceived),
            // Of all runs, those before a restart included.
            "lifetime": ReplicatorRecord.report(replicator.lifetime),
            "delta": report(status.counts.deltas),
            "tls": security.map { report($0) } ?? .null,
            "error": status.error.map { report($0) } ?? .null,
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

    static func report(_ error: ReplicationError) -> JSONValue {
        JSONOutput.object([
            "domain": .string(error.domain.rawValue),
            "code": JSONOutput.number(error.code),
            "public_code": JSONOutput.number(error.publicCode),
            "message": .string(error.message),
            "transient": .bool(error.isTransient),
            "kind": .string(error.kind.rawValue),
            "remedy": JSONOutput.text(error.remedy),
        ])
    }

    /// What somebody should look at: what is not healthy, and a configuration that was refused while the one before does its work.
    private nonisolated func problems() async -> [String] {
        let refused = shared.withLock { $0.refusedReload }.map {
            ["the configuration that was to be loaded was refused, and the one before is in force: \($0)"]
        }
        var reasons = (refused ?? []) + (await healthProblems()) + (await attention())
        for replicator in replicators {
            let (name, count) = (replicator.configuration.name, (try? await replicator.refusedCount()) ?? 0)
            if count > 0 {
                reasons.append(
                    "replicator \(name): the peer refuses \(count) \(count == 1 ? "document" : "documents") (nightjar replicator \(name) rejected)")
            }
        }
        for listener in listeners {
            let refused = listener.refusedByPeers
            guard let (key, first) = refused.refusals.min(by: { $0.key < $1.key }) else { continue }
            let count = refused.refusals.count + refused.more
            reasons.append(
                "listener \(listener.settings.name.value): \(count) \(count == 1 ? "document" : "documents") that peers could not store, such as "
                    + "\(key.id) of \(key.database) at \(key.peer): \(first.error)")
        }
        return reasons
    }

    /// Documents that peers refused, of all replicators. Told with the health, and no matter of it: a restart changes nothing.
    nonisolated func refusedDocuments() async -> Int {
        var count = 0
        for replicator in replicators { count += (try? await replicator.refusedCount()) ?? 0 }
        return count
    }

    /// Why the agent is not healthy, a reason each; empty when it is.
    public nonisolated func healthProblems() async -> [String] {
        guard isReady else { return ["the agent is starting or stopping"] }
        var reasons: [String] = []
        for database in databases {
            do { _ = try await database.read { try $0.lastSequence(database.collections[0]) } } catch {
                reasons.append("database \(database.name): \(error)")
            }
            reasons += database.fileProblems().map { "database \(database.name): \($0)" }
            for damaged in database.damagedDocuments {
                reasons.append("database \(database.name), collection \(damaged.collection): " +
                    "\(StoreError.documentDamaged(id: damaged.id, detail: damaged.detail))")
            }
            if database.hasMoreProblems {
                reasons.append(
                    "database \(database.name): more documents or blobs are damaged than the \(StoreLimits.damagedDocuments) of each that are "
                        + "named; mend those, restart the agent, and look again")
            }
        }
        for replicator in replicators {
            let status = replicator.status
            guard let error = status.error else { continue }
            let remedy = error.remedy.map { "; \($0)" } ?? ""
            if status.activity == .stopped {
                reasons.append("replicator \(replicator.configuration.name) stopped: \(error)\(remedy)")
            } else if !error.isTransient {
                reasons.append("replicator \(replicator.configuration.name) gets no further: \(error)\(remedy)")
            }
        }
        for replicator in replicators {
            reasons += replicator.waiting.summary().map { "replicator \(replicator.configuration.name): \($0)" }
        }
        for listener in listeners {
            let name = listener.settings.name.value
            var told: Set<String> = []
            for peer in listener.peers {
                for held in peer.standstills where told.insert("\(held.collection) \(held.id)").inserted && told.count <= Self.heldShown {
                    reasons.append(
                        "listener \(name): the push filter fails on document \(held.id) of \(held.collection), and peers "
                            + "do not get it until the plugin is mended: \(held.failure.message)")
                }
            }
            if told.count > Self.heldShown { reasons.append("listener \(name): the push filter fails on \(told.count - Self.heldShown) more documents") }
        }
        for plugin in plugins?.status() ?? [] where !plugin.usedBy.isEmpty {
            // One that is refused with a version before it is no matter of health: that one serves.
            if plugin.version == nil, let refused = plugin.refused { reasons.append("plugin \(plugin.name): \(refused.error)") }
            for failing in plugin.failing { reasons.append("plugin \(plugin.name): \(failing.usedBy) keeps failing: \(failing.error)") }
            if plugin.state == .missing { reasons.append("plugin \(plugin.name) is used and its file is gone; its last version serves") }
        }
        return reasons
    }
}
