import Documents
import Interfaces
import NIOCore

/// The blobs of one connection, in both directions and in bounded memory: an arriving blob is taken from the peer only as fast as it is written to
/// disk, and only a few are served at a time, piece by piece. Revisions that need the same blob share its transfer. Of the thousands that a document
/// may name, only a few are fetched at a time; of the others only the names are kept.
///
/// A revision that waits for blobs is a ``BlobWaiter`` here. Its blobs are opened a few at a time; an open blob is looked up in the store, then proved
/// or sent by the peer, and settled for all that wait for it.
///
/// Naming a digest in a document does not entitle the sender to the blob. The peer has to prove that it holds a blob that is already here, by a
/// digest over a nonce and the blob, or has to send it again. If it does neither, its document has a missing blob. A peer that may not see everything
/// always has to send it: asking it for a proof would reveal that some document has these bytes.
struct BlobMachine {
    private enum Stage {
        /// Only its name is known; others are looked up first.
        case named
        /// The store is asked whether it is here.
        case looking
        /// Waits until fewer blobs are being transferred.
        case queued
        /// The peer was asked for a proof that it holds the blob that is here.
        case proving
        /// The peer's proof is being compared with ours.
        case checking
        /// The file for its bytes is being opened.
        case opening
        /// The peer is sending; `unwritten` bytes have not reached the file yet.
        case receiving(received: UInt64, unwritten: Int)
        /// Everything has arrived; `unwritten` bytes have not reached the file yet.
        case finishing(unwritten: Int)
        /// Its digest is checked, and it is made durable.
        case installing

        /// It takes one of the places for transfers (`blobFetches`).
        var hasPlace: Bool {
            switch self {
            case .named, .looking, .queued: false
            case .proving, .checking, .opening, .receiving, .finishing, .installing: true
            }
        }
    }

    private struct Waiting {
        let waiter: BlobWaiter
        /// The peer may have the blob in any case: if it is here, the peer need not show that it holds it.
        let needsNoProof: Bool
        let document: DocumentID
        /// Its size, according to the document.
        let size: UInt64?
    }

    /// The blobs that a revision needs.
    private struct Needs {
        let document: DocumentID
        /// Shared with the revision, so that it takes no extra memory.
        let references: [BlobReference]
        let known: KnownBlobs
        let comparesLengths: Bool
        /// Index of the first blob that is not under way yet.
        var next = 0
        /// Blobs under way.
        var open: Set<BlobDigest> = []

        var isDone: Bool { next == references.count && open.isEmpty }
    }

    private struct Blob {
        var transfer: BlobTransfer
        var stage = Stage.named
        var isHere = false
        var waiting: [Waiting]
        /// The slot of the collection in whose name the peer is asked; it serves blobs only for a document.
        var slot: Int
        var document: DocumentID
        let compresses: Bool
        let size: UInt64?
    }

    let limits: ReplicationLimits
    private let asksProofs: Bool
    private var blobs: [BlobDigest: Blob] = [:]
    private var needs: [BlobWaiter: Needs] = [:]
    /// Blobs under way, each counted once for every revision that waits for it.
    private var openNeeds = 0
    /// How many digests the revisions keep of blobs that the peer may have in any case.
    private var knownDigests = 0
    /// Revisions with blobs that are not under way yet, in the order of their turns.
    private var unopened = CircularBuffer<BlobWaiter>()
    /// Blobs to look up. Naming thousands costs a peer nothing, so the store's workers, which all connections share, get only a few at a time.
    private var unlooked = CircularBuffer<BlobTransfer>()
    /// Those of which the store is being asked whether they are here.
    private var lookUps: Set<BlobTransfer> = []
    /// Blobs to be proved or sent by the peer, in order.
    private var queue = CircularBuffer<BlobTransfer>()
    /// Number of transfers that have a place (``Stage/hasPlace``).
    private var placesTaken = 0
    /// The number of the last transfer.
    private var lastNumber = 0
    /// Blobs that the peer has proved or sent on this connection. May be incomplete: a forgotten one is requested once more.
    private var shown: Set<BlobDigest> = []
    /// A proof was wrong. Computing ours costs as much as reading the blob, so no more proofs are requested: sending the bytes costs the peer as much
    /// as us.
    private var gaveWrongProof = false
    /// The peer's requests that are not being served yet.
    private var requests: [BlobRequest] = []
    /// Number of requests being served.
    private var serving = 0

