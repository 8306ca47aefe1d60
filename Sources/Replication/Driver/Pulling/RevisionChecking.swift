import Documents
import Encodings
import Environment
import Interfaces
import NIOCore
import Synchronization

/// Revisions of a batch that are not checked yet. The checker takes them one at a time, so that a batch is not in memory twice; when their connection
/// ends they are dropped at once, and the remaining work with them.
final class UncheckedRevisions: Sendable {
    /// In reverse order.
    private let rest: Mutex<[ReceivedRevision]>
    /// Memory of the blob names found in the revisions checked so far, in bytes.
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

/// Checks the bodies of a batch: valid JSON, reserved keys, blobs. Not on an event loop, which a large document would block.
enum RevisionChecking {
    /// - Parameters:
    ///   - unusualKeys: what the database allows, see `DatabaseOptions.unusualKeys`.
    ///   - memory: reserves memory for a second copy of a large body, for its parsed values if they are needed, and for the names of many blobs.
    ///   - found: receives the memory that such names take, and their reservation, to be kept until the accounts include them.
    static func check(
        _ batch: UncheckedRevisions, unusualKeys: Bool, _ memory: MemoryBudget,
        found: @escaping @Sendable (Int, MemoryBudget.Reservation) -> Void = { _, _ in }
    ) async -> [CheckOutcome] {
        var outcomes: [CheckOutcome] = []
        outcomes.reserveCapacity(batch.count)
        var (bytes, attemptsLeft) = (0, MemoryBudget.maximumRoomChecks)
        while let revision = batch.next() {
            bytes += revision.body.readableBytes
            let names = countNames(revision)
            if names == 0, revision.body.readableBytes <= DriverBounds.smallBodyBytes {
                outcomes.append(check(revision, unusualKeys: unusualKeys))
            } else {
                let (outcome, reservation) = await check(large: revision, names: names, unusualKeys, memory, &attemptsLeft)
                outcomes.append(outcome)
                if names > 0, case .checked(let checked) = outcome, let reservation {
                    let held = HeldBytes.references(checked.blobs) + checked.blobs.count * HeldBytes.named
                    batch.note(named: held)
                    found(held, reservation)
                }
            }
            guard bytes >= DriverBounds.checkedBytes else { continue }
            // Gives other connections' batches a turn: otherwise a batch queued behind many large bodies would wait for all of them.
            bytes = 0
            await Task.yield()
        }
        return outcomes
    }

    /// Upper bound of the number of blobs it names; 0 if there are few.
    private static func countNames(_ revision: ReceivedRevision) -> Int {
        guard revision.body.readableBytes > DriverBounds.namesWithoutReservation * BlobReferences.leastBytes else { return 0 }
        let most = revision.body.withUnsafeReadableBytes { BlobReferences.most(in: $0.bindMemory(to: UInt8.self)) }
        return most > DriverBounds.namesWithoutReservation ? most : 0
    }

    /// For callers whose memory is bounded in another way.
    static func check(_ batch: [ReceivedRevision], unusualKeys: Bool) -> [CheckOutcome] {
        batch.map { check($0, unusualKeys: unusualKeys) }
    }

    /// A body with reserved keys is parsed completely, which may take many times its size. All memory needed is reserved in one go: holding one part
    /// while waiting for another would make others wait.
    ///
    /// - Returns: the outcome, with the reservation made for it.
    private static func check(
        large revision: ReceivedRevision, names: Int, _ unusualKeys: Bool, _ memory: MemoryBudget, _ attemptsLeft: inout Int
    ) async -> (CheckOutcome, MemoryBudget.Reservation?) {
        let size = revision.body.readableBytes
        // If that could never be reserved for potential names, everything that work may use is reserved.
        var needed = names > 0 ? min(HeldBytes.names(names, in: size), memory.workLimit) : 0
        var reservationPurpose = names > 0 ? "may name \(Plural.count(names, "blob"))" : nil
        var scan: DocumentScan?
        if size > DriverBounds.smallBodyBytes {
            scan = revision.body.withUnsafeReadableBytes { bytes in try? JSONScanner.scanDocument(bytes, unusualKeys: unusualKeys) }
            if scan?.hasReservedKeys == true {
                let values = JSONTreeSize.bytes(of: [UInt8](revision.body.readableBytesView))
                needed = max(values, min(needed + values, memory.workLimit))
                reservationPurpose = "has reserved keys"
            } else {
                needed = names > 0 ? min(needed + size, memory.workLimit) : size
            }
        }
        let reservation = names > 0 ? await memory.reserve(needed, attemptsLeft: &attemptsLeft) : await memory.reserve(needed)
        // Without a reservation, a body free of such things is processed anyway: no other work is running then.
        if reservation != nil || reservationPurpose == nil {
            return withExtendedLifetime(reservation) { (check(revision, unusualKeys: unusualKeys, scan: scan), reservation) }
        }
        let isTooLarge = needed > memory.workLimit
        // Work may use half of it.
        let setting = max(2 * needed, MemoryBudget.setting(forDocument: size))
        var error = ReplicationError(
            domain: .http, code: isTooLarge ? 413 : 503,
            message: "document \(revision.id) \(reservationPurpose ?? ""), for which \(needed) bytes of memory are needed; "
                + (isTooLarge ? "half of limits.memory (\(memory.limit)) is less, it takes limits: { memory: \(MemoryBudget.settingText(setting)) } or more" : "limits.memory (\(memory.limit)) has no room now"))
        error.exceedsLocalSize = isTooLarge
        if isTooLarge { error.neededMemory = setting }
        return (.refused(revision, error), nil)
    }

    private static func check(_ revision: ReceivedRevision, unusualKeys: Bool, scan: DocumentScan? = nil) -> CheckOutcome {
        let checked: CheckedBody
        do {
            checked = try check([UInt8](revision.body.readableBytesView), of: revision.id, isDeleted: revision.isDeleted, unusualKeys, scan: scan)
        } catch { return .refused(revision, error) }
        var whole = CheckedRevision(
            replyTo: revision.replyTo, id: revision.id, revision: revision.revision,
            history: revision.history, vector: revision.vector, isDeleted: revision.isDeleted, sequence: revision.sequence, body: checked.body,
            blobs: checked.blobs, hasShownBlobs: revision.hasShownBlobs, isRemoval: checked.isRemoval, peerHad: revision.peerHad,
            offeredBefore: revision.offeredBefore, branches: revision.branches, expiry: checked.expiry)
        if let attachments = revision.attachments { (whole.attachments, whole.blobs) = (attachments, []) }
        return .checked(whole)
    }

    /// A body after checking.
    struct CheckedBody {
        /// Without reserved keys.
        var body: [UInt8]
        var blobs: [BlobReference] = []
        var isRemoval = false
        var expiry: DocumentExpiry?
    }

    /// - Parameter known: the result of an earlier scan.
    /// - Throws: ``ReplicationError`` 400 if it is not a valid document.
    static func check(
        _ body: [UInt8], of id: DocumentID, isDeleted: Bool, _ unusualKeys: Bool, scan known: DocumentScan? = nil
    ) throws(ReplicationError) -> CheckedBody {
        var checked = CheckedBody(body: body)
        do throws(MessageError) {
            if body.isEmpty {
                guard isDeleted else { throw MessageError.bad("the body of document \(id) is empty, a JSON object is needed") }
                checked.body = Array("{}".utf8)
            }
            let scan: DocumentScan
            do {
                scan = try known ?? checked.body.withUnsafeBytes { bytes throws(JSONError) in
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
