import Documents
import Interfaces
import NIOCore

/// A revision of one collection that waits for blobs.
struct BlobWaiter: Hashable, Sendable {
    var slot: Int
    var fetch: FetchID
}

/// Blobs of a revision that the peer may have anyway.
enum KnownBlobs: Sendable {
    case all
    case some(Set<BlobDigest>)

    func contains(_ digest: BlobDigest) -> Bool {
        switch self {
        case .all: true
        case .some(let digests): digests.contains(digest)
        }
    }

    /// How many digests it holds.
    var count: Int { if case .some(let digests) = self { digests.count } else { 0 } }
}

/// One attempt to have a blob; what still comes of an earlier attempt is known by its number.
struct BlobTransfer: Hashable, Sendable {
    var digest: BlobDigest
    var number: Int
}

/// What became of comparing the peer's proof with ours.
enum ProofOutcome: Sendable {
    case right, wrong
    /// Our own file could not be read, or is altered.
    case unknown
}

/// Something that happened to blobs.
enum BlobEvent: Sendable {
    /// A revision refers to these; it can be stored when they are here, and when the peer has shown that it has them.
    /// `known`: those that it need not show, because it may have them anyway.
    case needed(BlobWaiter, DocumentID, [BlobReference], known: KnownBlobs)
    /// Answers ``BlobAction/look(_:)``.
    case looked(BlobTransfer, isHere: Bool)
    /// The peer answers ``BlobAction/askProof(_:slot:for:)``; nil: it gives none.
    case proofArrived(BlobTransfer, BlobDigest?)
    /// Answers ``BlobAction/checkProof(_:_:)``.
    case proofChecked(BlobTransfer, ProofOutcome)
    /// Answers ``BlobAction/begin(_:resumes:)``: the file is open, and has this much of the blob, of an earlier connection.
    case writerOpened(BlobTransfer, offset: UInt64 = 0)
    /// The peer, which was asked for the rest of the blob, begins to send: the rest, or all of it.
    case resumes(BlobTransfer, isRest: Bool)
    /// The peer sends it.
    case bytesArrived(BlobTransfer, ByteBuffer)
    /// Answers ``BlobAction/write(_:_:)``.
    case written(BlobTransfer, bytes: Int)
    /// The peer has sent all of it.
    case ended(BlobTransfer)
    /// Answers ``BlobAction/install(_:)``: durable, and what its digest says.
    case installed(BlobTransfer)
    /// Answers ``BlobAction/install(_:)``: what an earlier connection had left and what came now are not the blob.
    case joinedWrongly(BlobTransfer)
    /// The peer refused, the disk failed, or the bytes are others than the digest says.
    case failed(BlobTransfer, ReplicationError)

    /// The peer wants a blob, or the proof that we hold it.
    case wanted(BlobRequest)
    /// Answers ``BlobAction/serve(_:)``: sent to its end, refused, or given up.
    case served(AnswerHandle)
}

/// Something to do for blobs.
enum BlobAction: Sendable {
    case look(BlobTransfer)
    /// Asks the peer to prove that it holds what is here already.
    case askProof(BlobTransfer, slot: Int, for: DocumentID)
    case checkProof(BlobTransfer, BlobDigest)
    /// Opens a file for the bytes. `resumes`: the one that an earlier connection has left, if there is one.
    case begin(BlobTransfer, resumes: Bool = true)
    /// Asks the peer for it, from an offset on.
    case request(BlobTransfer, slot: Int, for: DocumentID, compresses: Bool, offset: UInt64 = 0)
    /// What an earlier connection has left is not used: the peer sends all of it.
    case startOver(BlobTransfer)
    /// The peer goes on where an earlier connection has ended.
    case resumed(BlobTransfer, offset: UInt64)
    case write(BlobTransfer, ByteBuffer)
    /// So many bytes are on disk: the peer may send more.
    case consumed(BlobTransfer, bytes: Int)
    case install(BlobTransfer)
    /// Nobody wants the rest: the file goes, and what the peer still sends is dropped.
    case abandon(BlobTransfer)
    /// Nil: all blobs of the revision are here.
    case tell(BlobWaiter, ReplicationError?)
    case serve(BlobRequest)
}

/// A peer's request for a blob, or for the proof that we hold it.
struct BlobRequest: Sendable {
    var handle: AnswerHandle
    var slot: Int
    var digest: BlobDigest
    /// The document that the peer wants it for, if it says so; Couchbase Lite does since 3.0.
    var document: DocumentID?
    var compresses = false
    /// It has what stands before.
    var offset: UInt64 = 0
    /// Of a request for proof.
    var nonce: [UInt8]?
}
