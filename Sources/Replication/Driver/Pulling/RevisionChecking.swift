import Documents
import Encodings
import Environment
import Interfaces
import NIOCore
import Synchronization

/// Revisions of a batch that nobody has looked at yet. Whoever checks them takes one after the other, so that a batch is not held twice; when
/// their connection ends they go at once, and with them the rest of the work.
final class UncheckedRevisions: Sendable {
    /// In reverse.
    private let rest: Mutex<[ReceivedRevision]>
    /// What the names of blobs take that were found in those that were looked at.
    private let named = Mutex(0)

    init(_ revisions: consuming [ReceivedRevision]) {
        revisions.reverse()
        rest = Mutex(revisions)
    }

    var count: Int { rest.withLock { $0.count } }

    func next() -> ReceivedRevision? { rest.withLock { $0.popLast() } }

    func giveUp() { rest.withLock { $0 = [] } }

    var namedBytes: Int { named.withLock { $0 } }
    func note(named bytes: Int) { named.withLock { $0 += bytes } }
}

/// Looks at the bodies of a batch: valid JSON, reserved keys, blobs. Not for an event loop, which a large document would hold up.
enum RevisionChecking {
    /// Bodies up to this size are looked at and stored without asking for memory.
    static let smallBody = 64 << 10
    /// Bytes of bodies that are looked at before other batches have their turn.
    private static let turnBytes = 64 << 10
    /// So many blobs are found without asking for memory.
    private static let fewNames = 40

    /// - Parameters:
    ///   - unusualKeys: what the database allows, see `DatabaseOptions.unusualKeys`.
    ///   - memory: has room for a large body once more, and for its values where these are needed; and for the names of many blobs.
    ///   - found: told what such names take now, and what was taken for them, to be kept until they are counted.
    static func check(
        _ batch: UncheckedRevisions, unusualKeys: Bool, _ memory: MemoryBudget,
        found: @escaping @Sendable (Int, MemoryBudget.Reservation) -> Void = { _, _ in }
    ) async -> [CheckOutcome] {
        var outcomes: [CheckOutcome] = []
        outcomes.reserveCapacity(batch.count)
        var (bytes, looks) = (0, MemoryBudget.mostLooks)
        while let revision = batch.next() {
            bytes += revision.body.readableBytes
            let names = countNames(revision)
            if names == 0, revision.body.readableBytes <= smallBody {
                outcomes.append(check(revision, unusualKeys: unusualKeys))
            } else {
                let (outcome, reservation) = await check(large: revision, names: names, unusualKeys, memory, &looks)
                outcomes.append(outcome)
                if names > 0, case .checked(let checked) = outcome, let reservation {
                    let held = HeldBytes.references(checked.blobs) + checked.blobs.count * HeldBytes.named
                    batch.note(named: held)
                    found(held, reservation)
                }
            }
            guard bytes >= turnBytes else { continue }
            // The batches of other connections have their turn: one that many large ones stand before would wait for all of them.
            bytes = 0
            await Task.yield()
        }
        return outcomes
    }

    /// How many blobs it may name; 0 where they are few.
    private static func countNames(_ revision: ReceivedRevision) -> Int {
        guard revision.body.readableBytes > fewNames * BlobReferences.leastBytes else { return 0 }
        let most = revision.body.withUnsafeReadableBytes { BlobReferences.most(in: $0.bindMemory(to: UInt8.self)) }
        return most > fewNames ? most : 0
    }

    /// For those whose memory is bounded otherwise.
    static func check(_ batch: [ReceivedRevision], unusualKeys: Bool) -> [CheckOutcome] {
        batch.map { check($0, unusualKeys: unusualKeys) }
    }

    /// A body with reserved keys is made values, all of it, which may take many times its size. All that is needed is asked for together: who has one
    /// part and waits for another would have others wait for it.
    ///
    /// - Returns: with what was taken for it.
    private static func check(
        large revision: ReceivedRevision, names: Int, _ unusualKeys: Bool, _ memory: MemoryBudget, _ looks: inout Int
    ) async -> (CheckOutcome, MemoryBudget.Reservation?) {
        let size = revision.body.readableBytes
        // One that could never have as much for what may be names has all that work may have.
        var needed = names > 0 ? min(HeldBytes.names(names, in: size), memory.workLimit) : 0
        var whatFor = names > 0 ? "may name \(Plural.count(names, "blob"))" : nil
        if size > smallBody {
            let scan = revision.body.withUnsafeReadableBytes { bytes in try? JSONScanner.scanDocument(bytes, unusualKeys: unusualKeys) }
            if scan?.hasReservedKeys == true {
                let values = JSONTreeSize.bytes(of: [UInt8](revision.body.readableBytesView))
                needed = max(values, min(needed + values, memory.workLimit))
                whatFor = "has reserved keys"
            } else {
                needed = names > 0 ? min(needed + size, memory.workLimit) : size
            }
        }
        let reservation = names > 0 ? await memory.reserve(needed, looks: &looks) : await memory.reserve(needed)
        // Where there is none a body without such things goes on all the same: nothing else is at it then.
        if reservation != nil || whatFor == nil {
            return withExtendedLifetime(reservation) { (check(revision, unusualKeys: unusualKeys), reservation) }
        }
        let isTooLarge = needed > memory.workLimit
        var error = ReplicationError(
            domain: .http, code: isTooLarge ? 413 : 503,
            message: "document \(revision.id) \(whatFor ?? ""), for which \(needed) bytes of memory are needed; "
                + (isTooLarge ? "half of limits.memory (\(memory.limit)) is less" : "limits.memory (\(memory.limit)) has no room now"))
        error.isOfSizeHere = isTooLarge
        return (.refused(revision, error), nil)
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
