import Documents
import DocumentStore
import Encodings
import Interfaces
import Replication

/// The state of a document for a replicator, in words.
struct ReplicatorWhereabouts: Sendable {
    let replicator: Replicator
    let collection: CollectionName
    let staysStopped: Bool
    /// When its schedule lets it connect again (seconds since 1970).
    var resumesAt: Int64?
    /// The document was here, and has expired.
    var hasExpired = false

    private var name: String { replicator.configuration.name }
    private var start: String { "nightjar replicator \(name) start" }
    private var config: ReplicatorConfiguration { replicator.configuration }

    /// What the state of the connection means for all documents; nil while it is up.
    var connection: WhereaboutsStatement? {
        let status = replicator.status
        let last = status.error.map { ": \($0.cause)" } ?? ""
        switch status.activity {
        case .idle, .busy: return nil
        case .stopped:
            let how = staysStopped ? "stopped by an operator, even after the agent restarts" : "stopped\(last)"
            if status.error == nil, !staysStopped, !config.isContinuous, status.lastSuccess != nil {
                return WhereaboutsStatement("stopped", "it is not continuous, and its last run is over", remedy: "run it again: \(start)")
            }
            return WhereaboutsStatement("stopped", how, remedy: (status.error?.remedy.map { "\($0); then " } ?? "") + start)
        case .offline where status.isSuspended:
            if let resumesAt {
                return WhereaboutsStatement(
                    "suspended", "suspended by its schedule until \(Timestamp.format(resumesAt))", remedy: "it resumes by itself, or now with nightjar replicator "
                        + "\(name) resume")
            }
            return WhereaboutsStatement("suspended", "suspended by an operator", remedy: "nightjar replicator \(name) resume")
        case .offline:
            let next = status.retryInSeconds.map { "; next attempt at \(Timestamp.format(status.since + Int64($0)))" } ?? ""
            return WhereaboutsStatement(
                "offline", "offline since \(Timestamp.format(replicator.interruptions?.since ?? status.since))\(last)\(next)",
                remedy: status.error?.remedy ?? "\(replicator.offlineRemedy); at once with \(start)")
        case .connecting: return WhereaboutsStatement("connecting", "connecting since \(Timestamp.format(status.since))\(last)")
        }
    }

    /// Seconds after which a peer that owes an answer is mentioned.
    private static let patience: Int64 = 10

    /// That the connection is up but the peer does not answer; nil if it does, or owes no answer.
    func unanswered(now: Int64) async -> WhereaboutsStatement? {
        guard let since = await replicator.unansweredSince(), now - since >= Self.patience else { return nil }
        return WhereaboutsStatement(
            "unanswered", "connected, but the peer owes a reply and sends nothing",
            remedy: "look at \(config.shownTarget): it, or a proxy in front of it, hangs; nightjar replicator \(name) stop, then start, reconnects"
        ).with(["since": .string(Timestamp.format(since))])
    }

    // MARK: - To the remote

