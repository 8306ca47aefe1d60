/// Who brings what is to be written, for `DatabaseOptions.refusal`.
public enum StoreWrite: Sendable {
    /// Somebody here saves a document.
    case local
    /// It comes from a peer.
    case peers
}

extension StoreError {
    /// There is no room for it, on the disk or within what the database may take.
    package var isNoRoom: Bool { if case .diskFull = self { true } else { false } }
}

extension WriteTransaction {
    /// What a document takes beside its body: its row, its tree, its place in the index.
    private static let bytesBesideBody = 512

    /// Sees whether a document with so much in its body and blobs could be written.
    package func tryWriting(_ write: StoreWrite, bytes: Int) throws(StoreError) {
        if let reason = session.options.refusal(write, bytes + Self.bytesBesideBody) { throw .diskFull(path: session.path, detail: reason) }
        try tryWriting()
    }

    /// - Throws: `StoreError.diskFull` with the reason, where the options have one against it.
    func checkAdmission(_ write: StoreWrite, bytes: Int) throws(StoreError) {
        let bytes = bytes + Self.bytesBesideBody
        if let reason = session.options.refusal(write, bytes) { throw .diskFull(path: session.path, detail: reason) }
        session.options.usage.admitted(bytes)
    }
}
