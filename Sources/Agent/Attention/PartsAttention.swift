import Documents
import DocumentStore
import Encodings
import Environment
import Interfaces
import PluginHost
import Replication

/// What needs attention in replicators and listeners.
extension Agent {
    /// `offline_attention`: seconds without a connection after which even a transient error is reported.
    private static let offlineSeconds: Int64 = 600
    /// `pending_attention`: seconds without success after which documents waiting to be pushed are reported.
    private static let pendingSeconds: Int64 = 3_600
    /// `unanswered_attention`: seconds after which a peer is reported that owes an answer and has sent nothing. Well below `couch_patience`, after
    /// which a request of the CouchDB protocol times out.
    private static let unansweredSeconds: Int64 = 30

    nonisolated func attention(of replicator: Replicator) async -> [Attention] {
        let now = environment.time.wallSeconds()
        let record = records.read(replicator.configuration.name)
        // Documents that wait because of an operator or a schedule need no attention.
        let waits = record.isStopped || resumption(of: replicator, now: now) != nil
        return await Self.attention(of: replicator, isMeantToWait: waits, startedAt: startedAt, now: now)
            + [halted(record, replicator.configuration.name)].compactMap(\.self) + certificateAttention(of: replicator, now: now)
    }

    /// The operator who stopped or suspended it may have forgotten it, or be another one.
    private nonisolated func halted(_ record: ReplicatorRecord, _ name: String) -> Attention? {
        let subject = "replicator \(name)"
        if record.isStopped {
            return Attention(
                .replicatorKeptStopped, subject, since: record.stoppedAt,
                "stopped by an operator, and stays so even after the agent restarts (stop --keep)", remedy: "start with: nightjar replicator \(name) start")
        }
        func halt(_ what: String, until end: String, _ action: String) -> Attention {
            Attention(
                .replicatorHalted, subject, "\(what) by an operator, and nothing is replicated until it is \(end) or the agent restarts",
                remedy: "if nobody needs that any more: nightjar replicator \(name) \(action)")
        }
        return switch shared.withLock({ $0.replicatorHalts[name] }) {
        case .stopped: halt("stopped", until: "started", "start")
        case .suspended: halt("suspended", until: "resumed", "resume")
        case nil: nil
        }
    }

    static func attention(of replicator: Replicator, isMeantToWait: Bool, startedAt: Int64, now: Int64) async -> [Attention] {
        let name = replicator.configuration.name
        let subject = "replicator \(name)"
        var list = self.state(of: replicator, now: now) + goingBack(replicator, now: now)
        list += await unanswered(replicator, now: now)
        await replicator.reviewWaiting()
        list += replicator.waiting.summary().map { group in
            Attention(
                .documentsWaiting, subject, since: group.since, group.text,
                remedy: (group.isHere ? "the cause is here and not at the peer: nightjar doctor says what it is; " : "")
                    + "they are tried again; nightjar replicator \(name) pending lists them")
        }
        list += await held(by: replicator)
        if let refused = try? await replicator.refused(), refused.count > 0 {
            let time = await timeAwaited(by: replicator)
            list.append(
                Attention(
                    .documentsRefused, subject, since: refused.oldest, "the peer refuses \(Plural.count(refused.count, "document"))\(time)",
                    remedy: "nightjar replicator \(name) refused says which and why; once that is fixed there, "
                        + (replicator.configuration.isContinuous
                            ? "they are offered again by themselves, with each new connection and at least once an hour; at once with nightjar replicator \(name) retry-refused"
                            : "the next run offers them again: nightjar replicator \(name) start")))
        }
        let status = replicator.status
        if let error = status.refusals.push, status.activity != .stopped {
            list.append(
                Attention(
                    .documentsRefused, subject, since: status.behindSince.push, "the peer accepts nothing from us: \(error.cause)",
                    remedy: "let this login write there, or set type: pull, so that what is written here stays here; \(retriesOfPush(by: name))"))
        }
        if let error = status.refusals.space, status.activity != .stopped {
            list.append(Attention(.pullWaits, subject, since: status.behindSince.space, "the pull waits for room: \(error.cause)", remedy: roomRemedy))
        }
        let last = max(status.lastSuccess ?? 0, startedAt)
        if !isMeantToWait, ![.stopped, .idle].contains(status.activity), now - last >= pendingSeconds,
            let pending = try? await replicator.pendingEstimate(), pending.count > 0, (try? await replicator.owesPeer()) ?? true
        {
            let count = pending.isCapped ? "\(pending.count) or more changes" : Plural.count(pending.count, "change")
            list.append(
                Attention(
                    .documentsPending, subject, since: last, "\(count) waiting to be pushed for over an hour",
                    remedy: "nightjar replicator \(name) pending lists them"))
        }
        return list
    }

