import Documents
import DocumentStore
import Interfaces

/// A pulled revision that was kept back, with everything needed to store it later.
struct HeldRevision: Sendable {
    enum Cause: Sendable {
        /// The filter rejected it.
        case rejected
        case failure(PolicyFailure)
        /// Not caused by a plugin: a blob that it names cannot be obtained.
        case blob(ReplicationError)
        /// Not caused by a plugin either: its body is larger than the database accepts.
        case size(ReplicationError)
    }

    var revision: CheckedRevision
    /// Empty if it was not kept back by a plugin.
    var plugin = ""
    var version = ""
    var cause: Cause

    init(_ revision: CheckedRevision, rejectedBy plugin: String, version: String) {
        (self.revision, self.plugin, self.version) = (revision, plugin, version)
        cause = .rejected
    }

    init(_ revision: CheckedRevision, failure: PolicyFailure) {
        (self.revision, plugin, version) = (revision, failure.plugin, failure.version)
        cause = .failure(failure)
    }

    init(_ revision: CheckedRevision, blob error: ReplicationError) {
        self.revision = revision
        cause = .blob(error)
    }

    init(_ revision: CheckedRevision, size error: ReplicationError) {
        (self.revision, version) = (revision, Exclusion.sizeMark)
        cause = .size(error)
    }

    fileprivate var exclusion: (kind: Exclusion.Kind, error: String) {
        switch cause {
        case .rejected: (.rejected, "")
        case .failure(let failure): (.held, failure.message)
        case .blob(let error), .size(let error): (.held, error.message)
        }
    }
}

/// Pulled revisions that a filter kept back, that are too large, or whose blobs could not be obtained. Their sequences are complete, so the
/// checkpoint advances; the revisions are kept here (as local documents beside an exclusion) until another version of the filter decides.
///
/// A revision is stored as one line of JSON (its ids, whether its blobs were shown, whether its attachments are still missing), followed by the
/// original bytes of the body, split into parts of the size of a local document.
enum HeldRevisions {
    static func keep(
        _ held: [HeldRevision], _ remote: RemoteID, _ collection: Collection, _ transaction: WriteTransaction
    ) throws(StoreError) {
        // There is one entry for each document: the peer's winner takes precedence over its other leaves.
        var kept: [HeldRevision] = []
        kept.reserveCapacity(held.count)
        for each in held {
            if each.revision.branches?.isLoser == true,
                let waiting = try transaction.exclusion(collection, remote: remote, direction: .pull, id: each.revision.id),
                waiting.revision != each.revision.revision
            {
                continue
            }
            kept.append(each)
        }
        var exclusions: [Exclusion] = []
        exclusions.reserveCapacity(kept.count)
        for each in kept {
            let (kind, error) = each.exclusion
            exclusions.append(
                Exclusion(
                    remote: remote, direction: .pull, kind: kind, id: each.revision.id,
                    remoteSequence: each.revision.sequence?.json ?? "", revision: each.revision.revision,
                    error: error, plugin: each.plugin, version: each.version))
        }
        try transaction.exclude(collection, exclusions)
        for each in kept { try put(encode(each.revision), remote, each.revision.id, collection, transaction) }
    }

    struct Page: Sendable {
        var revisions: [CheckedRevision]
        /// Where the next page begins; nil at the end.
        var next: DocumentID?
        /// Something is waiting, even if nothing on this page is due.
        var isAny: Bool
    }

    /// A page of waiting revisions, leaving out those that the same version of the same filter rejected.
    ///
    /// - Parameter mayBeLostAtPeer: the peer may have lost data since it sent them.
    static func page(
        _ collection: Collection, _ remote: RemoteID, after: DocumentID?, unlessJudgedBy current: (String, String)?, mayBeLostAtPeer: Bool = false,
        _ transaction: ReadTransaction
    ) throws(StoreError) -> Page {
        let size = DriverBounds.documentsPerPage
        let exclusions = try transaction.exclusions(collection, remote: remote, direction: .pull, after: after, limit: size)
        var revisions: [CheckedRevision] = []
        var bytes = 0
        for exclusion in exclusions {
            if exclusion.kind == .rejected, let current, exclusion.plugin == current.0, exclusion.version == current.1 { continue }
            guard let stored = try get(remote, exclusion.id, collection, transaction), var revision = decode(stored, exclusion.id)
            else { continue }
            if mayBeLostAtPeer { revision.mayBeLostAtPeer = true }
            bytes += revision.body.count
            revisions.append(revision)
            if bytes >= DriverBounds.heldRevisionBytes { return Page(revisions: revisions, next: exclusion.id, isAny: true) }
        }
        return Page(
            revisions: revisions, next: exclusions.count < size ? nil : exclusions.last?.id, isAny: !exclusions.isEmpty)
    }

