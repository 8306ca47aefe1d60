import Documents
import DocumentStore
import Interfaces

/// The state of one document between a database and the remote of a replicator, in both directions.
public struct DocumentReplicationState: Sendable {
    /// The direction to the remote.
    public enum Push: Sendable {
        case onlyPulls
        /// The replicator does not replicate its collection.
        case otherCollection
        /// It is not one of `document_ids`.
        case notChosen
        /// There is no such document here.
        case noLocalDocument
        /// The remote has the current revision.
        case there(RevisionID)
        /// The remote had the current revision before it was found in an older state (at that time, in seconds since 1970), and the two are still
        /// being compared.
        case thereBefore(RevisionID, wentBackAt: Int64)
        case rejected(Exclusion)
        /// It was rejected by a version of the filter that is no longer in force, and will be judged again.
        case outdated(Exclusion)
        case held(Exclusion)
        case refused(Exclusion)
        /// The peer could not accept it temporarily.
        case waiting(WaitingDocument)
        case blobUnderWay(BlobUnderWay)
        /// A deletion of a document that the remote never had, with `skip_deletions`.
        case deletionSkipped
        /// It is in conflict, and waits for the decision.
        case inConflict(PendingConflict)
        /// It names blobs that are missing here or damaged.
        case blobsLost(LostBlobs)
        /// The filter, asked just now, would keep it back.
        case willBeRejected(plugin: String)
        case willBeHeld(PolicyFailure)
        /// Newer than what has been processed.
        case pending
        /// The checkpoint is past it, and it is not known what the remote has.
        case lookedAt(checkpoint: SequenceNumber)
    }

    /// The direction from the remote.
    public enum Pull: Sendable {
        case onlyPushes
        case otherCollection
        case notChosen
        case rejected(Exclusion)
        case held(Exclusion)
        /// The remote took it away, and it stayed here.
        case orphaned(Exclusion)
        /// The peer could not send it temporarily.
        case waiting(WaitingDocument)
        /// The peer sent it, and it cannot be accepted; or the peer announced it, and says why it does not send it.
        case refusedHere(WaitingDocument)
        /// It was too large for this `limits.memory`, in bytes, when the peer sent it; `needed` is the one with which it would have been taken, if that is
        /// known.
        case tooLarge(memory: Int, needed: Int?)
        /// It was too large for this `limits.memory`, in bytes, and the limits allow more now: it is requested again once everything else is here.
        case askedAgain(memory: Int)
        case blobUnderWay(BlobUnderWay)
        case inConflict(PendingConflict)
        /// The revision that the remote is known to have.
        case known(RevisionID)
        /// The same, for a remote that was found in an older state since or before (at that time, in seconds since 1970): a document that is not
        /// pushed may be gone there.
        case knownBefore(RevisionID, wentBackAt: Int64)
        /// The remote has not announced such a document.
        case notAnnounced

        /// Whether the remote has announced or sent the document, so its id is known to exist.
        public var namesDocument: Bool {
            switch self {
            case .onlyPushes, .otherCollection, .notChosen, .notAnnounced: false
            case .rejected, .held, .orphaned, .waiting, .refusedHere, .tooLarge, .askedAgain, .blobUnderWay, .inConflict, .known, .knownBefore: true
            }
        }
    }

    public var push: Push
    public var pull: Pull
}

extension Replicator {
    /// The store's notes on one document and this replicator's remote.
    private struct Notes: Sendable {
        var row: ChangeRow?
        var push: Exclusion?
        var pull: Exclusion?
        var orphaned: Exclusion?
        var untaken: Exclusion?
        var conflict: PendingConflict?
        var checkpoint: SequenceNumber = 0
        /// The limits for which the remote's document was too large; nil if it was not.
        var tooLarge: TooLargeDocuments.Bounds?
        var neededMemory: Int?
    }

    /// The state of a document according to what is stored and under way, whether the replicator runs or not.
    ///
    /// - Throws: ``StoreError``.
    public nonisolated func standing(of id: DocumentID, in name: CollectionName) async throws -> DocumentReplicationState {
        let type = configuration.type
        guard let wanted = configuration.collections.first(where: { $0.collection == name }),
            let collection = configuration.database.collection(name)
        else {
            return DocumentReplicationState(push: type.pushes ? .otherCollection : .onlyPulls, pull: type.pulls ? .otherCollection : .onlyPushes)
        }
        guard wanted.documentIDs?.contains(id) ?? true else {
            return DocumentReplicationState(push: type.pushes ? .notChosen : .onlyPulls, pull: type.pulls ? .notChosen : .onlyPushes)
        }
        let notes = try await notes(id, wanted, collection)
        let push = type.pushes ? try await push(id, wanted, notes) : .onlyPulls
        var pull = type.pulls ? pull(id, name, notes) : .onlyPushes
        if case .known(let revision) = pull, let wentBack = status.wentBack {
            // A pushed document was compared again, and was there.
            if case .there = push {} else { pull = .knownBefore(revision, wentBackAt: wentBack.time) }
        }
        return DocumentReplicationState(push: push, pull: pull)
    }

