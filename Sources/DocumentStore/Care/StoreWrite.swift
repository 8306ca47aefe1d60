/// Who brings what is to be written, for `DatabaseOptions.refusal`.
public enum StoreWrite: Sendable {
    /// Somebody here saves a document.
    case local
    /// It comes from a peer.
    case peers
}

extension WriteTransaction {
    /// - Throws: `StoreError.diskFull` with the reason, where the options have one against it.
    func checkAdmission(_ write: StoreWrite) throws(StoreError) {
        if let reason = session.options.refusal(write) { throw .diskFull(path: session.path, detail: reason) }
    }
}