    func statement(_ push: DocumentReplicationState.Push) -> WhereaboutsStatement {
        switch push {
        case .onlyPulls: WhereaboutsStatement("not_pushed", "it pushes nothing (type: pull)", remedy: "set type: push_and_pull if it should")
        case .otherCollection: otherCollection
        case .notChosen: notChosen
        case .noLocalDocument: WhereaboutsStatement("nothing_here", "there is nothing here to push")
        case .there(let revision):
            WhereaboutsStatement("sent", "the remote has the current revision, \(revision.text)").with(["rev": .string(revision.text)])
        case .thereBefore(let revision, let time):
            pending("the remote had the current revision, \(revision.text), before it went back (noticed at \(Timestamp.format(time))); it is compared again")
        case .rejected(let noted):
            WhereaboutsStatement(
                "rejected", "push filter \(noted.plugin) (version \(noted.version)) said no",
                remedy: "change the document or the filter; either change is noticed by itself"
            ).with(noted).with(["plugin": .string(noted.plugin), "version": .string(noted.version)])
        case .outdated(let noted):
            pending("push filter \(noted.plugin) rejected it in version \(noted.version), which is no longer in force: it is checked again")
                .with(["plugin": .string(noted.plugin), "version": .string(noted.version)])
        case .held(let noted): held(noted, "pushed")
        case .refused(let noted):
            WhereaboutsStatement(
                "refused", "the peer refused it with \(noted.plugin)/\(noted.version): \(noted.error)",
                remedy: isConflict(noted) && !config.type.pulls
                    ? "let the replicator pull too (type: push_and_pull): the peer's revision comes here, and the resolver decides"
                    : "fix the reason there, or change the document: \(offeredAgain)"
            ).with(noted).with(["domain": .string(noted.plugin), "code": Int64(noted.version).map { .int($0) }, "reason": .string(noted.error)])
        case .waiting(let waiting): self.waiting(waiting, waiting.error.domain == .store ? "this database cannot give" : "the peer cannot take")
        case .blobUnderWay(let blob): underWay(blob, "to the peer")
        case .deletionSkipped:
            WhereaboutsStatement(
                "deletion_skipped", "it is deleted, and the remote was never known to have it: skip_deletions leaves out such deletions",
                remedy: "set skip_deletions: false if the deletion should go there")
        case .inConflict(let conflict): self.conflict(conflict)
        case .blobsLost(let blobs):
            WhereaboutsStatement(
                "waiting_for_blobs", blobs.text, remedy: "\(BlobMend.text(database: config.database.name)); else save the document without it"
            ).with(["blobs": .array(blobs.all.map { .string("\($0)") })])
        case .willBeRejected(let plugin):
            WhereaboutsStatement("rejected", "push filter \(plugin), asked just now, rejects it", remedy: "change the document or the filter")
                .with(["plugin": .string(plugin)])
        case .willBeHeld(let failure):
            WhereaboutsStatement(
                "held", "push filter \(failure.plugin), asked just now, fails: \(failure.message)", remedy: "fix the plugin; the document is retried by itself"
            ).with(["plugin": .string(failure.plugin), "error": .string(failure.message)])
        case .pending: pending("it waits to be pushed")
        case .lookedAt(let checkpoint):
            pending("it was processed (the checkpoint is at sequence \(checkpoint)), and the remote is not known to have its current revision", isPassed: true)
        }
    }

    /// When a refused document is offered again.
    private var offeredAgain: String {
        config.isContinuous
            ? "it is offered again by itself, with each new connection and at least once an hour; at once with nightjar replicator \(name) retry-refused"
            : "it is offered again by the next run: \(start)"
    }

    /// - Parameter isPassed: whether the checkpoint is past it. Otherwise it goes by itself, and another look at everything would only delay it.
    private func pending(_ text: String, isPassed: Bool = false) -> WhereaboutsStatement {
        if let refusal = replicator.status.refusals.push {
            return WhereaboutsStatement(
                "pending", "\(text): the peer accepts nothing from us: \(refusal.cause)",
                remedy: "let this login write there, or set type: pull; \(config.isContinuous ? Agent.retriesOfPush(by: name) : "then \(start)")")
        }
        if connection != nil { return WhereaboutsStatement("pending", "\(text), once the replicator is connected") }
        return WhereaboutsStatement(
            "pending", text,
            remedy: isPassed
                ? "if it stays: \(start) --reset checks every document again" : "nothing has to be done; if it stays, nightjar replicator \(name) pending says why")
    }

    // MARK: - From the remote