    /// The revision, or a later one of its document, has been stored: earlier ones no longer wait.
    static func settle(
        _ revision: CheckedRevision, _ remote: RemoteID, _ collection: Collection, _ transaction: WriteTransaction
    ) throws(StoreError) {
        guard let held = try transaction.exclusion(collection, remote: remote, direction: .pull, id: revision.id) else { return }
        // Between versions, the one stored is the later one.
        if let waiting = held.revision, waiting.kind == .tree, waiting.generation > revision.revision.generation, revision.vector == nil { return }
        // Another leaf does not affect what is waiting.
        if revision.branches?.isLoser == true, held.revision != revision.revision { return }
        try transaction.unexclude(collection, remote: remote, direction: .pull, ids: [revision.id])
        try put(nil, remote, revision.id, collection, transaction)
    }

    /// The remote took the document away: nothing of it waits any more.
    static func forget(
        _ id: DocumentID, _ remote: RemoteID, _ collection: Collection, _ transaction: WriteTransaction
    ) throws(StoreError) {
        guard try transaction.exclusion(collection, remote: remote, direction: .pull, id: id) != nil else { return }
        try transaction.unexclude(collection, remote: remote, direction: .pull, ids: [id])
        try put(nil, remote, id, collection, transaction)
    }

    /// The remote no longer offers these documents: their blobs will never be complete.
    ///
    /// - Returns: those that were waiting.
    static func forgetWithdrawn(
        _ ids: [DocumentID], _ remote: RemoteID, _ collection: Collection, _ transaction: WriteTransaction
    ) throws(StoreError) -> [DocumentID] {
        var forgotten: [DocumentID] = []
        for id in ids {
            // A revision kept back by a plugin is up to the plugin, and its blobs are requested once it passes.
            guard let waiting = try transaction.exclusion(collection, remote: remote, direction: .pull, id: id), waiting.kind == .held,
                waiting.plugin.isEmpty
            else { continue }
            try forget(id, remote, collection, transaction)
            forgotten.append(id)
        }
        return forgotten
    }

    // MARK: - Parts

    private static func key(_ remote: RemoteID, _ part: Int, _ id: DocumentID) -> String {
        "held/\(remote.number)/\(part)/\(id.text)"
    }

    /// Replaces the stored value; nil removes it.
    private static func put(
        _ bytes: [UInt8]?, _ remote: RemoteID, _ id: DocumentID, _ collection: Collection, _ transaction: WriteTransaction
    ) throws(StoreError) {
        let size = StoreLimits.maxLocalBodyBytes
        var part = 0
        while true {
            let start = part * size
            let rest = bytes.flatMap { start < $0.count ? Array($0[start..<min(start + size, $0.count)]) : nil }
            let key = key(remote, part, id)
            let stored = try transaction.localDocument(collection, id: key)
            if rest == nil, stored == nil { return }
            part += 1
            // Each connection examines what is waiting, and mostly leaves it there: that should not write megabytes.
            if let rest, stored?.body == rest { continue }
            _ = try transaction.putLocalDocument(collection, id: key, body: rest, expectedRevision: stored?.revision)
        }
    }

    private static func get(
        _ remote: RemoteID, _ id: DocumentID, _ collection: Collection, _ transaction: ReadTransaction
    ) throws(StoreError) -> [UInt8]? {
        guard var bytes = try transaction.localDocument(collection, id: key(remote, 0, id))?.body else { return nil }
        var part = 1
        while bytes.count == part * StoreLimits.maxLocalBodyBytes,
            let more = try transaction.localDocument(collection, id: key(remote, part, id))?.body
        {
            bytes += more
            part += 1
        }
        return bytes
    }

