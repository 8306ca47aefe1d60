import DocumentStore
import Interfaces
import PluginHost
import Replication

/// `/metrics`: the agent's figures in Prometheus' text format.
extension Agent {
    package nonisolated func metrics() async -> String {
        var text = PrometheusText()
        text.add(.gauge, "nightjar_build_info", "The version that runs.", [("version", AgentVersion.number)], 1)
        text.add(.gauge, "nightjar_uptime_seconds", "Since the start.", [], Double(uptimeNanoseconds) / 1e9)
        text.add(.gauge, "process_resident_memory_bytes", "Resident memory.", [], System.memory.resident)
        text.add(.gauge, "nightjar_peak_resident_memory_bytes", "The most that was ever resident since the start.", [], System.peakMemory)
        text.add(.gauge, "nightjar_peer_memory_bytes", "Held for peers, of limits.memory.", [], memory.used)
        text.add(.gauge, "nightjar_peer_memory_limit_bytes", "limits.memory.", [], memory.limit)
        for database in databases { await Self.add(database, disks.place(database.name), to: &text) }
        for listener in listeners {
            let labels = [("listener", listener.settings.name.value)]
            let peers = listener.peers
            text.add(
                .gauge, "nightjar_listener_up", "1 while it listens; 0 while it waits for its port, or an operator stopped it.", labels,
                listener.binding.condition.word == "listening" ? 1 : 0)
            text.add(.gauge, "nightjar_listener_connections", "Connected peers.", labels, peers.count)
            text.add(.gauge, "nightjar_listener_active_connections", "Peers that are sending or being sent something.", labels, peers.count { $0.isActive })
            text.add(
                .counter, "nightjar_listener_evictions_total", "Connections of peers that were ended because limits.memory was used up.", labels,
                listener.refusals.evicted)
            let shortages = listener.answerShortages.totals
            text.add(
                .counter, "nightjar_listener_answers_cut_total",
                "Answers of CouchDB's API that were cut, because their clients did not read them and others needed memory.", labels, shortages.cut)
            text.add(
                .counter, "nightjar_listener_answers_refused_total", "Requests to CouchDB's API that were refused after waiting for memory.", labels,
                shortages.refused)
            for name in Subprotocol.names {
                text.add(
                    .gauge, "nightjar_listener_connections_by_protocol", "Connected peers, by protocol.", labels + [("protocol", name)],
                    peers.count { $0.subprotocol.utf8.elementsEqual(name.utf8) })
            }
            text.add(
                .counter, "nightjar_logins_refused_total", "Failed logins since the start, including those on the admin port.", labels,
                refusedLogins.count(listener.settings.name.value))
            Self.add(listener.deltas, labels, to: &text)
            if let security = listener.security {
                text.add(
                    .gauge, "nightjar_listener_certificate_expires_seconds", "End of its certificate, since 1970.", labels,
                    security.identity.current.leaf.notAfter)
            }
        }
        if settings.admin != nil {
            text.add(
                .counter, "nightjar_logins_refused_total", "Failed logins since the start, including those on the admin port.",
                [("listener", RefusedLogins.adminPort)], refusedLogins.count(RefusedLogins.adminPort))
        }
        let security = shared.withLock { $0.replicatorSecurity }
        for replicator in replicators { await Self.add(replicator, security[replicator.configuration.name], pendingCounts, now: environment.time.wallSeconds(), to: &text) }
        for plugin in plugins?.status() ?? [] { Self.add(plugin, to: &text) }
        addFleet(to: &text)
        for listener in listeners { Self.addDocuments(of: listener, to: &text) }
        await addAttention(to: &text)
        meters.write(to: &text)
        return text.text
    }