    private nonisolated func notes(_ id: DocumentID, _ wanted: CollectionReplication, _ collection: Collection) async throws -> Notes {
        let (database, key) = (configuration.database, configuration.remoteKey)
        let checkpoint = configuration.checkpointID(of: wanted, privateUUID: database.privateUUID)
        return try await database.read { transaction in
            let remote = try transaction.existingRemote(for: key)
            var notes = Notes(
                row: try transaction.row(collection, id, withBody: true, remote: remote), conflict: try transaction.pendingConflict(collection, id))
            let body = try transaction.checkpoint(id: checkpoint, collection: collection)?.body
            notes.checkpoint = body.map { CheckpointBody(parsing: $0).local } ?? 0
            guard let remote else { return notes }
            notes.push = try transaction.exclusion(collection, remote: remote, direction: .push, id: id)
            if let push = notes.push, try !transaction.isOwed(push, collection) { notes.push = nil }
            notes.pull = try transaction.exclusion(collection, remote: remote, direction: .pull, id: id)
            notes.orphaned = try transaction.exclusion(collection, remote: remote, direction: .access, id: id)
            notes.untaken = try transaction.exclusion(collection, remote: remote, direction: .untaken, id: id)
            if let untaken = notes.untaken, try !transaction.isOwed(untaken, collection) { notes.untaken = nil }
            let large = try TooLargeDocuments.noted(remote, collection, transaction)
            (notes.tooLarge, notes.neededMemory) = (large.documents[id], large.needed[id])
            return notes
        }
    }

    private nonisolated func push(_ id: DocumentID, _ wanted: CollectionReplication, _ notes: Notes) async throws -> DocumentReplicationState.Push {
        guard let row = notes.row else { return .noLocalDocument }
        let isThere = row.remoteRevision == row.revision
        // Notes from before the remote went back are valid again for pushed documents, once the two were compared.
        let wentBack = status.wentBack
        if isThere, wentBack == nil { return .there(row.revision) }
        if let blob = blobUnderWay(id, .push) { return .blobUnderWay(blob) }
        var outdated: Exclusion?
        // Notes on an earlier revision do not apply to one that has yet to be processed.
        let lost = row.hasBlobs ? try await configuration.database.lostBlobs(of: row.body ?? []) : LostBlobs()
        if let noted = notes.push, noted.kind == .held || noted.revision.map({ $0 == row.revision }) ?? (row.sequence <= notes.checkpoint) {
            switch noted.kind {
            case .rejected where wanted.isOutdated(noted): outdated = noted
            case .rejected: return .rejected(noted)
            // The peer refuses what it cannot have completely, and is not to blame.
            case .refused: return lost.isEmpty ? .refused(noted) : .blobsLost(lost)
            case .held where noted.plugin.isEmpty && !lost.isEmpty: return .blobsLost(lost)
            case .held, .orphaned: return .held(noted)
            }
        }
        if !lost.isEmpty, !row.isDeleted { return .blobsLost(lost) }
        if let waiting = waiting.find(wanted.collection, id, .push) { return .waiting(waiting) }
        if wanted.skipsDeletions, row.isDeleted, row.remoteRevision == nil { return .deletionSkipped }
        if row.hasConflict, let conflict = notes.conflict { return .inConflict(conflict) }
        if let filter = wanted.pushFilter {
            let context = PolicyContext(
                database: configuration.database.name, collection: wanted.collection, direction: .push, replicator: configuration.name,
                remote: configuration.shownTarget)
            let document = PolicyDocument(id: id, revision: row.revision, isDeleted: row.isDeleted, body: row.body ?? [])
            switch await filter.verdicts([document], context).first {
            case .reject: return .willBeRejected(plugin: filter.pluginName)
            case .failed(let failure): return .willBeHeld(failure)
            case .pass, .replace, nil: break
            }
        }
        if isThere {
            return wentBack.flatMap { $0.isComparing ? .thereBefore(row.revision, wentBackAt: $0.time) : nil } ?? .there(row.revision)
        }
        if let outdated { return .outdated(outdated) }
        return row.sequence > notes.checkpoint ? .pending : .lookedAt(checkpoint: notes.checkpoint)
    }

    private nonisolated func pull(_ id: DocumentID, _ collection: CollectionName, _ notes: Notes) -> DocumentReplicationState.Pull {
        if let blob = blobUnderWay(id, .pull) { return .blobUnderWay(blob) }
        if let noted = notes.pull { return noted.kind == .rejected ? .rejected(noted) : .held(noted) }
        if let waiting = waiting.find(collection, id, .pull) { return .waiting(waiting) }
        if let orphaned = notes.orphaned, notes.row?.isDeleted == false { return .orphaned(orphaned) }
        if let noted = notes.untaken {
            let error = ReplicationError(domain: ReplicationError.Domain(rawValue: noted.plugin) ?? .http, code: Int(noted.version) ?? 0, message: noted.error)
            return .refusedHere(
                WaitingDocument(id: id, collection: collection, direction: .pull, error: error, tries: noted.tries, since: noted.since, last: noted.since))
        }
        if let refused = waiting.refusedHere(collection, id) { return .refusedHere(refused) }
        if let noted = notes.tooLarge {
            return bounds.mayTake(noted, needed: notes.neededMemory) ? .askedAgain(memory: noted.memory) : .tooLarge(memory: noted.memory, needed: notes.neededMemory)
        }
        if let conflict = notes.conflict { return .inConflict(conflict) }
        return notes.row?.remoteRevision.map { .known($0) } ?? .notAnnounced
    }

    private nonisolated func blobUnderWay(_ id: DocumentID, _ direction: Direction) -> BlobUnderWay? {
        status.blobs.first { $0.direction == direction && $0.document == id }
    }
}
