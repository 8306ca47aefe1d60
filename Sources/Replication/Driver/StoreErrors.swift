import DocumentStore
import Interfaces

extension ReplicationError {
    /// An error of the store, in the terms of a replicator: what passes is tried again, a broken database is the same on the next connection.
    init(store error: any Error) {
        self.init(domain: .store, code: 500, message: "\(error)")
        guard let error = error as? StoreError, error.maySoonBeOver else { return }
        if case .diskFull = error { code = 507 } else { code = 503 }
        isTransient = true
    }
}

extension ReplicationError {
    /// The store refuses one document, in the terms in which a peer is told of it.
    init(refusing error: StoreError) { self.init(domain: .http, code: error.replicationStatus, message: error.peerMessage) }

    /// There is no room for it on this side.
    package var isNoRoom: Bool { domain == .store && code == 507 }

    /// What a peer is told of a revision of its that is not taken. It keeps what there is no room for, and tries again.
    var replyToPeer: MessageError {
        if isNoRoom { return MessageError(code: 503, message: "there is no room for the document now") }
        if domain == .store { return .notNow("the document cannot be taken now") }
        return MessageError(code: domain == .http ? code : 400, message: message)
    }

    /// What a peer is told where its connection ends for it. What the store says names files, and is for those only who look after this side.
    var reasonForPeer: String { domain == .store ? MessageError.busy.message : message }
}

extension ReplicationError {
    /// A document cannot go because a blob of it is gone or damaged here; nil for any other error.
    init?(ownBlob error: any Error) {
        switch error as? StoreError {
        case .blobMissing(let digest)?: self.init(domain: .store, code: 410, message: "the blob \(digest) of the document is not here any more")
        case .blobAltered(let digest, _)?: self.init(domain: .store, code: 410, message: "the blob \(digest) of the document is damaged here")
        default: return nil
        }
    }

    /// A blob of the document is gone or damaged here: no matter of the peer's.
    package var isOfOwnBlob: Bool { domain == .store && code == 410 }
}

extension StoreError {
    /// The machine could not do it for now: no room, no descriptors, a disk that failed or is not mounted, a lock that another program holds.
    fileprivate var maySoonBeOver: Bool {
        switch self {
        case .diskFull, .inputOutput, .folder, .fileGone, .tooManyOpenBlobs: true
        case .database(let code, _, _): code & 0xFF == Self.busy
        default: false
        }
    }

    /// SQLITE_BUSY: another program holds the file's lock.
    private static let busy: Int32 = 5
}

extension StoreError {
    /// The error says something of one document, not of the store.
    var concernsOneDocument: Bool {
        switch self {
        case .conflict, .conflictMoved, .notFound, .bodyTooLarge, .localBodyTooLarge, .bodyInvalid, .reservedKey, .historyInvalid, .tooManyBranches,
            .blobMissing, .blobAltered, .documentDamaged:
            true
        default: false
        }
    }

    /// What a peer is told, in words: nothing of the document that is stored here, which it may not have, and nothing of files.
    var peerMessage: String {
        switch self {
        case .conflict, .conflictMoved: "the document has another revision here"
        case .documentDamaged: "the document cannot be changed now"
        case .blobAltered(let digest, _): "the blob \(digest) is damaged at its sender and cannot be given"
        case .closed, .folder, .locked, .notADatabase, .schemaTooNew, .fileGone, .corrupt, .diskFull, .inputOutput, .database: MessageError.busy.message
        default: "\(self)"
        }
    }

    /// What a peer is told, in HTTP's numbers.
    fileprivate var replicationStatus: Int {
        switch self {
        case .conflict, .conflictMoved: 409
        case .bodyTooLarge, .localBodyTooLarge: 413
        case .historyInvalid: 422
        case .notFound, .blobMissing, .blobAltered: 404
        case .bodyInvalid, .reservedKey, .tooManyBranches: 400
        default: 503
        }
    }
}