    /// What to say if the peer refuses versions because their time is in the future. Looked up only where such versions are known, because the list
    /// may be long.
    private static func timeAwaited(by replicator: Replicator) async -> String {
        let database = replicator.configuration.database
        guard database.versionsAhead != nil || database.fastestClock != nil, let waiting = try? await replicator.refusedUntil(), let last = waiting.last
        else { return "" }
        return ", \(waiting.count) of them because their versions are in the future: they are offered again by themselves, the last at \(Timestamp.format(last))"
    }

    /// Conflicts in the collections that a replicator pushes. The list also has them under their database; here they explain why edits are not
    /// pushed.
    nonisolated func conflictsBlockingPush(of replicator: Replicator) async -> [Attention] {
        let configuration = replicator.configuration
        guard configuration.type.pushes else { return [] }
        let pushed = configuration.collections.compactMap { configuration.database.collection($0.collection) }
        let waiting = (try? await configuration.database.read { transaction in try pushed.map { try transaction.pendingConflictCount($0) } }) ?? []
        let count = waiting.reduce(0) { $0 + $1.count }
        guard count > 0 else { return [] }
        return [
            Attention(
                .conflictsPending, "replicator \(configuration.name)", since: waiting.compactMap(\.since).min(),
                "\(Plural.count(count, "conflict")) \(count == 1 ? "waits" : "wait"), and nothing of such a document is pushed until it is decided",
                remedy: "nightjar conflicts list --pending says why")
        ]
    }

    private static func held(by replicator: Replicator) async -> [Attention] {
        let name = replicator.configuration.name
        let subject = "replicator \(name)"
        var list: [Attention] = []
        if let held = try? await replicator.held(by: .plugin), held.count > 0 {
            list.append(
                Attention(
                    .documentsHeld, subject, since: held.oldest, "\(Plural.count(held.count, "document")) held because a filter failed",
                    remedy: "fix the plugin; nightjar replicator \(name) held says which and why"))
        }
        // What cannot be provided because of a blob of ours is reported with that blob.
        if let held = try? await replicator.held(by: .blob, .pull), held.count > 0, let example = held.example {
            list.append(
                Attention(
                    .documentsHeld, "\(subject), blobs", since: held.oldest,
                    "\(Plural.count(held.count, "document")) held because a blob cannot be taken, such as document \(example.id) of \(example.collection): \(example.error)",
                    remedy: "if a limit is named, raise it in the configuration and nightjar reload, or make the blob smaller at the peer; if the peer lacks its "
                        + "bytes, have them stored there again (nightjar blob put), then nightjar replicator \(name) start; nightjar replicator \(name) held lists them"))
        }
        if let held = try? await replicator.held(by: .size, .pull), held.count > 0, let example = held.example {
            list.append(
                Attention(
                    .documentsHeld, "\(subject), sizes", since: held.oldest,
                    "\(Plural.count(held.count, "document")) held because \(held.count == 1 ? "it is" : "they are") larger than database \(replicator.configuration.database.name) takes, such as "
                        + "document \(example.id) of \(example.collection): \(example.error)",
                    remedy: "raise max_document_bytes of the database and nightjar reload, or make the document smaller at the peer; nightjar replicator \(name) held lists them"))
        }
        if let found = try? await replicator.notTaken(), found.count > 0, let example = found.example {
            let count = found.count >= replicator.notTakenLimit ? "\(found.count) or more documents" : Plural.count(found.count, "document")
            list.append(
                Attention(
                    .documentsNotTaken, "\(subject), refused", since: found.oldest,
                    "\(count) of the remote cannot be stored here, such as document \(example.id.text.prefix(100)) of \(example.collection): \(example.error)",
                    remedy: "nightjar replicator \(name) refused says which and why (direction pull); a document that changes there is requested again, and is no longer listed once "
                        + "it is deleted there; for what was purged there: nightjar replicator \(name) start --reset"))
        }
        if let found = try? await replicator.tooLarge(), found.count > 0 {
            let count = found.isCapped ? "\(found.count) or more documents" : Plural.count(found.count, "document")
            let example = found.example.map { ", such as document \($0.id) of \($0.collection)" } ?? ""
            list.append(
                Attention(
                    .documentsNotTaken, "\(subject), memory",
                    "\(count) of the remote not taken: too large for limits.memory when \(found.count == 1 ? "it" : "they") came\(example)",
                    remedy: "\(largerMemory(found.neededMemory)) and restart the agent, which then asks for what was not taken; or make it smaller at the peer; nightjar "
                        + "replicator \(name) held lists them, with the memory that each needs"))
        }
        return list
    }

