import Documents
import DocumentStore
import Interfaces
import NIOCore

/// One entry in the answer to `_bulk_get` or `open_revs`.
enum FoundRevision: Sendable {
    case document(FoundDocument)
    /// The peer's error in place of a document.
    case missing(DocumentID, RevisionID?, error: String)
    /// A document that cannot be read.
    case bad(DocumentID, RevisionID?, String)
    /// It is unknown which document it belongs to.
    case unreadable(String)

    /// - Parameter asked: the requested document, if the answer names it outside its entries.
    init(_ value: JSONValue, of asked: DocumentID? = nil) {
        if let document = value["ok"]?.asObject {
            do { self = .document(try FoundDocument(document)) } catch {
                let id = document["_id"]?.asString.flatMap { try? DocumentID($0) } ?? asked
                if let id { self = .bad(id, Self.revision(document["_rev"]), error.message) } else { self = .unreadable(error.message) }
            }
        } else if let error = value["error"], let id = error["id"]?.asString.flatMap({ try? DocumentID($0) }) ?? asked {
            // PouchDB's errors have the code in their name.
            let word = error["error"]?.asString ?? error["name"]?.asString ?? error.asString
            self = .missing(id, Self.revision(error["rev"]), error: word ?? "unknown_error")
        } else if let asked, let missing = value["missing"] {
            self = .missing(asked, Self.revision(missing), error: "missing")
        } else {
            self = .unreadable("it is neither a document nor an error")
        }
    }

    private static func revision(_ value: JSONValue?) -> RevisionID? { value?.asString.flatMap { try? RevisionID($0) } }

    var id: DocumentID? {
        switch self {
        case .document(let document): document.id
        case .missing(let id, _, _), .bad(let id, _, _): id
        case .unreadable: nil
        }
    }

    /// The peer says that it does not have the document.
    var isGone: Bool {
        guard case .missing(_, _, let error) = self else { return false }
        return error == "not_found" || error == "missing"
    }

    /// Whether it is this revision, or a descendant of it.
    func brings(_ id: DocumentID, _ revision: RevisionID) -> Bool {
        guard case .document(let document) = self, document.id == id else { return false }
        return document.revision == revision || document.history.contains(revision)
    }
}

/// A document in CouchDB's format, split into its parts.
struct FoundDocument: Sendable {
    var id: DocumentID
    var revision: RevisionID
    /// Ancestors, newest first.
    var history: [RevisionID]
    var isDeleted: Bool
    /// Without protocol members.
    var content: JSONObject
    /// The content of a large document, in place of ``content``.
    var text: ByteBuffer?
    var attachments: [JSONObject.Member]

    /// Members that belong to the protocol and not to the content.
    static let protocolKeys: Set<String> = [
        "_id", "_rev", "_revisions", "_deleted", "_attachments", "_conflicts", "_deleted_conflicts", "_revs_info", "_local_seq",
    ]

    init(_ object: JSONObject) throws(MessageError) {
        guard let idText = object["_id"]?.asString, let revisionText = object["_rev"]?.asString else { throw .bad("a document needs _id and _rev") }
        do { id = try DocumentID(idText) } catch { throw .bad("\(error)") }
        do { revision = try RevisionID(revisionText) } catch { throw .bad("\(error)") }
        history = []
        if let revisions = object["_revisions"] {
            guard let start = revisions["start"]?.asUInt64, let ids = revisions["ids"]?.asArray else {
                throw .bad("the _revisions of \(idText) cannot be read")
            }
            for (index, digest) in ids.enumerated().dropFirst() {
                guard let digest = digest.asString, UInt64(index) < start, let ancestor = try? RevisionID("\(start - UInt64(index))-\(digest)") else {
                    throw .bad("the _revisions of \(idText) cannot be read")
                }
                history.append(ancestor)
            }
        }
        // Another reader could interpret it differently.
        if let value = object["_deleted"] {
            guard let flag = value.asBool else { throw .bad("the _deleted of \(idText) must be true or false") }
            isDeleted = flag
        } else {
            isDeleted = false
        }
        attachments = []
        if let value = object["_attachments"] {
            guard let entries = value.asObject?.members, entries.allSatisfy({ $0.value.asObject != nil }) else {
                throw .bad("the _attachments of \(idText) must be an object of objects")
            }
            attachments = entries
        }
        content = JSONObject(object.members.filter { !Self.protocolKeys.contains($0.key) })
    }