    private static func add(_ database: Database, _ place: DiskGuard.Place?, to text: inout PrometheusText) async {
        text.add(.gauge, "nightjar_database_size_bytes", "The file and its log, without blobs.", [("database", database.name)], database.sizeBytes())
        text.add(
            .counter, "nightjar_large_documents_total", "Documents that were stored with more than warn_document_bytes, since the database was opened.",
            [("database", database.name)], database.largeDocuments.stored)
        let commits = database.commitTimes
        text.add(
            "nightjar_database_commit_duration_seconds", "Time until the writes of a commit were durable on the disk.", [("database", database.name)],
            buckets: commits.buckets, sum: commits.seconds)
        if let place {
            // While the blobs are still being counted, the number would be too small.
            if place.usage.areBlobsKnown {
                text.add(.gauge, "nightjar_database_held_bytes", "Documents and blobs, as they count for the quota.", [("database", database.name)], place.usage.heldBytes)
            }
            if let quota = place.quota { text.add(.gauge, "nightjar_database_quota_bytes", "The quota, if it has one.", [("database", database.name)], quota) }
        }
        if let space = DiskSpace(of: database.folder) {
            text.add(.gauge, "nightjar_disk_free_bytes", "Free on the disk of the database.", [("database", database.name)], space.free)
            text.add(.gauge, "nightjar_disk_size_bytes", "Size of the disk of the database.", [("database", database.name)], space.total)
        }
        for collection in (try? await database.statistics()) ?? [] {
            let labels = [("database", database.name), ("collection", collection.name.description)]
            text.add(.gauge, "nightjar_documents", "Documents, without deleted ones.", labels, collection.documents)
            text.add(.gauge, "nightjar_documents_deleted", "Tombstones.", labels, collection.deleted)
            text.add(.gauge, "nightjar_last_sequence", "Number of the last change.", labels, collection.lastSequence)
            text.add(.gauge, "nightjar_conflicts_pending", "Conflicts that wait for their resolver.", labels, collection.conflictsPending)
            text.add(.gauge, "nightjar_documents_held", heldHelp, labels, collection.held)
            text.add(.gauge, "nightjar_documents_unrouted", "Documents that sync could not put into channels.", labels, collection.unrouted)
        }
    }

    /// Documents that a listener's peers do not get, or could not take.
    private static func addDocuments(of listener: PeerListener, to text: inout PrometheusText) {
        let labels = [("listener", listener.settings.name.value)]
        text.add(.gauge, "nightjar_documents_held", heldHelp, labels, listener.heldDocuments.count)
        let refused = listener.refusedByPeers
        text.add(.gauge, "nightjar_documents_refused", refusedHelp, labels, refused.refusals.count + refused.more)
    }

    private static let heldHelp =
        "Documents that are held because a filter failed, they are too large or a blob cannot be taken: for replicators, by database and collection; for the peers of a listener, by listener."
    private static let refusedHelp = "Documents that the peer refused: of a replicator, or peers of a listener, since its start."

