import Documents
import DocumentStore
import NIOCore

/// Revisions that arrived as deltas and wait to be expanded, in order. A few that are short on the wire may become large: the others wait until these
/// are stored.
struct IncomingDeltas {
    private var waiting: [ReceivedRevision] = []
    private var isWorking = false
    /// Memory they hold while they wait, in bytes.
    private(set) var bytes = 0

    var isEmpty: Bool { waiting.isEmpty && !isWorking }

    mutating func append(_ revision: ReceivedRevision) {
        waiting.append(revision)
        bytes += revision.bytes
    }

    /// - Parameter held: returns those of the documents whose deltas have to wait; nil: all of them.
    mutating func begin(limit: Int, except held: (Set<DocumentID>) -> Set<DocumentID>?) -> [ReceivedRevision]? {
        guard !isWorking, !waiting.isEmpty else { return nil }
        let next = first(limit)
        guard let held = held(Set(next.map(\.id))) else { return nil }
        let ready = next.filter { !held.contains($0.id) }
        if ready.isEmpty { return nil }
        // The deltas of one document keep their order.
        if ready.count < next.count { waiting.replaceSubrange(..<next.count, with: ready + next.filter { held.contains($0.id) }) }
        isWorking = true
        return ready
    }

    func first(_ count: Int) -> [ReceivedRevision] { Array(waiting.prefix(count)) }

    mutating func end(_ count: Int) {
        for revision in waiting.prefix(count) { bytes -= revision.bytes }
        waiting.removeFirst(min(count, waiting.count))
        isWorking = false
    }
}

/// The result of expanding a delta.
enum AppliedDelta: Sendable {
    case whole(ReceivedRevision, saved: Int)
    /// The peer has to send the whole body.
    case refused(ReceivedRevision, MessageError)
    /// It is in conflict, or already present, and needs no body.
    case bodiless(ReceivedRevision, InsertOutcome)

    init(_ revision: ReceivedRevision, _ answer: consuming BaseLookUp.Answer, limits: ReplicationLimits) {
        if case .needless(let outcome) = answer {
            self = .bodiless(revision, outcome)
            return
        }
        do throws(MessageError) {
            var whole = revision
            // The base is released before the body is copied.
            let body = try Self.body(revision, consume answer, limits)
            whole.deltaSource = nil
            whole.body = ByteBuffer(bytes: body)
            self = .whole(whole, saved: max(0, body.count - revision.body.readableBytes))
        } catch {
            self = .refused(revision, error)
        }
    }

    private static func body(
        _ revision: ReceivedRevision, _ answer: consuming BaseLookUp.Answer, _ limits: ReplicationLimits
    ) throws(MessageError) -> [UInt8] {
        if case .tooLarge = answer { throw tooLarge(revision, limits) }
        // The peer must not learn whether the base is missing, or just not accessible to it.
        guard case .base(let base) = consume answer, !revision.isDeleted else {
            throw .needsWhole("the delta's base is not here, send document \(revision.id) in full")
        }
        guard revision.body.readableBytes <= limits.maximumDeltaBodyBytes else {
            throw tooLarge(revision, limits)
        }
        let delta = [UInt8](revision.body.readableBytesView)
        do {
            // The sender's body has them, as is usual for a peer that does not support inline blobs.
            let speaksOfAttachments = try JSONScanner.scanDocument(delta).hasReservedKeys
            let old = speaksOfAttachments
                ? try LegacyAttachments.add(to: base, generation: revision.deltaSource?.generation ?? 0) : base
            return try JSONDelta.apply(delta, to: old, limit: limits.maximumDocumentBytes)
        } catch {
            throw .needsWhole("\(error); send document \(revision.id) in full")
        }
    }
    private static func tooLarge(_ revision: ReceivedRevision, _ limits: ReplicationLimits) -> MessageError {
        .needsWhole(
            "a delta and its base have up to max_delta_body_bytes (\(limits.maximumDeltaBodyBytes)), send document \(revision.id) in full")
    }
}

extension IncomingRevision {
    /// What is known about a revision before its delta is expanded.
    init(bodiless revision: ReceivedRevision) {
        self.init(id: revision.id, revision: revision.revision, history: revision.history, isDeleted: revision.isDeleted, body: [])
        (peerHad, offeredBefore, vector) = (revision.peerHad, revision.offeredBefore, revision.vector)
    }
}