    /// - Parameter asksProofs: whether the peer may learn which blobs are here.
    init(_ limits: ReplicationLimits, asksProofs: Bool = true) { (self.limits, self.asksProofs) = (limits, asksProofs) }

    /// Nothing is under way in either direction.
    var isIdle: Bool { needs.isEmpty && blobs.isEmpty && requests.isEmpty && serving == 0 }
    /// Blobs or proofs are being requested from the peer.
    var isFetching: Bool { !needs.isEmpty || !blobs.isEmpty }
    var waitingRequests: Int { requests.count }
    /// Its size, according to the first document that named it.
    func size(of transfer: BlobTransfer) -> UInt64? { blobs[transfer.digest]?.size }
    /// Memory held for blobs that revisions name and for queued requests, in bytes.
    var bytes: Int {
        blobs.count * HeldBytes.transfer + openNeeds * HeldBytes.need + needs.count * HeldBytes.waiter + knownDigests * HeldBytes.known
            + (unlooked.count + queue.count) * MemoryLayout<BlobTransfer>.stride + requests.count * HeldBytes.request
    }

    mutating func handle(_ event: BlobEvent, _ actions: inout [BlobAction]) {
        switch event {
        case .needed(let waiter, let document, let references, let known, let compares): need(waiter, document, references, known, compares, &actions)
        case .looked(let transfer, let isHere):
            lookUps.remove(transfer)
            acceptLookUp(transfer, isHere: isHere, &actions)
        case .proofArrived(let transfer, let proof):
            guard case .proving? = stage(transfer) else { break }
            guard let proof else {
                open(transfer, &actions)
                break
            }
            move(transfer, to: .checking)
            actions.append(.checkProof(transfer, proof))
        case .proofChecked(let transfer, let outcome):
            guard case .checking? = stage(transfer) else { break }
            if case .right = outcome {
                settle(transfer, nil, &actions)
            } else {
                if case .wrong = outcome { gaveWrongProof = true }
                open(transfer, &actions)
            }
        case .writerOpened(let transfer, let offset):
            guard case .opening? = stage(transfer), let blob = blobs[transfer.digest] else {
                // Given up in the meantime.
                actions.append(.abandon(transfer))
                break
            }
            move(transfer, to: .receiving(received: offset, unwritten: 0))
            actions.append(.request(transfer, slot: blob.slot, for: blob.document, compresses: blob.compresses, offset: offset))
        case .resumes(let transfer, let isRest):
            guard case .receiving(let offset, 0)? = stage(transfer) else { break }
            if isRest {
                actions.append(.resumed(transfer, offset: offset))
            } else {
                move(transfer, to: .receiving(received: 0, unwritten: 0))
                actions.append(.startOver(transfer))
            }
        case .bytesArrived(let transfer, let bytes): acceptBytes(transfer, bytes, &actions)
        case .written(let transfer, let count): wrote(transfer, count, &actions)
        case .ended(let transfer):
            guard case .receiving(_, let unwritten)? = stage(transfer) else { break }
            move(transfer, to: .finishing(unwritten: unwritten))
            installIfWritten(transfer, &actions)
        case .assembledWrongly(let transfer):
            guard case .installing? = stage(transfer) else { break }
            open(transfer, resumes: false, &actions)
        case .installed(let transfer): settle(transfer, nil, &actions)
        case .failed(let transfer, let error):
            lookUps.remove(transfer)
            actions.append(.abandon(transfer))
            settle(transfer, error, &actions)
        case .wanted(let request) where requests.count >= limits.queuedRequests: actions.append(.refuse(request))
        case .wanted(let request): requests.append(request)
        case .served: serving -= 1
        }
        advance(&actions)
    }

    private mutating func advance(_ actions: inout [BlobAction]) {
        openMore(&actions)
        while lookUps.count < limits.blobLookUps, let transfer = unlooked.popFirst() {
            guard case .named? = stage(transfer) else { continue }
            move(transfer, to: .looking)
            lookUps.insert(transfer)
            actions.append(.look(transfer))
        }
        while placesTaken < limits.blobFetches, let transfer = queue.popFirst() {
            guard case .queued? = stage(transfer), let blob = blobs[transfer.digest] else { continue }
            placesTaken += 1
            if asksProofs, blob.isHere, !gaveWrongProof {
                move(transfer, to: .proving)
                actions.append(.askProof(transfer, slot: blob.slot, for: blob.document))
            } else {
                open(transfer, &actions)
            }
        }
        while serving < limits.blobReads, !requests.isEmpty {
            serving += 1
            actions.append(.serve(requests.removeFirst()))
        }
    }