    private static func add(
        _ replicator: Replicator, _ security: ReplicatorSecurity?, _ pending: PendingCounts, now: Int64, to text: inout PrometheusText
    ) async {
        let labels = [("replicator", replicator.configuration.name)]
        let status = replicator.status
        text.add(.gauge, "nightjar_replicator_activity", "1 for what it does now.", labels + [("activity", status.activity.rawValue)], 1)
        if let name = status.peerProtocol {
            text.add(.gauge, "nightjar_replicator_protocol", "1 for the protocol of its last connection.", labels + [("protocol", name)], 1)
        }
        text.add(.gauge, "nightjar_replicator_attempt", "Failed attempts to connect in a row.", labels, status.attempt)
        text.add(.gauge, "nightjar_replicator_error", "1 while the last attempt's error stands.", labels, status.error == nil ? 0 : 1)
        let lifetime = replicator.lifetime
        text.add(.gauge, "nightjar_replicator_waiting", "Documents that the peer cannot accept or provide at the moment.", labels, replicator.waiting.all.count)
        // If the store cannot be read, 0 would mean that all is well.
        if let refused = try? await replicator.refusedCount() { text.add(.gauge, "nightjar_documents_refused", refusedHelp, labels, refused) }
        if let notTaken = try? await replicator.notTaken().count {
            text.add(.gauge, "nightjar_documents_not_taken", "Documents of the peer that cannot be stored here as they are.", labels, notTaken)
        }
        text.add(
            .gauge, "nightjar_replicator_push_refused", "1 while the peer accepts nothing from us.", labels, status.refusals.push == nil ? 0 : 1)
        text.add(
            .gauge, "nightjar_replicator_checkpoint_refused", "1 while the peer keeps no checkpoint of ours.", labels,
            status.refusals.checkpoint == nil ? 0 : 1)
        text.add(.gauge, "nightjar_replicator_pull_waits", "1 while its pull has no room here.", labels, status.refusals.space == nil ? 0 : 1)
        // A replicator that is idle and connected is in sync now, however long ago anything happened; unless the peer refuses our documents.
        if let last = status.activity == .idle && status.refusals.behind == nil ? now : status.lastSuccess {
            text.add(.gauge, "nightjar_replicator_last_success_seconds", "When it was last done or idle, since 1970.", labels, last)
        }
        text.add(.gauge, "nightjar_replicator_suspended", "1 while it is suspended.", labels, status.isSuspended ? 1 : 0)
        text.add(
            .counter, "nightjar_replicator_silence_checks_total", "Times that the peer was asked whether an idle connection had missed something.", labels,
            status.silence.checks)
        text.add(
            .counter, "nightjar_replicator_silence_reconnects_total", "Times that it had, and a new connection was made.", labels,
            status.silence.reconnects)
        text.add(.counter, "nightjar_replicator_sent_bytes_total", "Bytes of messages sent, in all runs.", labels, lifetime.bytesSent)
        text.add(.counter, "nightjar_replicator_received_bytes_total", "Bytes of messages received, in all runs.", labels, lifetime.bytesReceived)
        text.add(.counter, "nightjar_replicator_sent_blob_bytes_total", "Bytes of blobs sent, in all runs.", labels, lifetime.blobBytesSent)
        text.add(.counter, "nightjar_replicator_received_blob_bytes_total", "Bytes of blobs received, in all runs.", labels, lifetime.blobBytesReceived)
        for direction in ["push", "pull"] {
            let blobs = status.blobs.filter { $0.direction.rawValue == direction }
            let left: UInt64 = blobs.reduce(0) { $0 + $1.bytesLeft }
            let labels = labels + [("direction", direction)]
            text.add(.gauge, "nightjar_replicator_blobs_under_way", "Blobs that are being sent or received.", labels, blobs.count)
            text.add(.gauge, "nightjar_replicator_blob_bytes_left", "Bytes of them still missing, if their size is known.", labels, left)
        }
        if let pending = await pending.count(of: replicator) {
            text.add(
                .gauge, "nightjar_replicator_pending",
                "Changes that wait to be pushed; counted up to 10000 (pending_limit), among 50000 changes (pending_rows), in each collection, at most every 5 seconds.", labels, pending.count)
            text.add(
                .gauge, "nightjar_replicator_pending_is_capped", "1 where there are more changes than nightjar_replicator_pending says, or may be.", labels,
                pending.isCapped ? 1 : 0)
            text.add(.gauge, "nightjar_replicator_pending_bytes", "Bytes of the documents that wait to be pushed, as far as they are counted; without blobs.", labels, pending.bytes)
            text.add(
                .gauge, "nightjar_replicator_oldest_pending_seconds", "How long the oldest change waiting to be pushed has waited; 0 if none is waiting.", labels,
                pending.oldest.map { max(0, now - $0) } ?? 0)
        }
        text.add(.counter, "nightjar_replicator_pushed_total", "Documents sent, in all runs.", labels, lifetime.pushed)
        text.add(.counter, "nightjar_replicator_pulled_total", "Documents received, in all runs.", labels, lifetime.pulled)
        text.add(.counter, "nightjar_replicator_rejected_total", "Documents that a filter here rejected, in all runs.", labels, lifetime.rejected)
        text.add(.counter, "nightjar_replicator_held_total", "Times a document was held because a filter failed, it was too large, or a blob could not be taken, in all runs.", labels, lifetime.held)
        text.add(.counter, "nightjar_replicator_failed_total", "Times a document could not be moved, in all runs.", labels, lifetime.failed)
        text.add(
            .counter, "nightjar_replicator_access_removed_total", "Documents purged because the peer took away access to them, in all runs.", labels,
            lifetime.accessRemoved)
        text.add(
            .counter, "nightjar_replicator_conflicts_resolved_total",
            "Conflicts that were decided as they were pulled, in all runs; nightjar conflicts list has those decided later, or by hand, as well.", labels,
            lifetime.resolved)
        add(lifetime.deltas, labels, to: &text)
        text.add(
            .gauge, "nightjar_unsafe_skip_server_certificate_verification", "1 where any server certificate is accepted.", labels,
            security?.isUnsafe == true ? 1 : 0)
        if let server = security?.server {
            text.add(
                .gauge, "nightjar_replicator_server_certificate_expires_seconds", "End of the certificate of the server met last, since 1970.", labels,
                server.certificate.notAfter)
        }
    }

