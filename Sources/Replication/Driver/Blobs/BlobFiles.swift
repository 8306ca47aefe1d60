import Documents
import DocumentStore
import Interfaces
import NIOCore

/// The open blob files of a connection, and what the peer may request at any time. Confined to its session.
struct BlobFiles {
    /// An incoming blob. Its pieces are written one at a time: the blob workers do not keep jobs in order.
    struct Written {
        var writer: BlobWriter
        /// Bytes of it left by an earlier connection.
        var offset: UInt64
        var ticket: BlobProgress.Ticket?
        var waiting: [ByteBuffer] = []
        var isWriting = false
    }

    /// An outgoing blob.
    struct Served {
        let reader: BlobReader
        let ticket: BlobProgress.Ticket
        var offset: UInt64 = 0
    }

    /// The state of a blob that a peer requested.
    enum Opened: Sendable {
        case reader(BlobReader)
        /// It has to be verified by reading all of it first.
        case check(BlobCheck)
    }

    var written: [BlobTransfer: Written] = [:]
    var served: [AnswerHandle: Served] = [:]
    /// The nonces given to the peer for its proofs.
    var nonces: [BlobTransfer: [UInt8]] = [:]
    var inFlight = InFlightBlobs()
    /// Proofs that the peer requested from us.
    var proofs: BlobProofs

    init(_ limits: ReplicationLimits) { proofs = BlobProofs(limits) }

    mutating func end() {
        written = [:]
        served = [:]
    }
}