    /// Nil for a transfer that has ended.
    private func stage(_ transfer: BlobTransfer) -> Stage? {
        guard let blob = blobs[transfer.digest], blob.transfer == transfer else { return nil }
        return blob.stage
    }

    private mutating func move(_ transfer: BlobTransfer, to stage: Stage) { blobs[transfer.digest]?.stage = stage }

    private mutating func open(_ transfer: BlobTransfer, resumes: Bool = true, _ actions: inout [BlobAction]) {
        move(transfer, to: .opening)
        actions.append(.begin(transfer, resumes: resumes))
    }

    // MARK: - Needs

    private mutating func need(
        _ waiter: BlobWaiter, _ document: DocumentID, _ references: [BlobReference], _ known: KnownBlobs, _ comparesLengths: Bool, _ actions: inout [BlobAction]
    ) {
        if let error = refusal(references, comparesLengths: comparesLengths) { return actions.append(.tell(waiter, error)) }
        if references.isEmpty { return actions.append(.tell(waiter, nil)) }
        needs[waiter] = Needs(document: document, references: references, known: known, comparesLengths: comparesLengths)
        knownDigests += known.count
        unopened.append(waiter)
    }

    /// Assigns each revision a few of its blobs to wait for: one that names thousands does not block the blobs of others.
    private mutating func openMore(_ actions: inout [BlobAction]) {
        let share = max(1, limits.awaitedBlobs / 4)
        // Each revision has one turn, so that those behind it have theirs.
        for _ in 0..<unopened.count {
            guard openNeeds < limits.awaitedBlobs, let waiter = unopened.popFirst() else { return }
            // One that was given up meanwhile needs nothing any more.
            guard var more = needs.removeValue(forKey: waiter) else { continue }
            // In the document's order, so that a run depends on nothing else.
            while more.next < more.references.count, more.open.count < share, openNeeds < limits.awaitedBlobs {
                begin(more.references[more.next], waiter, &more)
                more.next += 1
            }
            if more.isDone {
                knownDigests -= more.known.count
                actions.append(.tell(waiter, nil))
            } else {
                needs[waiter] = more
            }
            if more.next < more.references.count { unopened.append(waiter) }
        }
    }

    private mutating func begin(_ reference: BlobReference, _ waiter: BlobWaiter, _ more: inout Needs) {
        let digest = reference.digest
        guard !more.open.contains(digest) else { return }
        let waiting = Waiting(waiter: waiter, needsNoProof: more.known.contains(digest), document: more.document, size: more.comparesLengths ? reference.claimedSize : nil)
        if let blob = blobs[digest] {
            if blob.isHere, waiting.needsNoProof { return }
            blobs[digest]?.waiting.append(waiting)
        } else {
            lastNumber += 1
            let transfer = BlobTransfer(digest: digest, number: lastNumber)
            blobs[digest] = Blob(
                transfer: transfer, waiting: [waiting], slot: waiter.slot, document: more.document, compresses: reference.isCompressible,
                size: reference.length)
            unlooked.append(transfer)
        }
        more.open.insert(digest)
        openNeeds += 1
    }

    private mutating func acceptLookUp(_ transfer: BlobTransfer, isHere: Bool, _ actions: inout [BlobAction]) {
        guard case .looking? = stage(transfer), let blob = blobs[transfer.digest] else { return }
        if isHere {
            if shown.contains(transfer.digest) { return settle(transfer, nil, &actions) }
            blobs[transfer.digest]?.isHere = true
            blobs[transfer.digest]?.waiting.removeAll(where: \.needsNoProof)
            for waiting in blob.waiting where waiting.needsNoProof { got(transfer.digest, waiting.waiter, &actions) }
            if blob.waiting.allSatisfy(\.needsNoProof) { return blobs[transfer.digest] = nil }
        }
        move(transfer, to: .queued)
        queue.append(transfer)
    }

    // MARK: - Fetching

