import Documents
import DocumentStore
import Encodings

/// What a client wants to see of a document in addition to its body.
struct DocumentForm: Sendable {
    enum Attachments: Sendable {
        case stubs
        /// As base64 in the document.
        case inline
        /// After the document, in a multipart body.
        case follow
    }

    var withRevisions = false
    var withRevisionInfo = false
    var withConflicts = false
    var withDeletedConflicts = false
    var withLocalSequence = false
    var attachments = Attachments.stubs
    /// Revisions that the client has: attachments that they contain are sent as stubs.
    var since: [RevisionID] = []

    /// Whether the revision tree is needed.
    var needsTree: Bool { withRevisions || withRevisionInfo || withConflicts || withDeletedConflicts || !since.isEmpty }

    /// Whether the revision alone determines the output. Other information, such as conflicts, changes independently: a browser that compares tags
    /// would show conflicts that have ended.
    var isOfRevision: Bool { !(withRevisionInfo || withConflicts || withDeletedConflicts || withLocalSequence) }
}

/// A part of an answer: bytes, or a blob that is read when it is sent.
enum BodyPiece: Sendable {
    case bytes([UInt8])
    case base64(BlobDigest)
    case blob(BlobDigest)
}

/// A document in CouchDB's format, in pieces.
struct DocumentText {
    private(set) var pieces: [BodyPiece] = []
    /// The attachments whose bytes follow, in the order in which the document names them.
    private(set) var following: [AttachmentEntry] = []
    /// Attachments whose bytes are sent with it, embedded or afterwards.
    private var carried: [(name: String, digest: BlobDigest)] = []
    private var text = JSONWriter()

    /// The sizes of those of its blobs that are stored here.
    private let sizes: [BlobDigest: UInt64]

    /// Attachments have the lengths of their blobs, whatever the document says.
    ///
    /// - Throws: ``UnreadableAttachment`` if the bytes of an attachment to be sent are damaged or missing: before anything is written, since an
    ///   answer that has begun could only be cut short.
    static func of(_ found: FoundRevision, _ form: DocumentForm, _ blobs: BlobStore) async throws -> DocumentText {
        guard found.hasBlobs else { return DocumentText(found, form, [:]) }
        let named = AttachmentEntry.all(of: found).compactMap(\.blob)
        guard !named.isEmpty else { return DocumentText(found, form, [:]) }
        let sizes = try await blobs.perform { blobs in
            Dictionary(named.compactMap { digest in blobs.size(digest).map { (digest, $0) } }) { size, _ in size }
        }
        let text = DocumentText(found, form, sizes)
        for (name, digest) in text.carried {
            do { try await blobs.check(digest, pieceBytes: CouchLimits.pieceBytes) } catch let error as StoreError {
                if let unreadable = UnreadableAttachment(name, error) { throw unreadable }
                throw error
            }
        }
        return text
    }

    /// As one row of a list: if the bytes of an attachment cannot be read, all attachments are sent as stubs.
    static func ofRow(_ found: FoundRevision, _ form: DocumentForm, _ blobs: BlobStore) async throws -> DocumentText {
        do { return try await of(found, form, blobs) } catch is UnreadableAttachment {
            var form = form
            form.attachments = .stubs
            return try await of(found, form, blobs)
        }
    }

    /// Whether the bytes of all attachments to be sent can be read.
    static func canBeGiven(_ found: FoundRevision, _ form: DocumentForm, _ blobs: BlobStore) async throws -> Bool {
        guard found.hasBlobs, form.attachments.carries else { return true }
        do { _ = try await of(found, form, blobs) } catch is UnreadableAttachment { return false }
        return true
    }