    /// When a push is tried again at a peer that accepts nothing (`deferral`, `max_deferral`).
    static func retriesOfPush(by name: String) -> String {
        "it is tried again by itself, every five minutes at least; at once with nightjar replicator \(name) retry-refused"
    }

    /// What to set, rounded up to what people write.
    static func largerMemory(_ needed: Int?) -> String {
        needed.map { "set limits: { memory: \(MemoryBudget.settingText($0)) } here, or more," } ?? "set a larger limits: { memory } here"
    }

    /// Stopped by an error, making no progress, or without a connection for a long time.
    private static func state(of replicator: Replicator, now: Int64) -> [Attention] {
        let status = replicator.status
        guard let error = status.error else { return interruptions(of: replicator, now: now) }
        let name = replicator.configuration.name
        let subject = "replicator \(name)"
        let remedy = error.remedy.map { "\($0); then" } ?? "once this is fixed:"
        let start = "nightjar replicator \(name) start"
        if status.activity == .stopped {
            return [Attention(.replicatorStopped, subject, since: status.since, "stopped: \(error.cause)", remedy: "\(remedy) \(start)")]
        }
        let since = replicator.failing ?? status.since
        if !error.isTransient {
            return [
                Attention(
                    .replicatorFailing, subject, since: since, "gets no further: \(error.cause)", remedy: "\(remedy) it resumes by itself, or at once with \(start); if the configuration had to change: nightjar reload")
            ]
        }
        guard now - since >= offlineSeconds else { return interruptions(of: replicator, now: now) }
        let ever = status.lastSuccess == nil ? "has never been connected" : "is not connected"
        return [
            Attention(
                .replicatorOffline, subject, since: since, "\(ever): \(error)",
                remedy: "\(replicator.offlineRemedy); it goes on trying")
        ]
    }

    /// It gets connections, but each breaks before the work is done: the line is up but useless.
    private static func interruptions(of replicator: Replicator, now: Int64) -> [Attention] {
        guard replicator.status.activity != .stopped, let broken = replicator.interruptions, now - broken.since >= offlineSeconds else { return [] }
        return [
            Attention(
                .replicatorInterrupted, "replicator \(replicator.configuration.name)", since: broken.since,
                "\(Plural.count(broken.count, "connection")) broke before both sides were in sync",
                remedy: "check the line to \(replicator.configuration.shownTarget), and the log for why they end; it goes on trying")
        ]
    }

    /// It is busy, and will stay so until the peer answers.
    private static func unanswered(_ replicator: Replicator, now: Int64) async -> [Attention] {
        guard let since = await replicator.unansweredSince(), now - since >= unansweredSeconds else { return [] }
        let name = replicator.configuration.name
        return [
            Attention(
                .peerUnanswered, "replicator \(name)", since: since,
                "the peer has owed a reply since \(Timestamp.format(since)), but nothing of it has arrived (unanswered_attention, \(unansweredSeconds) s)",
                remedy: "look at \(replicator.configuration.shownTarget): it, or a proxy in front of it, hangs; nightjar replicator \(name) stop, then start, reconnects")
        ]
    }

    /// Each time everything is compared and pushed again, although the last connection looks fine.
    private static func goingBack(_ replicator: Replicator, now: Int64) -> [Attention] {
        let status = replicator.status
        guard status.activity != .stopped, let back = status.wentBack, back.isRecurring(now: now) else { return [] }
        return [
            Attention(
                .remoteGoesBack, "replicator \(replicator.configuration.name)", since: back.time,
                "the remote has gone back \(Plural.count(back.times, "time")), each less than a day after the previous one: \(back.message)",
                remedy: "ask the operator of \(replicator.configuration.shownTarget) why its database loses what it accepted; everything is pushed again each time, "
                    + "at growing intervals of up to max_attempt_wait_time")
        ]
    }