    private mutating func acceptBytes(_ transfer: BlobTransfer, _ bytes: ByteBuffer, _ actions: inout [BlobAction]) {
        guard case .receiving(let received, let unwritten)? = stage(transfer) else { return }
        let total = received + UInt64(bytes.readableBytes)
        if let error = refusal(of: transfer.digest, arrived: total, sizes: blobs[transfer.digest]?.waiting.map(\.size) ?? []) {
            actions.append(.abandon(transfer))
            return settle(transfer, error, &actions)
        }
        move(transfer, to: .receiving(received: total, unwritten: unwritten + bytes.readableBytes))
        actions.append(.write(transfer, bytes))
    }

    private mutating func wrote(_ transfer: BlobTransfer, _ count: Int, _ actions: inout [BlobAction]) {
        actions.append(.consumed(transfer, bytes: count))
        switch stage(transfer) {
        case .receiving(let received, let unwritten)?:
            move(transfer, to: .receiving(received: received, unwritten: unwritten - count))
        case .finishing(let unwritten)?:
            move(transfer, to: .finishing(unwritten: unwritten - count))
            installIfWritten(transfer, &actions)
        default: break
        }
    }

    private mutating func installIfWritten(_ transfer: BlobTransfer, _ actions: inout [BlobAction]) {
        guard case .finishing(0)? = stage(transfer) else { return }
        move(transfer, to: .installing)
        actions.append(.install(transfer))
    }

    // MARK: - Ends

    /// The blob is here and the peer has proved or sent it, or it cannot be obtained.
    private mutating func settle(_ transfer: BlobTransfer, _ error: ReplicationError?, _ actions: inout [BlobAction]) {
        guard let blob = end(transfer) else { return }
        guard let error else {
            if shown.count >= limits.shownBlobs { shown.removeAll(keepingCapacity: true) }
            shown.insert(transfer.digest)
            for waiting in blob.waiting { got(transfer.digest, waiting.waiter, &actions) }
            return
        }
        // The peer may refuse it for one document, for example one that it purged, and grant it for another.
        let others = error.isNotGiven ? blob.waiting.filter { $0.document != blob.document || $0.waiter.slot != blob.slot } : []
        if let next = others.first { askAgain(blob, in: next, for: others) }
        let spared = Set(others.map(\.waiter))
        for waiting in blob.waiting where !spared.contains(waiting.waiter) {
            actions.append(.tell(waiting.waiter, error))
            giveUp(waiting.waiter, &actions)
        }
    }

    /// Queues the blob again, in the name of another document that needs it. Each attempt has at least one waiter fewer.
    private mutating func askAgain(_ blob: Blob, in next: Waiting, for others: [Waiting]) {
        var blob = blob
        lastNumber += 1
        blob.transfer = BlobTransfer(digest: blob.transfer.digest, number: lastNumber)
        (blob.stage, blob.waiting, blob.slot, blob.document) = (.queued, others, next.waiter.slot, next.document)
        blobs[blob.transfer.digest] = blob
        queue.append(blob.transfer)
    }

    private mutating func end(_ transfer: BlobTransfer) -> Blob? {
        guard let blob = blobs[transfer.digest], blob.transfer == transfer else { return nil }
        blobs[transfer.digest] = nil
        if blob.stage.hasPlace { placesTaken -= 1 }
        return blob
    }

    private mutating func got(_ digest: BlobDigest, _ waiter: BlobWaiter, _ actions: inout [BlobAction]) {
        guard needs[waiter]?.open.remove(digest) != nil else { return }
        openNeeds -= 1
        guard let over = needs[waiter], over.isDone else { return }
        end(waiter, over)
        actions.append(.tell(waiter, nil))
    }

    private mutating func end(_ waiter: BlobWaiter, _ over: Needs) {
        needs[waiter] = nil
        knownDigests -= over.known.count
    }

    /// The revision cannot be obtained: blobs that nothing else waits for are not fetched any further.
    private mutating func giveUp(_ waiter: BlobWaiter, _ actions: inout [BlobAction]) {
        guard let given = needs[waiter] else { return }
        end(waiter, given)
        openNeeds -= given.open.count
        for digest in given.open {
            guard let blob = blobs[digest] else { continue }
            blobs[digest]?.waiting.removeAll { $0.waiter == waiter }
            guard blobs[digest]?.waiting.isEmpty == true else { continue }
            _ = end(blob.transfer)
            if blob.stage.hasPlace { actions.append(.abandon(blob.transfer)) }
        }
    }
}