    private static func add(_ deltas: DeltaCounts, _ labels: [(String, String)], to text: inout PrometheusText) {
        for (state, count) in [
            ("requested", deltas.requested), ("sent", deltas.sent), ("received", deltas.received), ("applied", deltas.applied),
            ("failed", deltas.failed),
        ] {
            text.add(.counter, "nightjar_deltas_total", "Changes sent as deltas, by outcome.", labels + [("state", state)], count)
        }
        text.add(.counter, "nightjar_delta_bytes_saved_total", "Bytes of bodies that did not have to be sent.", labels, deltas.bytesSaved)
        for (reason, count) in deltas.reasons {
            text.add(.counter, "nightjar_deltas_not_used_total", "Whole bodies sent, by reason.", labels + [("reason", reason)], count)
        }
    }

    private static func add(_ plugin: PluginStatus, to text: inout PrometheusText) {
        let labels = [("plugin", plugin.name)]
        text.add(
            .gauge, "nightjar_plugin_info", "1 for the version in force and its state.",
            labels + [("version", plugin.version ?? ""), ("state", plugin.state.rawValue)], 1)
        text.add(.gauge, "nightjar_plugin_generation", "Versions that came into force.", labels, plugin.generation)
        text.add(.gauge, "nightjar_plugin_refused", "1 while the version in the folder is refused.", labels, plugin.refused == nil ? 0 : 1)
        text.add(.gauge, "nightjar_plugin_failing_uses", "Uses that are not called because they keep failing.", labels, plugin.failing.count)
        text.add(.gauge, "nightjar_plugin_memory_bytes", "Held by its Lua states.", labels, plugin.memoryBytes)
        text.add(.gauge, "nightjar_plugin_states", "Its Lua states.", labels, plugin.states)
        let hits = plugin.limitHits
        for (limit, count) in [
            ("time", hits.timeouts), ("memory", hits.memory), ("result", hits.results), ("log_lines", hits.logLinesDropped),
        ] {
            text.add(.counter, "nightjar_plugin_limits_hit_total", "How often a limit was reached.", labels + [("limit", limit)], count)
        }
        for hook in plugin.perHook {
            let labels = labels + [("hook", hook.name)]
            text.add(.counter, "nightjar_plugin_calls_total", "Calls of a hook.", labels, hook.calls)
            text.add(.counter, "nightjar_plugin_rejected_total", "Calls that said no.", labels, hook.rejected)
            text.add(
                .counter, "nightjar_plugin_not_asked_total", "Documents that were held, or not reported, without a call: while the plugin kept failing, or because "
                    + "they came too fast for an observer.", labels,
                hook.notAsked)
            for (kind, count) in hook.errors {
                text.add(.counter, "nightjar_plugin_errors_total", "Calls that failed.", labels + [("kind", kind)], count)
            }
            text.add("nightjar_plugin_call_duration_seconds", "Time of a call.", labels, buckets: hook.durations, sum: hook.seconds)
        }
        for shadow in plugin.shadows {
            let labels = labels + [("place", shadow.place), ("beside", shadow.beside)]
            for (outcome, count) in [
                ("same", shadow.total.same), ("different", shadow.total.different), ("failed", shadow.total.failed),
                ("skipped", shadow.total.skipped),
            ] {
                text.add(
                    .counter, "nightjar_plugin_shadow_total", "Comparisons of a candidate with the plugin that serves, by what they have shown.",
                    labels + [("outcome", outcome)], count)
            }
        }
    }
}