    func statement(_ pull: DocumentReplicationState.Pull, isHere: Bool) -> WhereaboutsStatement {
        switch pull {
        case .onlyPushes: return WhereaboutsStatement("not_pulled", "it pulls nothing (type: push)", remedy: "set type: push_and_pull if it should")
        case .otherCollection: return otherCollection
        case .notChosen: return notChosen
        case .rejected(let noted):
            return WhereaboutsStatement(
                "rejected", "pull filter \(noted.plugin) (version \(noted.version)) said no\(revision(noted))",
                remedy: "change the filter; what it held back is checked again by itself"
            ).with(noted).with(["plugin": .string(noted.plugin), "version": .string(noted.version)])
        case .held(let noted): return held(noted, "pulled")
        case .orphaned(let noted):
            return WhereaboutsStatement(
                "orphaned", "the remote took it away, but it was kept here: \(noted.error.isEmpty ? "enable_auto_purge is off" : noted.error)",
                remedy: "give this login access to it again there, or purge it here"
            ).with(noted)
        case .waiting(let waiting) where waiting.error.isOutOfSpace: return waitingForRoom(waiting.error, "it does not fit", since: waiting.since)
        case .waiting(let waiting): return self.waiting(waiting, waiting.error.domain == .store ? "this database cannot take" : "the peer cannot give")
        case .refusedHere(let refused):
            // The remote refused it.
            let isTheirs = [401, 403, 404].contains(refused.error.code)
            return WhereaboutsStatement(
                isTheirs ? "not_given" : "refused_here",
                isTheirs ? "the remote announced it, but does not send it: \(refused.error)" : "the remote sent it, and it was refused here: \(refused.error)",
                remedy: refused.error.exceedsLocalSize
                    ? "raise the limit that is named: it is requested again by itself from the agent's next start on"
                    : "fix the reason there: a document that changes is sent again; \(start) --reset asks for everything again"
            ).with(["since": .string(Timestamp.format(refused.since)), "error": Agent.report(refused.error)])
        case .tooLarge(let memory, let needed):
            return WhereaboutsStatement(
                "refused_here", "the remote sent it, and it was too large for this agent's limits.memory (\(memory)) or for max_document_bytes",
                remedy: "\(Agent.largerMemory(needed)) and restart the agent: it is requested again by itself, and if it is still too large, the log says how much "
                    + "it takes; or have it made smaller at the remote")
        case .askedAgain(let memory):
            return WhereaboutsStatement(
                "asked_again",
                "the remote sent it, and it was too large for the limits of then (limits.memory was \(memory)); they allow more now: it is requested again once everything "
                    + "else is here",
                remedy: "wait for the connection; if it is still too large, this says how much it takes")
        case .blobUnderWay(let blob): return underWay(blob, "from the peer")
        case .inConflict(let conflict): return self.conflict(conflict)
        case .known(let revision):
            let room = replicator.status.refusals.space.map { "; a newer one may wait for room here: \($0.cause)" } ?? ""
            return WhereaboutsStatement(
                "known", "the remote is known to have \(revision.text)\(room)", remedy: room.isEmpty ? nil : Agent.roomRemedy
            ).with(["rev": .string(revision.text)])
        case .knownBefore(let revision, let time):
            return WhereaboutsStatement(
                "known_before", "the remote had \(revision.text), but it went back (noticed at \(Timestamp.format(time))), and may have lost it: it is not pushed",
                remedy: "nightjar explain remote_went_back"
            ).with(["rev": .string(revision.text), "remote_went_back_at": .string(Timestamp.format(time))])
        case .notAnnounced: return notAnnounced(isHere: isHere)
        }
    }

    private func notAnnounced(isHere: Bool) -> WhereaboutsStatement {
        let wanted = config.collections.first { $0.collection == collection }
        var bounds: [String] = []
        if let channels = wanted?.channels { bounds.append("channels: \(channels.joined(separator: ", "))") }
        if case .selector? = wanted?.sourceFilter { bounds.append("its selector") }
        if case .named(let filter, _)? = wanted?.sourceFilter { bounds.append("source_filter \(filter)") }
        if wanted?.skipsDeletions == true { bounds.append("skip_deletions") }
        let text = "the remote has not given it"
        // Nothing is recorded here about documents that were purged because access was lost.
        let lost = replicator.lifetime.accessRemoved > 0 ? ", or took access to it away (access_removed)" : ""
        guard !isHere else { return WhereaboutsStatement("not_given", "\(text): it is known to be here only") }
        // The document's own statement says how it can come back.
        if hasExpired { return WhereaboutsStatement("not_given", "\(text) since it expired here") }
        guard connection == nil else { return WhereaboutsStatement("not_given", "\(text) so far\(lost)") }
        if let error = replicator.status.refusals.space {
            return waitingForRoom(error, "what may not fit is not requested, so either this is such a document, or it is not there")
        }
        if replicator.status.activity == .busy { return WhereaboutsStatement("not_given", "\(text) so far\(lost), and the replicator is still at work") }
        return WhereaboutsStatement(
            "not_given", bounds.isEmpty ? text + lost : "\(text)\(lost), which asks for less than everything (\(bounds.joined(separator: "; ")))",
            remedy: "check whether it is there, and whether this login may read it; \(start) --reset asks for everything again")
    }

    // MARK: - Either way

    private var otherCollection: WhereaboutsStatement {
        let names = config.collections.map(\.collection.description).joined(separator: ", ")
        return WhereaboutsStatement("other_collection", "it replicates \(names)", remedy: "name the collection in its collections")
    }

    private var notChosen: WhereaboutsStatement {
        WhereaboutsStatement("excluded", "it is not among the document_ids", remedy: "add it to document_ids")
    }

