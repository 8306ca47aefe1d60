import Documents
import DocumentStore
import Interfaces

// Revisions whose blobs are missing: judged first, then the blobs are fetched, and judged again if another version of a policy is in force by then.
extension InsertionMachine {
    /// Whether the peer has to send or prove any of its blobs.
    func needsBlobs(_ revision: CheckedRevision) -> Bool {
        guard !revision.blobs.isEmpty || revision.attachments != nil, !revision.hasFetchedBlobs else { return false }
        return (revision.attachments != nil || !revision.ownBlobs.isEmpty) && !settings.limits.hasPlanted(.missingBlobs)
    }

    /// Starts fetching and returns the revisions that need no blobs. The others wait for theirs, and so do later revisions of their documents.
    mutating func fetch(_ revisions: [CheckedRevision], _ actions: inout [PullAction]) -> [CheckedRevision] {
        guard revisions.contains(where: { needsBlobs($0) }) else { return revisions }
        var free: [CheckedRevision] = []
        for revision in revisions where !divert(revision, &actions) { free.append(revision) }
        return free
    }

    /// Takes it out of its batch if it has to wait: until its blobs are here, or while an earlier revision of its document waits for its own.
    ///
    /// - Returns: whether it left its batch.
    mutating func divert(_ revision: CheckedRevision, _ actions: inout [PullAction]) -> Bool {
        if batches.wait(revision) { return true }
        guard needsBlobs(revision) else { return false }
        if revision.attachments != nil {
            actions.append(.fetchAttachments(batches.fetch(revision), revision))
        } else {
            actions.append(.fetchBlobs(batches.fetch(revision), revision))
        }
        return true
    }

    /// The blobs of a revision are here, or cannot be obtained. Later revisions of its document continue in either case.
    mutating func acceptBlobs(
        _ fetch: FetchID, _ error: ReplicationError?, missing bytes: Int = 0, _ ended: inout [Insertion], _ actions: inout [PullAction]
    ) {
        guard case (var revision, let behind)? = batches.fetched(fetch) else { return }
        revision.fetch = fetch
        if let error {
            hold(HeldRevision(restored(revision), blob: error), error, missing: bytes, &ended, &actions)
        } else {
            (revision.hasShownBlobs, revision.hasFetchedBlobs) = (true, true)
            batches.makeReady(revision)
        }
        for each in behind { batches.makeReady(each) }
    }

    /// The body now names attachments by our digests instead of the peer's.
    mutating func acceptAttachments(_ fetch: FetchID, whole body: [UInt8], _ ended: inout [Insertion], _ actions: inout [PullAction]) {
        guard case (let revision, let behind)? = batches.fetched(fetch) else { return }
        var whole = revision
        whole.replaceBody(body)
        (whole.attachments, whole.hasShownBlobs) = (nil, true)
        batches.resize(by: whole.bytes - revision.bytes)
        // The names of fetched attachments make the body longer.
        if let error = excess(of: whole) {
            hold(HeldRevision(restored(whole), size: error), error, &ended, &actions)
            for each in behind { batches.makeReady(each) }
        } else if divert(whole, &actions) {
            for each in behind { _ = batches.wait(each) }
        } else {
            for each in [whole] + behind { batches.makeReady(each) }
        }
    }

    // MARK: - The filter's word

    /// The revision with the filter's answer. A replacement body belongs to the version that made it: another version is asked about the original.
    mutating func answered(_ revision: CheckedRevision, _ answer: FilterAnswer, _ actions: inout [PullAction]) -> CheckedRevision {
        var (answered, answer) = (revision, answer)
        if revision.asReceived != nil, answer.verdict != .pass || revision.answer?.wasJudgedBy(answer.plugin, answer.version) != true {
            answered = restored(revision)
            if answer.verdict.passes, let fetch = answered.fetch {
                // Other blobs may be needed for it, under another fetch id.
                actions.append(.releaseBlobs([], staying: [fetch]))
                answered.fetch = nil
            }
        }
        if case .replace(let body) = answer.verdict {
            let before = answered
            answered.replaceBody(body, of: before)
            batches.resize(by: answered.bytes - before.bytes)
            answer.verdict = .pass
        }
        // A revision that continues at once is not judged again.
        if needsBlobs(answered) || batches.isFetching(answered.id) { answered.answer = answer }
        return answered
    }

    /// The revision with its original body: any version may have to judge what is on the list.
    private mutating func restored(_ revision: CheckedRevision) -> CheckedRevision {
        guard var came = revision.asReceived else { return revision }
        came.fetch = revision.fetch
        batches.resize(by: came.bytes - revision.bytes)
        return came
    }

    /// Nothing is to be fetched for it: its present body is the one to be stored.
    mutating func settled(_ revision: CheckedRevision) -> CheckedRevision {
        guard revision.asReceived != nil, !needsBlobs(revision) else { return revision }
        var settled = revision
        settled.asReceived = nil
        batches.resize(by: settled.bytes - revision.bytes)
        return settled
    }
}

extension CheckedRevision {
    /// A filter replaced the body.
    fileprivate mutating func replaceBody(_ body: [UInt8], of came: CheckedRevision) {
        self.replaceBody(body)
        let given = came.attachments == nil ? came.blobs : (try? BlobReferences.find(in: came.body)) ?? []
        self.addedBlobs = Set(self.blobs.map(\.digest)).subtracting(given.map(\.digest))
        // For attachments that the peer names differently, the blobs are known only once they are here.
        if self.attachments != nil { self.blobs = [] }
        self.asReceived = came
    }
}
