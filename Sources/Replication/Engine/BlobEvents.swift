import Documents
import Interfaces
import NIOCore

/// A revision of one collection that waits for blobs.
struct BlobWaiter: Hashable, Sendable {
    var slot: Int
    var fetch: FetchID
}

/// Blobs of a revision that the peer may have in any case.
enum KnownBlobs: Sendable {
    case all
    case some(Set<BlobDigest>)

    func contains(_ digest: BlobDigest) -> Bool {
        switch self {
        case .all: true
        case .some(let digests): digests.contains(digest)
        }
    }

    /// The number of digests.
    var count: Int { if case .some(let digests) = self { digests.count } else { 0 } }
}

/// One attempt to obtain a blob; the number tells late results of earlier attempts apart.
struct BlobTransfer: Hashable, Sendable {
    var digest: BlobDigest
    var number: Int
}

/// The outcome of comparing the peer's proof with ours.
enum ProofOutcome: Sendable {
    case right, wrong
    /// Our own file could not be read, or is damaged.
    case unknown
}

/// An input of the blob machine.
enum BlobEvent: Sendable {
    /// A revision refers to these blobs; it can be stored when they are here and the peer has shown that it has them. `known`: those that it need not
    /// show, because it may have them in any case.
    case needed(BlobWaiter, DocumentID, [BlobReference], known: KnownBlobs, comparesLengths: Bool = true)
    /// Answers ``BlobAction/look(_:)``.
    case looked(BlobTransfer, isHere: Bool)
    /// The peer answers ``BlobAction/askProof(_:slot:for:)``; nil: it gives no proof.
    case proofArrived(BlobTransfer, BlobDigest?)
    /// Answers ``BlobAction/checkProof(_:_:)``.
    case proofChecked(BlobTransfer, ProofOutcome)
    /// Answers ``BlobAction/begin(_:resumes:)``: the file is open, and contains this many bytes from an earlier connection.
    case writerOpened(BlobTransfer, offset: UInt64 = 0)
    /// The peer was asked for the rest of the blob and starts sending: either the rest or everything.
    case resumes(BlobTransfer, isRest: Bool)
    /// The peer sent these bytes.
    case bytesArrived(BlobTransfer, ByteBuffer)
    /// Answers ``BlobAction/write(_:_:)``.
    case written(BlobTransfer, bytes: Int)
    /// The peer has sent everything.
    case ended(BlobTransfer)
    /// Answers ``BlobAction/install(_:)``: the blob is durable and matches its digest.
    case installed(BlobTransfer)
    /// Answers ``BlobAction/install(_:)``: the bytes from an earlier connection and those from this one do not add up to the blob.
    case assembledWrongly(BlobTransfer)
    /// The peer refused, the disk failed, or the bytes do not match the digest.
    case failed(BlobTransfer, ReplicationError)

    /// The peer wants a blob, or a proof that we hold it.
    case wanted(BlobRequest)
    /// Answers ``BlobAction/serve(_:)``: completely sent, refused, or given up.
    case served(AnswerHandle)
}

/// An output of the blob machine.
enum BlobAction: Sendable {
    case look(BlobTransfer)
    /// Asks the peer to prove that it holds a blob that is already here.
    case askProof(BlobTransfer, slot: Int, for: DocumentID)
    case checkProof(BlobTransfer, BlobDigest)
    /// Opens a file for the bytes. `resumes`: continue the file left by an earlier connection, if there is one.
    case begin(BlobTransfer, resumes: Bool = true)
    /// Requests the blob from the peer, starting at an offset.
    case request(BlobTransfer, slot: Int, for: DocumentID, compresses: Bool, offset: UInt64 = 0)
    /// The data left by an earlier connection is not used: the peer sends everything.
    case startOver(BlobTransfer)
    /// The peer continues where an earlier connection ended.
    case resumed(BlobTransfer, offset: UInt64)
    case write(BlobTransfer, ByteBuffer)
    /// This many bytes are on disk: the peer may send more.
    case consumed(BlobTransfer, bytes: Int)
    case install(BlobTransfer)
    /// The rest is not wanted: the file is removed, and what the peer still sends is dropped.
    case abandon(BlobTransfer)
    /// Nil: all blobs of the revision are here.
    case tell(BlobWaiter, ReplicationError?)
    case serve(BlobRequest)
    /// Too many are queued.
    case refuse(BlobRequest)
}

/// A peer's request for a blob, or for a proof that we hold it.
struct BlobRequest: Sendable {
    var handle: AnswerHandle
    var slot: Int
    var digest: BlobDigest
    /// The document for which the peer wants it, if it says so; Couchbase Lite does since 3.0.
    var document: DocumentID?
    var compresses = false
    /// The peer already has everything before this offset.
    var offset: UInt64 = 0
    /// Set for a request for a proof.
    var nonce: [UInt8]?
}
