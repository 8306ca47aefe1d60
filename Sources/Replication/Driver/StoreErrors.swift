import DocumentStore
import Interfaces

extension ReplicationError {
    /// An error of the store in a replicator's terms: a temporary one is retried; a broken database will be just as broken on the next connection.
    init(store error: any Error) {
        self.init(domain: .store, code: 500, message: "\(error)")
        guard let error = error as? StoreError, error.mayEndSoon else { return }
        if case .diskFull = error { code = 507 } else { code = 503 }
        isTransient = true
    }
}

extension ReplicationError {
    /// The store's refusal of one document, as reported to a peer.
    init(refusing error: StoreError) { self.init(domain: .http, code: error.replicationStatus, message: error.peerMessage) }

    /// There is no room for it on this side.
    package var isOutOfSpace: Bool { domain == .store && code == 507 }

    /// The reply to a peer whose revision is not accepted. If there is no space for it, the peer keeps it and retries.
    var replyToPeer: MessageError {
        if isOutOfSpace { return .notNow("there is no room for the document now") }
        if domain == .store { return .notNow("the document cannot be taken now") }
        return MessageError(code: domain == .http ? code : 400, message: message)
    }

    /// The reason sent to a peer if its connection ends because of this error. The store's messages name files, and are only for the operators of
    /// this side.
    var reasonForPeer: String { domain == .store ? MessageError.busy.message : message }
}

extension ReplicationError {
    /// A document cannot be sent because one of its blobs is missing or damaged here; nil for any other error.
    init?(ownBlob error: any Error) {
        switch error as? StoreError {
        case .blobMissing(let digest)?: self.init(domain: .store, code: 410, message: "the blob \(digest) of the document is not here any more")
        case .blobAltered(let digest, _)?: self.init(domain: .store, code: 410, message: "the blob \(digest) of the document is damaged here")
        default: return nil
        }
    }

    /// One of the document's blobs is missing or damaged here, which is not the peer's concern.
    package var isOfOwnBlob: Bool { domain == .store && code == 410 }
}

extension StoreError {
    /// A temporary failure of the machine: no space, no file descriptors, a disk that failed or is not mounted, a lock held by another program.
    fileprivate var mayEndSoon: Bool {
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
    /// Whether the error concerns one document rather than the whole store.
    var concernsOneDocument: Bool {
        switch self {
        case .conflict, .conflictMoved, .notFound, .bodyTooLarge, .localBodyTooLarge, .bodyInvalid, .reservedKey, .historyInvalid, .tooManyBranches,
            .blobMissing, .blobAltered, .documentDamaged:
            true
        default: false
        }
    }

    /// The message for a peer: nothing about the stored document, which it may not be allowed to see, and nothing about files.
    var peerMessage: String {
        switch self {
        case .conflict, .conflictMoved: "the document has another revision here"
        case .documentDamaged: "the document cannot be changed now"
        case .blobAltered(let digest, _): "the blob \(digest) is damaged at its sender and cannot be given"
        case .closed, .folder, .locked, .notADatabase, .schemaTooNew, .fileGone, .corrupt, .diskFull, .inputOutput, .database: MessageError.busy.message
        default: "\(self)"
        }
    }

    /// The HTTP status for a peer.
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