    /// Peers that a limit keeps out, and which limit.
    private static func refusedConnections(of listener: PeerListener, _ subject: String) -> [Attention] {
        let found = listener.refusedConnections.current(now: listener.time.wallSeconds())
        return Set(found.map(\.key.limit)).sorted().compactMap { limit in
            let these = found.filter { $0.key.limit == limit }
            guard let first = these.first else { return nil }
            let others = these.count > 1 ? " and from \(Plural.count(these.count - 1, "other address", "other addresses"))" : ""
            let remedy =
                limit == "max_connections_per_address"
                ? "if many peers share that address, behind a proxy or a router, raise \(limit) of the listener; otherwise nightjar listener "
                    + "\(listener.settings.name.value) peers says who holds them"
                : "raise max_connections of the listener, and LimitNOFILE= of the service with it"
            return Attention(
                .connectionsRefused, "\(subject), \(limit)", since: these.map(\.refusals.since).min(),
                "connections from \(first.key.address)\(others) are refused, \(these.reduce(0) { $0 + $1.refusals.count }) so far: \(limit) is \(first.refusals.allowed)",
                remedy: remedy)
        }
    }

    private static func evictions(of listener: PeerListener, _ subject: String) -> [Attention] {
        guard let recent = listener.refusals.evictions(now: listener.time.wallSeconds()) else { return [] }
        return [
            Attention(
                .connectionsEvicted, subject, since: recent.since,
                "\(Plural.count(recent.count, "connection")) of peers ended because limits.memory was used up, the last one from \(recent.address)",
                remedy: "the peers come back by themselves; if that goes on, raise limits: { memory } and restart, or find out which of them ask for much and do not read it "
                    + "(the log names each)")
        ]
    }

    /// Clients of CouchDB's API for whose answers there was no memory.
    private static func unreadAnswers(of listener: PeerListener, _ subject: String) -> [Attention] {
        guard let shortage = listener.answerShortages.current(now: listener.time.wallSeconds()) else { return [] }
        let told = shortage.told(memory: listener.memory.limit)
        return [Attention(.answersUnread, subject, since: shortage.since, told.text, remedy: told.remedy)]
    }

    /// Otherwise nobody here would notice: the peers give these documents up.
    private static func tooLargePushes(of listener: PeerListener, _ subject: String, now: Int64) -> [Attention] {
        let found = listener.refusals.tooLarge(now: now)
        // Of several the one that needs most memory, so that what is named is enough for all.
        let most = found.max { ($0.refusal.error.neededMemory ?? 0, $1.key) < ($1.refusal.error.neededMemory ?? 0, $0.key) }
        guard let (key, first) = most else { return tooLargeRequests(of: listener, subject, now: now) }
        let memory = first.error.neededMemory.map { "\(largerMemory($0)) and restart the agent; if other limits are named, raise those and nightjar reload" }
        let count = found.count >= TooLargePushes.limit ? "\(found.count) or more documents" : Plural.count(found.count, "document")
        return [
            Attention(
                .documentsNotTaken, subject, since: found.map(\.refusal.since).min(),
                "of what peers push, \(count) refused as too large, such as \(key.id) of \(key.database) from \(first.peer): \(first.error)",
                remedy: "\(memory ?? "raise the limit that is named, if it is a setting, and nightjar reload"), or have the documents made smaller; a Nightjar pushes them again by itself within an hour (at once with nightjar replicator NAME retry-refused there), other peers once they "
                    + "change")
        ] + tooLargeRequests(of: listener, subject, now: now)
    }

    private static func tooLargeRequests(of listener: PeerListener, _ subject: String, now: Int64) -> [Attention] {
        listener.refusals.tooLargeRequests(now: now).map { key, refusals in
            Attention(
                .documentsNotTaken, "\(subject), requests for \(key.database) \(key.collection)", since: refusals.since,
                "\(Plural.count(refusals.count, "request")) with documents refused as too large, most recently from \(refusals.peer) at \(Timestamp.format(refusals.last)): "
                    + "\(refusals.error); which documents \(refusals.count == 1 ? "it" : "they") had is not known\(refusals.count == 1 ? "" : ", and a client that tries again counts each time")",
                remedy: (refusals.error.neededMemory.map { "\(largerMemory($0)) and restart the agent" } ?? "raise the limit that is named, if it is a setting, and nightjar reload")
                    + ", or have the client send less at once")
        }
    }

