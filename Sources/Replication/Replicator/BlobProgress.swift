import Documents
import Interfaces
import Synchronization

/// A blob being transferred to or from the peer.
public struct BlobUnderWay: Sendable, Equatable {
    public var direction: Direction
    /// The document that it belongs to; nil if the peer did not say for which one it asks.
    public var document: DocumentID?
    /// The digest, or the name of an attachment whose digest is not known yet.
    public var name: String
    /// Bytes transferred so far.
    public var bytes: UInt64 = 0
    /// Nil if unknown.
    public var size: UInt64?
    /// 0 if the size is unknown.
    public var bytesLeft: UInt64 { size.map { $0 > bytes ? $0 - bytes : 0 } ?? 0 }

    init(_ direction: Direction, _ document: DocumentID?, _ name: String, size: UInt64?) {
        (self.direction, self.document, self.name, self.size) = (direction, document, name, size)
    }
}

/// The blob transfers of a replicator, written by its session and read by anyone.
final class BlobProgress: Sendable {
    /// Identifies a transfer.
    struct Ticket: Hashable, Sendable { fileprivate var number: Int }

    private struct State {
        var last = 0
        var underWay: [Int: BlobUnderWay] = [:]
    }

    private let state = Mutex(State())

    /// In the order in which they began.
    var underWay: [BlobUnderWay] { state.withLock { $0.underWay.sorted { $0.key < $1.key }.map(\.value) } }

    func begin(_ blob: BlobUnderWay) -> Ticket {
        state.withLock { state in
            state.last += 1
            state.underWay[state.last] = blob
            return Ticket(number: state.last)
        }
    }

    /// - Returns: the direction of the transfer; nil if it is no longer in progress.
    func advance(_ ticket: Ticket, by bytes: Int) -> Direction? {
        state.withLock { state in
            state.underWay[ticket.number]?.bytes += UInt64(bytes)
            return state.underWay[ticket.number]?.direction
        }
    }

    /// It is sent from the beginning after all.
    func rewind(_ ticket: Ticket) { state.withLock { $0.underWay[ticket.number]?.bytes = 0 } }

    func end(_ ticket: Ticket) { state.withLock { $0.underWay[ticket.number] = nil } }
    func endAll() { state.withLock { $0.underWay = [:] } }
}

extension ReplicationCounters {
    func moved(_ ticket: BlobProgress.Ticket?, by bytes: Int) {
        guard let direction = ticket.flatMap({ blobs.advance($0, by: bytes) }) else { return }
        moved(direction, by: bytes)
    }

    func moved(_ direction: Direction, by bytes: Int) {
        update { counts in
            if direction == .push { counts.blobBytesSent += UInt64(bytes) } else { counts.blobBytesReceived += UInt64(bytes) }
        }
    }
}
