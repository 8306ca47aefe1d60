import Documents
import Interfaces
import NIOCore

/// Looks at the bodies of a batch: valid JSON, reserved keys, blobs. Not for an event loop, which a large document would hold up.
enum RevisionChecking {
    /// - Parameter unusualKeys: what the database allows, see `DatabaseOptions.unusualKeys`.
    static func check(_ batch: [ReceivedRevision], unusualKeys: Bool) -> [CheckOutcome] {
        batch.map { check($0, unusualKeys: unusualKeys) }
    }

    private static func check(_ revision: ReceivedRevision, unusualKeys: Bool) -> CheckOutcome {
        var body = [UInt8](revision.body.readableBytesView)
        var blobs: [BlobReference] = []
        var isRemoval = false
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
                offeredBefore: revision.offeredBefore, branches: revision.branches))
    }
}