    /// Documents that peers could not store, and those that this side could not send them.
    private static func refusedByPeers(of listener: PeerListener, _ subject: String) -> [Attention] {
        let noted = listener.refusedByPeers
        var list: [Attention] = []
        let (unsent, refused) = (noted.refusals.filter { $0.value.error.exceedsLocalSize }, noted.refusals.filter { !$0.value.error.exceedsLocalSize })
        if let (key, first) = refused.min(by: { $0.key < $1.key }) {
            list.append(
                Attention(
                    .documentsRefused, subject, since: refused.values.map(\.since).min(),
                    "\(Plural.count(refused.count + noted.more, "document")) that peers could not store, such as \(key.id) of \(key.database) at "
                        + "\(key.peer): \(first.error)", remedy: "fix the cause at the peer; nightjar status --json lists them (refused_by_peers)"))
        }
        if let (key, first) = unsent.max(by: { ($0.value.error.neededMemory ?? 0, $1.key) < ($1.value.error.neededMemory ?? 0, $0.key) }) {
            list.append(
                Attention(
                    .documentsRefused, "\(subject), memory", since: unsent.values.map(\.since).min(),
                    "\(Plural.count(unsent.count, "document")) that peers asked for and did not get, such as \(key.id) of \(key.database): \(first.error)",
                    remedy: first.error.remedy ?? "nightjar status --json lists them (refused_by_peers)"))
        }
        return list
    }

    /// The disk or quota that stopped these documents has space again, but the peers do not know that yet.
    private static func spaceAvailableAgain(_ group: WaitingDocuments.Group, _ subject: String) -> Attention {
        let what = group.count >= WaitingDocuments.limit ? "\(group.count) or more documents" : Plural.count(group.count, "document")
        return Attention(
            .documentsNotTaken, subject, since: group.since,
            "there was no room for \(what) that peers pushed, most recently at \(Timestamp.format(group.last)), such as \(group.example); there has been more room since",
            remedy: "the peers keep them and offer them again by themselves; if they are refused again, the reason will be shown here")
    }

    nonisolated func attention(of listener: PeerListener) -> [Attention] {
        let now = environment.time.wallSeconds()
        let subject = "listener \(listener.settings.name.value)"
        // What no peer has tried to push for an hour is over.
        listener.waiting.forget { $0.last < now - 3_600 }
        var list = listener.waiting.summary(pulled: "taken").map { group in
            if group.isOutOfSpace, disks.hasMoreSpace(listener.settings.databases.map(\.value), since: group.last) { return Self.spaceAvailableAgain(group, subject) }
            return Attention(
                .documentsNotTaken, subject, since: group.since, "of what peers push, \(group.text)",
                remedy: "fix the cause that is named; the peers keep them and offer them again")
        }
        list += Self.tooLargePushes(of: listener, subject, now: now)
        if let (error, since, _) = listener.binding.condition.obstacle {
            list.append(
                Attention(
                    .listenerWaiting, subject, since: since, error.message,
                    remedy: "\(ListenerRemedy.text(error)); it retries by itself, or at once with nightjar listener \(listener.settings.name.value) start"))
        }
        if case .stopped = listener.binding.condition {
            list.append(
                Attention(
                    .listenerStopped, subject, "stopped by an operator, and no peer can connect to it, until it is started or the agent restarts",
                    remedy: "nightjar listener \(listener.settings.name.value) start"))
        }
        let held = listener.heldDocuments
        if let first = held.first {
            let isFailing = first.failure.kind != PolicyFailure.notAsked
            list.append(
                Attention(
                    .documentsHeld, subject,
                    "the push filter \(isFailing ? "fails on" : "cannot be asked about") \(Plural.count(held.count, "document")), and peers do not get \(held.count == 1 ? "it" : "them"), such as "
                        + "document \(first.id) of \(first.collection): \(first.failure.message)", remedy: isFailing ? "fix the plugin \(first.failure.plugin)" : "raise limits: { memory }, and restart the agent"))
        }
        list += Self.refusedByPeers(of: listener, subject)
        list += Self.refusedConnections(of: listener, subject)
        list += Self.evictions(of: listener, subject)
        list += Self.unreadAnswers(of: listener, subject)
        list += listener.guessAttention(subject)
        return list + loginAttention(of: listener) + usersAttention(of: listener) + discoveryAttention(of: listener) + certificateAttention(of: listener, now: now)
    }
}
