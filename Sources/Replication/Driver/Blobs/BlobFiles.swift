import Documents
import DocumentStore
import Interfaces
import NIOCore

/// The open files of a connection's blobs, and what the peer may ask for at any time. Confined to its session.
struct BlobFiles {
    /// A blob on its way in. Pieces are written one after the other: the blob workers keep no order among jobs.
    struct Written {
        var writer: BlobWriter
        /// What an earlier connection has left of it.
        var offset: UInt64
        var ticket: BlobProgress.Ticket?
        var waiting: [ByteBuffer] = []
        var isWriting = false
    }

    /// A blob on its way out.
    struct Served {
        let reader: BlobReader
        let ticket: BlobProgress.Ticket
        var offset: UInt64 = 0
    }

    /// What there is of a blob that a peer asks for.
    enum Opened: Sendable {
        case reader(BlobReader)
        /// It has to be read through first.
        case check(BlobCheck)
    }

    var written: [BlobTransfer: Written] = [:]
    var served: [AnswerHandle: Served] = [:]
    /// What the peer was given to prove a blob with.
    var nonces: [BlobTransfer: [UInt8]] = [:]
    var lent = LentBlobs()
    /// What the peer had us prove.
    var proofs: BlobProofs

    init(_ limits: ReplicationLimits) { proofs = BlobProofs(limits) }

    mutating func end() {
        written = [:]
        served = [:]
    }
}
