import BLIP
import Documents
import NIOCore

/// A `rev` message that arrived: its ids checked, its body still bytes.
struct ReceivedRevision: Sendable {
    /// The number to reply to, nil when the sender wants no reply.
    var replyTo: UInt64?
    var isUrgent: Bool
    var id: DocumentID
    var revision: RevisionID
    /// Ancestors, newest first, without the revision itself.
    var history: [RevisionID]
    var isDeleted: Bool
    var sequence: RemoteSequence?
    var body: ByteBuffer
}

extension ReceivedRevision {
    /// Reads the properties of a `rev` request.
    ///
    /// - Throws: ``MessageError`` with the status that makes the sender give this document up (400, 413, 422).
    init(_ request: IncomingRequest, limits: ReplicationLimits) throws(MessageError) {
        // As bytes: an id that is not UTF-8 must be refused, not repaired into another id.
        guard let idBytes = request.properties.bytes(of: Property.id) else { throw .bad("a rev message needs the property id") }
        guard let revisionText = request.properties[Property.rev] else { throw .bad("a rev message needs the property rev") }
        do { id = try DocumentID(utf8: idBytes.readableBytesView) } catch { throw .bad("\(error)") }
        do { revision = try RevisionID(revisionText) } catch { throw .bad("\(error)") }
        history = []
        if let text = request.properties[Property.history], !text.isEmpty {
            for part in text.utf8.split(separator: UInt8(ascii: ",")) {
                guard history.count < limits.maximumReceivedHistory else {
                    throw MessageError(
                        code: 413, message: "the history of \(id) is longer than max_received_history (\(limits.maximumReceivedHistory))")
                }
                // The documentation allows blanks after a comma; they are no part of an id.
                let trimmed = Substring(part).drop { $0 == " " }
                do { history.append(try RevisionID(trimmed)) } catch { throw .bad("history of \(id): \(error)") }
            }
        }
        isDeleted = isTrue(request.properties[Property.deleted])
        sequence = request.properties[Property.sequence].map { RemoteSequence(json: $0) }
        body = request.body
        guard body.readableBytes <= limits.maximumDocumentBytes else {
            throw MessageError(
                code: 413,
                message: "document \(id) has \(body.readableBytes) bytes, max_document_bytes is \(limits.maximumDocumentBytes)")
        }
        if request.properties[Property.deltaSource] != nil {
            // We never announce deltas; 422 makes the peer send the whole body.
            throw MessageError(code: 422, message: "deltas are not accepted here, send document \(id) in full")
        }
        replyTo = request.isNoReply ? nil : request.number
        isUrgent = request.isUrgent
    }
}

/// A received revision after its body was looked at: valid JSON, reserved keys gone, blobs known.
struct CheckedRevision: Sendable {
    var replyTo: UInt64?
    var isUrgent: Bool
    var id: DocumentID
    var revision: RevisionID
    var history: [RevisionID]
    var isDeleted: Bool
    var sequence: RemoteSequence?
    var body: [UInt8]
    var blobs: [BlobReference]
    /// Body `{"_removed":true}`: Sync Gateway's way to say that the document left the peer's channels.
    var isRemoval: Bool
}

/// Checks the bodies of a batch. Runs on the concurrent pool: a large document must not hold up an event loop.
enum RevisionChecking {
    enum Outcome: Sendable {
        case checked(CheckedRevision)
        case refused(replyTo: UInt64?, isUrgent: Bool, id: DocumentID, sequence: RemoteSequence?, code: Int, message: String)
    }

    @concurrent
    static func check(_ batch: [ReceivedRevision]) async -> [Outcome] {
        batch.map { check($0) }
    }

    private static func check(_ revision: ReceivedRevision) -> Outcome {
        var body = [UInt8](revision.body.readableBytesView)
        var blobs: [BlobReference] = []
        var isRemoval = false
        do throws(MessageError) {
            if body.isEmpty {
                guard revision.isDeleted else { throw MessageError.bad("the body of document \(revision.id) is empty, a JSON object is needed") }
                body = Array("{}".utf8)
            }
            let scan: DocumentScan
            do { scan = try body.withUnsafeBytes { bytes throws(JSONError) in try JSONScanner.scanDocument(bytes) } } catch {
                throw MessageError.bad("the body of document \(revision.id) is refused: \(error)")
            }
            if scan.mayHoldBlobs || scan.hasReservedKeys {
                if scan.hasReservedKeys, case .object(let object)? = try? JSONValue(parsing: body), case .bool(true)? = object["_removed"] {
                    isRemoval = true
                }
                do {
                    if scan.hasReservedKeys { body = try ReservedKeys.strip(from: body) }
                    if scan.mayHoldBlobs { blobs = try BlobReferences.find(in: body) }
                } catch { throw MessageError.bad("the body of document \(revision.id) is refused: \(error)") }
            }
        } catch {
            return .refused(
                replyTo: revision.replyTo, isUrgent: revision.isUrgent, id: revision.id, sequence: revision.sequence,
                code: error.code, message: error.message)
        }
        return .checked(
            CheckedRevision(
                replyTo: revision.replyTo, isUrgent: revision.isUrgent, id: revision.id, revision: revision.revision,
                history: revision.history, isDeleted: revision.isDeleted, sequence: revision.sequence, body: body,
                blobs: blobs, isRemoval: isRemoval))
    }
}

