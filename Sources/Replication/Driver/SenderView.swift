import Documents
import DocumentStore

/// What the sender of revisions by version vectors may see of the documents that it changes. A version is a time and a source, which can be
/// claimed without having seen the revision, as the id of a parent cannot: so of what the sender may not see, it has to name the current
/// revision exactly, or its own stands beside it, as one that a peer of revision trees sends without knowing the parent.
struct SenderView: Sendable {
    /// Nil: no channels bound it.
    let channels: ChannelPeer?
    /// Where there is a push filter, what the documents that it lets pass are called.
    private(set) var passed: [DocumentID: Version]?
    let stated: StatedParents
    let naming: RevisionNaming

    func with(_ passed: [DocumentID: Version]) -> SenderView {
        var view = self
        view.passed = passed
        return view
    }

    /// Whether it is beside what is here, for want of knowledge.
    func isBlind(_ incoming: IncomingRevision, _ collection: Collection, _ transaction: ReadTransaction, _ access: inout ChannelAccess?) throws(StoreError) -> Bool {
        guard let vector = incoming.vector, let current = try transaction.row(collection, incoming.id)?.revision,
            let name = try transaction.currentName(collection, incoming.id, naming)
        else { return false }
        if vector.names(current, called: name) || stated.contains(incoming.id, name) || stated.contains(incoming.id, current) { return false }
        if let passed { return passed[incoming.id] != name }
        guard let channels else { return false }
        if access == nil { access = try transaction.channelAccess(collection, of: channels) }
        return try access.map { access throws(StoreError) in try !transaction.isVisible(collection, incoming.id, current, to: access) } ?? true
    }
}

/// The revisions of ours on which a peer says that it built what it proposes: who may write a document and not see it names the one that it
/// wrote itself. The last few are kept, as hashes.
struct StatedParents: Sendable {
    private var hashes: [Int] = []
    private var next = 0

    mutating func note(_ id: DocumentID, _ parent: Version, limit: Int) {
        let hash = Self.hash(id, parent)
        if hashes.count < limit { return hashes.append(hash) }
        hashes[next % limit] = hash
        next += 1
    }

    func contains(_ id: DocumentID, _ revision: Version) -> Bool { hashes.contains(Self.hash(id, revision)) }

    private static func hash(_ id: DocumentID, _ revision: Version) -> Int {
        var hasher = Hasher()
        hasher.combine(id)
        hasher.combine(revision)
        return hasher.finalize()
    }
}