    private func held(_ noted: Exclusion, _ way: String) -> WhereaboutsStatement {
        let tries = Plural.count(noted.tries, "try", "tries")
        if noted.cause == .size {
            return WhereaboutsStatement(
                "held", "held after \(tries): it is larger than this database accepts: \(noted.error)",
                remedy: "raise max_document_bytes of the database and nightjar reload, or make it smaller at the peer"
            ).with(noted).with(["error": .string(noted.error)])
        }
        guard noted.cause == .plugin else {
            return WhereaboutsStatement(
                "waiting_for_blobs", "held after \(tries): a blob of it cannot be \(way): \(noted.error)",
                remedy: noted.direction == .push
                    ? "\(BlobMend.text(database: config.database.name)); it is then sent by itself"
                    : "if a limit is named, raise it and nightjar reload; otherwise have the blob stored again where it comes from (nightjar blob put), then \(start)"
            ).with(noted).with(["error": .string(noted.error)])
        }
        return WhereaboutsStatement(
            "held", "held after \(tries): the filter \(noted.plugin) fails on it: \(noted.error)", remedy: "fix the plugin; the document is retried by itself"
        ).with(noted).with(["plugin": .string(noted.plugin), "version": .string(noted.version), "error": .string(noted.error)])
    }

    /// The obstacle is local, and has nothing to do with the peer.
    private func waitingForRoom(_ error: ReplicationError, _ why: String, since: Int64? = nil) -> WhereaboutsStatement {
        WhereaboutsStatement("waiting_for_room", "the pull waits for room here, and \(why): \(error.cause)", remedy: Agent.roomRemedy)
            .with(["since": JSONOutput.text(since.map { Timestamp.format($0) }), "error": Agent.report(error, remedy: Agent.roomRemedy)])
    }

    private func waiting(_ waiting: WaitingDocument, _ who: String) -> WhereaboutsStatement {
        WhereaboutsStatement(
            "waiting", "\(who) it at the moment, after \(Plural.count(waiting.tries, "try", "tries")): \(waiting.error)",
            remedy: waiting.error.remedy ?? "it is tried again by itself"
        ).with(["tries": JSONOutput.number(waiting.tries), "since": .string(Timestamp.format(waiting.since)), "error": Agent.report(waiting.error)])
    }

    private func underWay(_ blob: BlobUnderWay, _ way: String) -> WhereaboutsStatement {
        WhereaboutsStatement(
            "waiting_for_blobs", "its blob \(blob.name) is on its way \(way): \(blob.bytes)\(blob.size.map { " of \($0)" } ?? "") bytes"
        ).with(["bytes": JSONOutput.number(blob.bytes), "size": blob.size.map { JSONOutput.number($0) }])
    }

    private func conflict(_ conflict: PendingConflict) -> WhereaboutsStatement {
        let (hasFailed, byHand) = (!conflict.plugin.isEmpty, "decide by hand: nightjar conflicts list, nightjar conflicts resolve")
        let why = conflict.error.isEmpty ? "" : hasFailed ? " The resolver \(conflict.plugin) failed: \(conflict.error)" : " It is \(conflict.error)"
        return WhereaboutsStatement(
            "in_conflict", "\(conflict.local.text) here and \(conflict.remote.text) there are in conflict, and the decision is pending.\(why)",
            remedy: hasFailed ? "fix the resolver, or \(byHand)" : "it is decided by itself, or \(byHand)"
        ).with(["tries": JSONOutput.number(conflict.tries), "since": .string(Timestamp.format(conflict.since)), "error": .string(conflict.error)])
    }

    /// The same as `ReplicationError.isConflict`: the peer has a different revision.
    private func isConflict(_ noted: Exclusion) -> Bool {
        noted.plugin == "http" && noted.version == "409" || noted.plugin == "litecore" && noted.version == "8"
    }

    private func revision(_ noted: Exclusion) -> String { noted.revision.map { " to \($0.text)" } ?? "" }
}

extension Replicator {
    /// What to check while there is no connection, and the error names no remedy of its own.
    nonisolated var offlineRemedy: String { status.error.offlineRemedy(of: configuration.shownTarget) }
}

extension ReplicationError? {
    func offlineRemedy(of target: String) -> String {
        guard let error = self else { return "check whether \(target) can be reached from here" }
        if let own = error.specificRemedy { return own }
        switch (error.domain, error.code) {
        case (.websocket, 1012), (.websocket, 1013), (.websocket, 4001):
            return "\(target) is reached and asks to come back later (\(error.code)): if it keeps doing so, check its log and health"
        case (.http, _), (.websocket, 400..<600):
            return "\(target) is reached and answers with \(error.code): check its log and health, or those of a proxy in front of it"
        case (.network, ReplicationError.NetworkCode.timeout.rawValue):
            return "check whether \(target) can be reached from here, and whether it answers: its process may hang"
        default: return "check whether \(target) can be reached from here"
        }
    }
}
