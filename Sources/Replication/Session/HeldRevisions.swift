import Documents
import DocumentStore

/// A pulled revision that a filter kept back, with everything that storing it later needs.
struct HeldRevision: Sendable {
    var revision: CheckedRevision
    var plugin: String
    var version: String
    /// What failed; nil when the filter said no.
    var error: String?

    init(_ revision: CheckedRevision, plugin: String, version: String, error: String?) {
        self.revision = revision
        self.plugin = plugin
        self.version = version
        self.error = error
    }
}

/// Pulled revisions that a filter kept back. Their sequences are done, so the checkpoint goes on; the revisions wait here
/// (as local documents beside an exclusion) until another version of the filter decides.
enum HeldRevisions {
    static func keep(
        _ held: [HeldRevision], _ remote: RemoteID, _ collection: Collection, _ transaction: WriteTransaction
    ) throws(StoreError) {
        try transaction.exclude(
            collection,
            held.map {
                Exclusion(
                    remote: remote, direction: .pull, kind: $0.error == nil ? .rejected : .held, id: $0.revision.id,
                    remoteSequence: $0.revision.sequence?.json ?? "", revision: $0.revision.revision, error: $0.error ?? "",
                    plugin: $0.plugin, version: $0.version)
            })
        for each in held {
            try put(encode(each.revision), key(remote, each.revision.id), collection, transaction)
        }
    }

    /// A page of what waits, leaving out what the same version of the same filter said no to.
    static func page(
        _ collection: Collection, _ remote: RemoteID, after: DocumentID?, unlessJudgedBy current: (String, String)?,
        _ transaction: ReadTransaction
    ) throws(StoreError) -> ([CheckedRevision], DocumentID?) {
        let size = 200
        let exclusions = try transaction.exclusions(collection, remote: remote, direction: .pull, after: after, limit: size)
        var revisions: [CheckedRevision] = []
        for exclusion in exclusions {
            if exclusion.kind == .rejected, let current, exclusion.plugin == current.0, exclusion.version == current.1 { continue }
            guard let stored = try transaction.localDocument(collection, id: key(remote, exclusion.id)),
                let revision = decode(stored.body, exclusion.id)
            else { continue }
            revisions.append(revision)
        }
        return (revisions, exclusions.count < size ? nil : exclusions.last?.id)
    }

    static func forget(
        _ ids: [DocumentID], _ remote: RemoteID, _ collection: Collection, _ transaction: WriteTransaction
    ) throws(StoreError) {
        try transaction.unexclude(collection, remote: remote, direction: .pull, ids: ids)
        for id in ids { try put(nil, key(remote, id), collection, transaction) }
    }

    private static func put(
        _ body: [UInt8]?, _ key: String, _ collection: Collection, _ transaction: WriteTransaction
    ) throws(StoreError) {
        let stored = try transaction.localDocument(collection, id: key)
        if body == nil, stored == nil { return }
        _ = try transaction.putLocalDocument(collection, id: key, body: body, expectedRevision: stored?.revision)
    }

    private static func key(_ remote: RemoteID, _ id: DocumentID) -> String { "held/\(remote.number)/\(id.text)" }

    private static func encode(_ revision: CheckedRevision) -> [UInt8] {
        var bytes = Array(
            "{\"rev\":\"\(revision.revision.text)\",\"deleted\":\(revision.isDeleted),\"history\":[".utf8)
        for (index, ancestor) in revision.history.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            bytes.append(contentsOf: "\"\(ancestor.text)\"".utf8)
        }
        bytes.append(contentsOf: "],\"body\":".utf8)
        bytes.append(contentsOf: revision.body)
        bytes.append(UInt8(ascii: "}"))
        return bytes
    }

    private static func decode(_ bytes: [UInt8], _ id: DocumentID) -> CheckedRevision? {
        guard case .object(let object)? = try? JSONValue(parsing: bytes), case .string(let revision)? = object["rev"],
            case .array(let history)? = object["history"], let body = object["body"]
        else { return nil }
        let bodyBytes = body.serialize()
        return CheckedRevision(
            replyTo: nil, isUrgent: false, id: id, revision: RevisionID(stored: revision),
            history: history.compactMap { if case .string(let text) = $0 { RevisionID(stored: text) } else { nil } },
            isDeleted: object["deleted"] == .bool(true), sequence: nil, body: bodyBytes,
            blobs: (try? BlobReferences.find(in: bodyBytes)) ?? [], isRemoval: false)
    }
}
