import Documents
import Environment
import Interfaces
import NIOCore
import Synchronization

/// Something that goes to a closure and is nobody else's from then on: what a closure captures, it holds to its end.
final class Handover<Value: Sendable>: Sendable {
    private let value: Mutex<Value?>

    init(_ value: Value) { self.value = Mutex(value) }

    func take() -> Value? { value.withLock { $0.take() } }
}

/// Looks at the bodies of a batch: valid JSON, reserved keys, blobs. Not for an event loop, which a large document would hold up.
enum RevisionChecking {
    /// Bodies up to this size are looked at and stored without asking for memory.
    static let smallBody = 64 << 10

    /// - Parameters:
    ///   - unusualKeys: what the database allows, see `DatabaseOptions.unusualKeys`.
    ///   - memory: has room for a large body once more, and for its values where these are needed.
    static func check(_ batch: consuming [ReceivedRevision], unusualKeys: Bool, _ memory: MemoryBudget) async -> [CheckOutcome] {
        var outcomes: [CheckOutcome] = []
        outcomes.reserveCapacity(batch.count)
        // Each goes as soon as it is checked, so that a batch is not held twice.
        batch.reverse()
        while let revision = batch.popLast() {
            if revision.body.readableBytes <= smallBody {
                outcomes.append(check(revision, unusualKeys: unusualKeys))
            } else {
                outcomes.append(await check(large: revision, unusualKeys, memory))
            }
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
        return .refused(
            revision,
            ReplicationError(
                domain: .http, code: isTooLarge ? 413 : 503,
                message: "document \(revision.id) has reserved keys, for which \(bytes) bytes of memory are needed; "
                    + (isTooLarge ? "half of limits.memory (\(memory.limit)) is less" : "limits.memory (\(memory.limit)) has no room now")))
    }

    private static func check(_ revision: ReceivedRevision, unusualKeys: Bool) -> CheckOutcome {
        var body = [UInt8](revision.body.readableBytesView)
        var blobs: [BlobReference] = []
        var isRemoval = false
        var expiry: DocumentExpiry?
        do throws(MessageError) {
            if body.isEmpty {
                guard revision.isDeleted else { throw MessageError.bad("the body of document \(revision.id) is empty, a JSON object is needed") }
                body = Array("{}".utf8)
            }
            let scan: DocumentScan
            do {
                scan = try body.withUnsafeBytes { bytes throws(JSONError) in
                    try JSONScanner.scanDocument(bytes, unusualKeys: unusualKeys)
                }
            } catch {
                throw MessageError.bad("the body of document \(revision.id) is refused: \(error)")
            }
            if scan.mayHoldBlobs || scan.hasReservedKeys {
                if scan.hasReservedKeys, case .object(let object)? = try? JSONValue(parsing: body) {
                    if let problem = ReservedKeys.problem(in: object) {
                        throw MessageError.bad("the body of document \(revision.id) is refused: \(problem)")
                    }
                    if case .bool(true)? = object["_removed"] { isRemoval = true }
                    expiry = object["_exp"].flatMap { DocumentExpiry($0) }
                }
                do {
                    if scan.hasReservedKeys { body = try ReservedKeys.strip(from: body) }
                    if scan.mayHoldBlobs { blobs = try BlobReferences.find(in: body) }
                } catch { throw MessageError.bad("the body of document \(revision.id) is refused: \(error)") }
            }
        } catch {
            return .refused(revision, ReplicationError(domain: .http, code: error.code, message: error.message))
        }
        return .checked(
            CheckedRevision(
                replyTo: revision.replyTo, id: revision.id, revision: revision.revision,
                history: revision.history, isDeleted: revision.isDeleted, sequence: revision.sequence, body: body,
                blobs: blobs, hasShownBlobs: revision.hasShownBlobs, isRemoval: isRemoval, peerHad: revision.peerHad,
                offeredBefore: revision.offeredBefore, branches: revision.branches, expiry: expiry))
    }
}

