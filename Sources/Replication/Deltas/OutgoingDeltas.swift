import Documents
import Encodings

/// Revisions that wait to be sent as deltas, in order.
struct OutgoingDeltas {
    private var waiting: [OutgoingDocument] = []
    private var isWorking = false

    var isEmpty: Bool { waiting.isEmpty && !isWorking }

    mutating func append(_ document: OutgoingDocument) { waiting.append(document) }

    /// What is to be looked at now; nil while that is done for others.
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

/// How a revision travels.
enum DeltaOutcome: Sendable {
    case delta([UInt8])
    case withoutBase, notOpen, notSmaller, unfit, withoutMemory

    /// - Parameter knowsBlobs: the peer has inline blobs, and bodies in the form that is stored here.
    init(_ document: OutgoingDocument, _ answer: BaseLookUp.Answer, knowsBlobs: Bool, limits: ReplicationLimits) {
        switch answer {
        case .absent: self = .withoutBase
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

    /// Values that only applications can read have a new text each time.
    private static func holdsEncrypted(_ body: [UInt8]) -> Bool { body.withUnsafeBytes { $0.holds("\"encrypted$") } }

    /// Else the peer has `_attachments` in its body that are made on the way (see `LegacyAttachments`).
    private static func travelsAsStored(_ body: [UInt8], knowsBlobs: Bool) -> Bool {
        guard let scan = try? JSONScanner.scanDocument(body) else { return false }
        return !scan.hasReservedKeys && (knowsBlobs || !scan.mayHoldBlobs)
    }
}