    private init(_ found: FoundRevision, _ form: DocumentForm, _ sizes: [BlobDigest: UInt64]) {
        self.sizes = sizes
        text.raw("{\"_id\":")
        text.string(found.id.text)
        text.raw(",\"_rev\":\"")
        text.text(found.revision.text)
        text.raw("\"")
        if found.isDeleted { text.raw(",\"_deleted\":true") }
        let body = AttachmentEntry.mirrored(found)
        let parts = JSONParts(checked: body)
        var attachments: [AttachmentEntry] = []
        for member in parts.members(of: parts.root) {
            if member.key.utf8.first == UInt8(ascii: "_") {
                if member.key == "_attachments" { attachments = AttachmentEntry.all(parts.value(member.value)) }
                continue
            }
            text.raw(",")
            text.string(member.key)
            text.raw(":")
            text.append(body[member.value])
        }
        if !attachments.isEmpty { write(attachments, found, form) }
        let history = [found.revision] + (form.withRevisions || form.withRevisionInfo ? found.tree?.ancestors(of: found.revision) ?? [] : [])
        if form.withRevisions { write(history: history) }
        if form.withRevisionInfo { write(info: history, found) }
        let tree = form.withConflicts || form.withDeletedConflicts ? found.tree : nil
        let others = tree?.leaves.filter { $0.revision != found.revision } ?? []
        if form.withConflicts { write("_conflicts", others.filter { !$0.isDeleted }) }
        if form.withDeletedConflicts { write("_deleted_conflicts", others.filter(\.isDeleted)) }
        if form.withLocalSequence { text.text(",\"_local_seq\":\(found.sequence)") }
        text.raw("}")
        flush()
    }

    /// Its length; nil if it contains blobs.
    var length: Int? {
        var length = 0
        for piece in pieces {
            guard case .bytes(let bytes) = piece else { return nil }
            length += bytes.count
        }
        return length
    }

    var bytes: [UInt8] {
        var all: [UInt8] = []
        for case .bytes(let bytes) in pieces { all += bytes }
        return all
    }

    private mutating func flush() {
        if !text.bytes.isEmpty { pieces.append(.bytes(text.bytes)) }
        text = JSONWriter()
    }

    private mutating func write(_ attachments: [AttachmentEntry], _ found: FoundRevision, _ form: DocumentForm) {
        // The newest revision of this branch that the client has.
        let history = [found.revision] + (form.since.isEmpty ? [] : found.tree?.ancestors(of: found.revision) ?? [])
        let known = form.since.filter { history.contains($0) }.map(\.generation).max() ?? 0
        text.raw(",\"_attachments\":{")
        for (index, entry) in attachments.enumerated() {
            if index > 0 { text.raw(",") }
            text.string(entry.name)
            text.raw(":")
            let size = entry.blob.flatMap { sizes[$0] }
            guard form.attachments.carries, let digest = entry.blob, entry.revisionPosition > known else {
                text.value(.object(entry.shown(generation: found.revision.generation, "stub", size: size)))
                continue
            }
            carried.append((entry.name, digest))
            switch form.attachments {
            case .follow:
                text.value(.object(entry.shown(generation: found.revision.generation, "follows", size: size)))
                following.append(entry)
            default:
                var shown = JSONWriter()
                shown.value(.object(entry.shown(generation: found.revision.generation, nil, size: size)))
                text.append(shown.bytes.dropLast())
                text.raw(",\"data\":\"")
                flush()
                pieces.append(.base64(digest))
                text.raw("\"}")
            }
        }
        text.raw("}")
    }

    private mutating func write(history: [RevisionID]) {
        // A history with gaps ends at the first gap, because ids are sent without their generations.
        var end = 1
        while end < history.count, history[end].generation + 1 == history[end - 1].generation { end += 1 }
        text.text(",\"_revisions\":{\"start\":\(history[0].generation),\"ids\":")
        text.strings(history[..<end].map { String($0.digest) })
        text.raw("}")
    }

    private mutating func write(info history: [RevisionID], _ found: FoundRevision) {
        text.raw(",\"_revs_info\":[")
        text.list(history) { text, revision in
            text.raw("{\"rev\":")
            text.string(revision.text)
            let isHere = revision == found.revision
            let isDeleted = isHere ? found.isDeleted : found.tree?.isDeleted(revision) ?? false
            let isAvailable = isHere || found.kept.contains(revision)
            text.text(",\"status\":\"\(isDeleted ? "deleted" : isAvailable ? "available" : "missing")\"}")
        }
        text.raw("]")
    }

    private mutating func write(_ key: StaticString, _ leaves: [RevisionTree.Leaf]) {
        guard !leaves.isEmpty else { return }
        text.raw(",\"")
        text.raw(key)
        text.raw("\":")
        text.strings(leaves.map(\.revision.text))
    }
}

extension DocumentForm.Attachments {
    fileprivate var carries: Bool { self != .stubs }
}
