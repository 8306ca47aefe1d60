import Documents
import Environment
import Interfaces
import NIOCore
import Synchronization

/// Revisions of a batch that nobody has looked at yet. Whoever checks them takes one after the other, so that a batch is not held twice; when
/// their connection ends they go at once, and with them the rest of the work.
final class UncheckedRevisions: Sendable {
    /// In reverse.
    private let rest: Mutex<[ReceivedRevision]>

    init(_ revisions: consuming [ReceivedRevision]) {
        revisions.reverse()
        rest = Mutex(revisions)
    }

    var count: Int { rest.withLock { $0.count } }

    func next() -> ReceivedRevision? { rest.withLock { $0.popLast() } }

    func giveUp() { rest.withLock { $0 = [] } }
}

/// Looks at the bodies of a batch: valid JSON, reserved keys, blobs. Not for an event loop, which a large document would hold up.
enum RevisionChecking {
    /// Bodies up to this size are looked at and stored without asking for memory.
    static let smallBody = 64 << 10
    /// Bytes of bodies that are looked at before other batches have their turn.
    private static let turnBytes = 64 << 10

    /// - Parameters:
    ///   - unusualKeys: what the database allows, see `DatabaseOptions.unusualKeys`.
    ///   - memory: has room for a large body once more, and for its values where these are needed.
    static func check(_ batch: UncheckedRevisions, unusualKeys: Bool, _ memory: MemoryBudget) async -> [CheckOutcome] {
        var outcomes: [CheckOutcome] = []
        outcomes.reserveCapacity(batch.count)
        var bytes = 0
        while let revision = batch.next() {
            bytes += revision.body.readableBytes
            if revision.body.readableBytes <= smallBody {
                outcomes.append(check(revision, unusualKeys: unusualKeys))
            } else {
                outcomes.append(await check(large: revision, unusualKeys, memory))
            }
            guard bytes >= turnBytes else { continue }
            // The batches of other connections have their turn: one that many large ones stand before would wait for all of them.
            bytes = 0
            await Task.yield()
        }
        return outcomes
    }

    /// For those whose memory is bounded otherwise.
    static func check(_ batch: [ReceivedRevision], unusualKeys: Bool) -> [CheckOutcome] {
        batch.map { check($0, unusualKeys: unusualKeys) }
    }

    /// A body with reserved keys is made values, all of it, which may take many times its size.
    private static func check(large revision: ReceivedRevision, _ unusualKeys: Bool, _ memory: MemoryBudget) async -> CheckOutcome {
        let scan = revision.body.withUnsafeReadableBytes { bytes in try? JSONScanner.scanDocument(bytes, unusualKeys: unusualKeys) }
        guard scan?.hasReservedKeys == true else {
            // Where there is none it goes on all the same: nothing else is at it then.
            let reservation = await memory.reserve(revision.body.readableBytes)
            return withExtendedLifetime(reservation) { check(revision, unusualKeys: unusualKeys) }
        }
        let bytes = JSONTreeSize.bytes(of: [UInt8](revision.body.readableBytesView))
        if let reservation = await memory.reserve(bytes) {
            return withExtendedLifetime(reservation) { check(revision, unusualKeys: unusualKeys) }
        }
        let isTooLarge = bytes > memory.workLimit
        var error = ReplicationError(
            domain: .http, code: isTooLarge ? 413 : 503,
            message: "document \(revision.id) has reserved keys, for which \(bytes) bytes of memory are needed; "
                + (isTooLarge ? "half of limits.memory (\(memory.limit)) is less" : "limits.memory (\(memory.limit)) has no room now"))
        error.isOfSizeHere = isTooLarge
        return .refused(revision, error)
    }

    private static func check(_ revision: ReceivedRevision, unusualKeys: Bool) -> CheckOutcome {
        let checked: CheckedBody
        do { checked = try check([UInt8](revision.body.readableBytesView), of: revision.id, isDeleted: revision.isDeleted, unusualKeys) } catch {
            return .refused(revision, error)
        }
        var whole = CheckedRevision(
            replyTo: revision.replyTo, id: revision.id, revision: revision.revision,
            history: revision.history, vector: revision.vector, isDeleted: revision.isDeleted, sequence: revision.sequence, body: checked.body,
            blobs: checked.blobs, hasShownBlobs: revision.hasShownBlobs, isRemoval: checked.isRemoval, peerHad: revision.peerHad,
            offeredBefore: revision.offeredBefore, branches: revision.branches, expiry: checked.expiry)
        if let attachments = revision.attachments { (whole.attachments, whole.blobs) = (attachments, []) }
        return .checked(whole)
    }

    /// What a body is, once it was looked at.
    struct CheckedBody {
        /// Without reserved keys.
        var body: [UInt8]
        var blobs: [BlobReference] = []
        var isRemoval = false
        var expiry: DocumentExpiry?
    }

    /// - Throws: ``ReplicationError`` 400 of what is no document.
    static func check(_ body: [UInt8], of id: DocumentID, isDeleted: Bool, _ unusualKeys: Bool) throws(ReplicationError) -> CheckedBody {
        var checked = CheckedBody(body: body)
        do throws(MessageError) {
            if body.isEmpty {
                guard isDeleted else { throw MessageError.bad("the body of document \(id) is empty, a JSON object is needed") }
                checked.body = Array("{}".utf8)
            }
            let scan: DocumentScan
            do {
                scan = try checked.body.withUnsafeBytes { bytes throws(JSONError) in
                    try JSONScanner.scanDocument(bytes, unusualKeys: unusualKeys)
                }
            } catch {
                throw MessageError.bad("the body of document \(id) is refused: \(error)")
            }
            guard scan.mayHoldBlobs || scan.hasReservedKeys else { return checked }
            if scan.hasReservedKeys, case .object(let object)? = try? JSONValue(parsing: checked.body) {
                if let problem = ReservedKeys.problem(in: object) {
                    throw MessageError.bad("the body of document \(id) is refused: \(problem)")
                }
                if case .bool(true)? = object["_removed"] { checked.isRemoval = true }
                checked.expiry = object["_exp"].flatMap { DocumentExpiry($0) }
            }
            do {
                if scan.hasReservedKeys { checked.body = try ReservedKeys.strip(from: checked.body) }
                if scan.mayHoldBlobs { checked.blobs = try BlobReferences.find(in: checked.body) }
            } catch { throw MessageError.bad("the body of document \(id) is refused: \(error)") }
        } catch {
            throw ReplicationError(error)
        }
        return checked
    }
}
