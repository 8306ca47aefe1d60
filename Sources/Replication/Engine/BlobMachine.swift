import Documents
import Interfaces
import NIOCore

/// A revision of one collection that waits for blobs.
struct BlobWaiter: Hashable, Sendable {
    var slot: Int
    var fetch: FetchID
}

/// Something that happened to blobs.
enum BlobEvent: Sendable {
    /// A revision refers to these; it can be stored when they are here.
    case needed(BlobWaiter, DocumentID, [BlobReference])
    /// Answers ``BlobAction/look(_:)``.
    case looked(BlobDigest, isHere: Bool)
    /// Answers ``BlobAction/begin(_:)``: the file is open.
    case writerOpened(BlobDigest)
    /// The peer sends it.
    case bytesArrived(BlobDigest, ByteBuffer)
    /// Answers ``BlobAction/write(_:_:)``.
    case written(BlobDigest, bytes: Int)
    /// The peer has sent all of it.
    case ended(BlobDigest)
    /// Answers ``BlobAction/install(_:)``: durable, and what its digest says.
    case installed(BlobDigest)
    /// The peer refused, the disk failed, or the bytes are others than the digest says.
    case failed(BlobDigest, ReplicationError)

    /// The peer wants a blob, or the proof that we hold it.
    case wanted(BlobRequest)
    /// Answers ``BlobAction/serve(_:)``: sent to its end, refused, or given up.
    case served(AnswerHandle)
}

/// Something to do for blobs.
enum BlobAction: Sendable {
    case look(BlobDigest)
    /// Opens a file for the bytes.
    case begin(BlobDigest)
    /// Asks the peer for it.
    case request(BlobDigest, slot: Int, for: DocumentID, compresses: Bool)
    case write(BlobDigest, ByteBuffer)
    /// So many bytes are on disk: the peer may send more.
    case consumed(BlobDigest, bytes: Int)
    case install(BlobDigest)
    /// Nobody wants the rest: the file goes, and what the peer still sends is dropped.
    case abandon(BlobDigest)
    /// Nil: all blobs of the revision are here.
    case tell(BlobWaiter, ReplicationError?)
    case serve(BlobRequest)
}

/// A peer's request for a blob, or for the proof that we hold it.
struct BlobRequest: Sendable {
    var handle: AnswerHandle
    var digest: BlobDigest
    var compresses = false
    /// Of a request for proof.
    var nonce: [UInt8]?
}

/// Blobs of one connection, both ways, in bounded memory: each that arrives is written as it comes and taken from the peer no
/// faster, and a few are served at a time, piece by piece. Revisions that need the same blob share its transfer.
struct BlobMachine {
    private enum Transfer {
        case looking
        /// Waits for one of the places.
        case queued
        case opening
        /// The peer sends; `unwritten` bytes are on their way to the file.
        case receiving(received: UInt64, unwritten: Int)
        /// All has come; `unwritten` bytes are on their way to the file.
        case finishing(unwritten: Int)
        case installing
    }

    private struct Blob {
        var transfer: Transfer
        var waiters: [BlobWaiter]
        var slot: Int
        var document: DocumentID
        var compresses: Bool
    }

    private let limits: ReplicationLimits
    private var blobs: [BlobDigest: Blob] = [:]
    /// How many blobs a revision waits for.
    private var missing: [BlobWaiter: Int] = [:]
    private var queue: [BlobDigest] = []
    private var places = 0
    private var requests: [BlobRequest] = []
    private var served = 0

    init(_ limits: ReplicationLimits) { self.limits = limits }

    /// Nothing is under way, in either direction.
    var isIdle: Bool { blobs.isEmpty && requests.isEmpty && served == 0 }
    /// Blobs are being fetched.
    var isFetching: Bool { !blobs.isEmpty }
    var waitingRequests: Int { requests.count }

    mutating func handle(_ event: BlobEvent, _ actions: inout [BlobAction]) {
        switch event {
        case .needed(let waiter, let document, let references): need(waiter, document, references, &actions)
        case .looked(let digest, true): settle(digest, nil, &actions)
        case .looked(let digest, false):
            blobs[digest]?.transfer = .queued
            queue.append(digest)
        case .writerOpened(let digest):
            guard let blob = blobs[digest] else { return }
            blobs[digest]?.transfer = .receiving(received: 0, unwritten: 0)
            actions.append(.request(digest, slot: blob.slot, for: blob.document, compresses: blob.compresses))
        case .bytesArrived(let digest, let bytes): accept(digest, bytes, &actions)
        case .written(let digest, let count): wrote(digest, count, &actions)
        case .ended(let digest):
            guard case .receiving(_, let unwritten)? = blobs[digest]?.transfer else { return }
            blobs[digest]?.transfer = .finishing(unwritten: unwritten)
            installIfWritten(digest, &actions)
        case .installed(let digest): settle(digest, nil, &actions)
        case .failed(let digest, let error):
            actions.append(.abandon(digest))
            settle(digest, error, &actions)
        case .wanted(let request): requests.append(request)
        case .served: served -= 1
        }
        advance(&actions)
    }