    private static func encode(_ revision: CheckedRevision) -> [UInt8] {
        var bytes = Array("{\"rev\":\"\(revision.revision.text)\",\"deleted\":\(revision.isDeleted),\"blobs\":\(revision.hasShownBlobs),".utf8)
        if let branches = revision.branches, branches.isLoser {
            bytes.append(contentsOf: "\"leaf\":\"\(name(of: branches.deletion))\",".utf8)
        }
        switch revision.peerHad {
        case .had(let version): bytes.append(contentsOf: "\"had\":\"\(version.text)\",".utf8)
        case .none: bytes.append(contentsOf: "\"had\":null,".utf8)
        case .unknown: break
        }
        if let vector = revision.vector {
            bytes.append(contentsOf: "\"vector\":\"\(vector.text())\",".utf8)
            if let place = vector.place { bytes.append(contentsOf: "\"place\":\(list([place.revision] + place.history)),".utf8) }
        }
        if let expiry = revision.expiry { bytes.append(contentsOf: "\"exp\":\(expiry.json),".utf8) }
        if revision.mayBeLostAtPeer { bytes.append(contentsOf: "\"lost\":true,".utf8) }
        if revision.attachments != nil { bytes.append(contentsOf: "\"attachments\":\"due\",".utf8) }
        if !revision.offeredBefore.isEmpty { bytes.append(contentsOf: "\"before\":\(list(revision.offeredBefore)),".utf8) }
        bytes.append(contentsOf: "\"history\":\(list(revision.history))}\n".utf8)
        bytes.append(contentsOf: revision.body)
        return bytes
    }

    /// The name of a deletion's scope in the database.
    private static func name(of deletion: Deletion) -> String {
        switch deletion {
        case .document: "document"
        case .leaf: "leaf"
        case .otherLeaf: "otherLeaf"
        }
    }

    private static func list(_ versions: some Sequence<Version>) -> String {
        "[\(versions.map { "\"\($0.text)\"" }.joined(separator: ","))]"
    }

    private static func versions(_ value: JSONValue?) -> [Version]? {
        guard case .array(let texts)? = value else { return nil }
        return texts.compactMap { if case .string(let text) = $0 { RevisionID(stored: text) } else { nil } }
    }

    private static func decode(_ bytes: [UInt8], _ id: DocumentID) -> CheckedRevision? {
        guard let end = bytes.firstIndex(of: UInt8(ascii: "\n")),
            case .object(let object)? = try? JSONValue(parsing: Array(bytes[..<end])), case .string(let revision)? = object["rev"],
            let history = versions(object["history"])
        else { return nil }
        let body = Array(bytes[(end + 1)...])
        var branches: PeerBranches?
        if case .string(let leaf)? = object["leaf"] {
            branches = PeerBranches(isLoser: true)
            for deletion in [Deletion.leaf, .otherLeaf] where leaf == name(of: deletion) { branches?.deletion = deletion }
        }
        var vector: VectorHistory?
        if case .string(let text)? = object["vector"] { vector = try? VectorHistory(revision, history: text) }
        if let place = versions(object["place"]), let id = place.first {
            vector?.place = VectorHistory.TreePlace(revision: id, history: RevisionHistory(place.dropFirst()))
        }
        let peerHad: PeerRevision =
            switch object["had"] {
            case .string(let text)?: .had(RevisionID(stored: text))
            case .null?: .none
            default: .unknown
            }
        var checked = CheckedRevision(
            replyTo: nil, id: id, revision: RevisionID(stored: revision),
            history: RevisionHistory(history), vector: vector,
            isDeleted: object["deleted"] == .bool(true), sequence: nil, body: body,
            blobs: (try? BlobReferences.find(in: body)) ?? [], hasShownBlobs: object["blobs"] == .bool(true), peerHad: peerHad,
            offeredBefore: versions(object["before"]) ?? [], branches: branches, expiry: object["exp"].flatMap { DocumentExpiry($0) })
        if object["lost"] == .bool(true) { checked.mayBeLostAtPeer = true }
        if object["attachments"] == .string("due") { (checked.attachments, checked.blobs) = (.due, []) }
        checked.wasKeptBack = true
        return checked
    }
}
