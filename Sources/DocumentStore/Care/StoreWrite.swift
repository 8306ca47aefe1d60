/// The origin of a write, for `DatabaseOptions.refusal`.
public enum StoreWrite: Sendable {
    /// A document is saved locally.
    case local
    /// The data comes from a peer.
    case peers
}

extension StoreError {
    /// There is no space for it, on the disk or within the database's limits.
    package var isOutOfSpace: Bool { if case .diskFull = self { true } else { false } }
}

extension WriteTransaction {
    /// Space of a document beyond its body: its row, its tree, its index entry.
    static let bytesBesideBody = 512

    /// Checks whether a document with this many bytes in its body and blobs could be written.
    package func tryWriting(_ write: StoreWrite, bytes: Int) throws(StoreError) {
        if let reason = session.options.refusal(write, bytes + Self.bytesBesideBody) { throw .diskFull(path: session.path, detail: reason) }
        try tryWriting()
    }

    /// - Throws: `StoreError.diskFull` with the reason, if the options refuse it.
    func checkAdmission(_ write: StoreWrite, bytes: Int) throws(StoreError) {
        let bytes = bytes + Self.bytesBesideBody
        if let reason = session.options.refusal(write, bytes) { throw .diskFull(path: session.path, detail: reason) }
        session.options.usage.admitted(bytes)
    }
}