    private mutating func advance(_ actions: inout [BlobAction]) {
        while places < limits.blobFetches, !queue.isEmpty {
            let digest = queue.removeFirst()
            guard case .queued? = blobs[digest]?.transfer else { continue }
            places += 1
            blobs[digest]?.transfer = .opening
            actions.append(.begin(digest))
        }
        while served < limits.blobReads, !requests.isEmpty {
            served += 1
            actions.append(.serve(requests.removeFirst()))
        }
    }

    // MARK: - Fetching

    private mutating func need(
        _ waiter: BlobWaiter, _ document: DocumentID, _ references: [BlobReference], _ actions: inout [BlobAction]
    ) {
        for reference in references {
            guard let length = reference.length, length > UInt64(limits.maximumBlobBytes) else { continue }
            return actions.append(.tell(waiter, tooLarge(reference.digest, length)))
        }
        let digests = Set(references.map(\.digest))
        if digests.isEmpty { return actions.append(.tell(waiter, nil)) }
        missing[waiter] = digests.count
        // In the document's order, so that a run depends on nothing else.
        var seen: Set<BlobDigest> = []
        for reference in references where seen.insert(reference.digest).inserted {
            let digest = reference.digest
            if blobs[digest] != nil {
                blobs[digest]?.waiters.append(waiter)
            } else {
                blobs[digest] = Blob(
                    transfer: .looking, waiters: [waiter], slot: waiter.slot, document: document, compresses: reference.isCompressible)
                actions.append(.look(digest))
            }
        }
    }

    private func tooLarge(_ digest: BlobDigest, _ length: UInt64) -> ReplicationError {
        ReplicationError(
            domain: .http, code: 413,
            message: "the blob \(digest) has \(length) bytes or more, max_blob_bytes is \(limits.maximumBlobBytes)")
    }

    private mutating func accept(_ digest: BlobDigest, _ bytes: ByteBuffer, _ actions: inout [BlobAction]) {
        guard case .receiving(let received, let unwritten)? = blobs[digest]?.transfer else { return }
        let total = received + UInt64(bytes.readableBytes)
        guard total <= UInt64(limits.maximumBlobBytes) else {
            actions.append(.abandon(digest))
            return settle(digest, tooLarge(digest, total), &actions)
        }
        blobs[digest]?.transfer = .receiving(received: total, unwritten: unwritten + bytes.readableBytes)
        actions.append(.write(digest, bytes))
    }

    private mutating func wrote(_ digest: BlobDigest, _ count: Int, _ actions: inout [BlobAction]) {
        actions.append(.consumed(digest, bytes: count))
        switch blobs[digest]?.transfer {
        case .receiving(let received, let unwritten)?:
            blobs[digest]?.transfer = .receiving(received: received, unwritten: unwritten - count)
        case .finishing(let unwritten)?:
            blobs[digest]?.transfer = .finishing(unwritten: unwritten - count)
            installIfWritten(digest, &actions)
        default: break
        }
    }

    private mutating func installIfWritten(_ digest: BlobDigest, _ actions: inout [BlobAction]) {
        guard case .finishing(0)? = blobs[digest]?.transfer else { return }
        blobs[digest]?.transfer = .installing
        actions.append(.install(digest))
    }

    private mutating func settle(_ digest: BlobDigest, _ error: ReplicationError?, _ actions: inout [BlobAction]) {
        guard let blob = blobs.removeValue(forKey: digest) else { return }
        switch blob.transfer {
        case .looking, .queued: break
        case .opening, .receiving, .finishing, .installing: places -= 1
        }
        for waiter in blob.waiters {
            // One that failed because of another blob is told already.
            guard let left = missing[waiter] else { continue }
            if left > 1, error == nil {
                missing[waiter] = left - 1
            } else {
                missing[waiter] = nil
                actions.append(.tell(waiter, error))
            }
        }
    }
}