    /// A stored document whose attachments are named as its peer names them.
    init(held revision: CheckedRevision) throws {
        (id, self.revision, history, isDeleted) = (revision.id, revision.revision, Array(revision.history), revision.isDeleted)
        // Its parsed values would take too much memory.
        if revision.body.count > DriverBounds.smallBodyBytes, let large = LargeDocument(held: revision.body) {
            (content, text) = (JSONObject(), large.content)
            attachments = (large.head["_attachments"]?.asObject?.members ?? []).filter { $0.value.asObject != nil }
            return
        }
        content = try JSONValue(stored: revision.body).asObject ?? JSONObject()
        attachments = (content["_attachments"]?.asObject?.members ?? []).filter { $0.value.asObject != nil }
        content["_attachments"] = .none
    }

    /// It contains the bytes of its attachments, so nothing has to be requested from the peer.
    var bringsAttachments: Bool { attachments.contains { $0.value["data"] != nil } }

    /// According to the document.
    var largestAttachment: Int { min(EngineBounds.assumedDocumentBytes, Int(clamping: attachments.compactMap { $0.value["length"]?.asUInt64 }.max() ?? 0)) }

    /// The body to store.
    var body: ByteBuffer {
        let entries: JSONValue? = attachments.isEmpty ? Optional.none : .object(JSONObject(attachments))
        guard var text else {
            var content = content
            if let entries { content["_attachments"] = entries }
            return ByteBuffer(bytes: JSONValue.object(content).serialize())
        }
        guard let entries else { return text }
        // Replaces the closing brace.
        text.moveWriterIndex(to: text.writerIndex - 1)
        text.writeString((text.readableBytes > 1 ? "," : "") + "\"_attachments\":")
        text.writeBytes(entries.serialize())
        text.writeInteger(UInt8(ascii: "}"))
        return text
    }

    /// The engine's event for its arrival.
    func arrival(_ sequence: RemoteSequence, _ limits: ReplicationLimits) -> PullEvent {
        let body = body
        guard body.readableBytes <= limits.maximumDocumentBytes, history.count <= limits.maximumReceivedHistory else {
            let what = history.count > limits.maximumReceivedHistory
                ? "a history of \(history.count) revisions, max_received_history is \(limits.maximumReceivedHistory)"
                : "\(body.readableBytes) bytes, max_document_bytes is \(limits.maximumDocumentBytes)"
            var error = ReplicationError(domain: .http, code: 413, message: "document \(id) has \(what)")
            error.exceedsLocalSize = history.count <= limits.maximumReceivedHistory
            return .arrivalRefused(sequence, id, error, isFinal: true)
        }
        var received = ReceivedRevision(
            replyTo: nil, id: id, revision: revision, history: RevisionHistory(history), isDeleted: isDeleted, sequence: sequence, body: body)
        received.hasShownBlobs = !attachments.isEmpty
        return .arrived(received)
    }
}

extension OutgoingDocument {
    /// The document in the format of `_bulk_docs`.
    ///
    /// - Parameters:
    ///   - content: its body, a JSON object.
    ///   - attachments: replaces the body's own.
    func couchText(_ content: [UInt8], attachments: JSONObject?) throws -> [UInt8] {
        var ids: [JSONValue] = [.string(String(self.version.digest))]
        var generation = self.version.generation
        for ancestor in self.history {
            // A history with a gap is cut at the gap.
            guard ancestor.generation + 1 == generation else { break }
            generation = ancestor.generation
            ids.append(.string(String(ancestor.digest)))
        }
        var head = JSONObject()
        head["_id"] = .string(self.id.text)
        head["_rev"] = .string(self.version.text)
        head["_revisions"] = ["start": .int(self.version.generation), "ids": .array(ids)]
        if self.isDeleted { head["_deleted"] = true }
        if let attachments {
            head["_attachments"] = .object(attachments)
            guard case .object(var object) = try JSONValue(stored: content) else { return [] }
            object["_attachments"] = .none
            head.members += object.members
            return JSONValue.object(head).serialize()
        }
        // The body follows the head, byte for byte.
        var text = JSONValue.object(head).serialize()
        let inner = content.drop { $0 != UInt8(ascii: "{") }.dropFirst()
        text.removeLast()
        if inner.first(where: { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }) ?? UInt8(ascii: "}") != UInt8(ascii: "}") { text.append(UInt8(ascii: ",")) }
        if inner.isEmpty { text.append(UInt8(ascii: "}")) } else { text.append(contentsOf: inner) }
        return text
    }
}
