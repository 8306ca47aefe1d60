import Documents
import Encodings

/// Revisions that may be sent as deltas, waiting in order.
struct OutgoingDeltas {
    private var waiting: [OutgoingDocument] = []
    private var isWorking = false

    var isEmpty: Bool { waiting.isEmpty && !isWorking }

    mutating func append(_ document: OutgoingDocument) { waiting.append(document) }

    /// The revisions to process now; nil while others are being processed.
    mutating func begin(limit: Int) -> [OutgoingDocument]? {
        guard !isWorking, !waiting.isEmpty else { return nil }
        isWorking = true
        return first(limit)
    }

    func first(_ count: Int) -> [OutgoingDocument] { Array(waiting.prefix(count)) }

    mutating func end(_ count: Int) {
        waiting.removeFirst(min(count, waiting.count))
        isWorking = false
    }
}

/// How a revision is sent.
enum DeltaOutcome: Sendable {
    case delta([UInt8])
    case withoutBase, notOpen, notSmaller, unfit, withoutMemory

    /// - Parameter knowsBlobs: the peer supports inline blobs, and has bodies in the form stored here.
    init(_ document: OutgoingDocument, _ answer: BaseLookUp.Answer, knowsBlobs: Bool, limits: ReplicationLimits) {
        switch answer {
        case .absent, .needless: self = .withoutBase
        case .notOpen: self = .notOpen
        case .tooLarge: self = .unfit
        case .base(let base):
            guard (limits.minimumDeltaBytes...limits.maximumDeltaBodyBytes).contains(base.count),
                !Self.holdsEncrypted(base), !Self.holdsEncrypted(document.body),
                Self.travelsAsStored(base, knowsBlobs: knowsBlobs), Self.travelsAsStored(document.body, knowsBlobs: knowsBlobs),
                let delta = JSONDelta.make(from: base, to: document.body)
            else {
                self = .unfit
                return
            }
            self = delta.count < document.body.count ? .delta(delta) : .notSmaller
        }
    }

    /// Values that only applications can decrypt have a different text each time.
    private static func holdsEncrypted(_ body: [UInt8]) -> Bool { body.withUnsafeBytes { $0.holds("\"encrypted$") } }

    /// Otherwise the peer's body contains `_attachments` that are generated for sending (see `LegacyAttachments`).
    private static func travelsAsStored(_ body: [UInt8], knowsBlobs: Bool) -> Bool {
        guard let scan = try? JSONScanner.scanDocument(body) else { return false }
        return !scan.hasReservedKeys && (knowsBlobs || !scan.mayHoldBlobs)
    }
}
