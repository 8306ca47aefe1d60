import Documents

/// Documents of which the peer sent a revision while an earlier row was on its way to it. That row may be older than what the peer has since
/// made of it. A peer that prunes its history would not recognize the old revision as an ancestor of its own, and take it for our decision.
struct OvertakenDocuments {
    let limit: Int
    private var ids: Set<DocumentID> = []
    /// There were too many to be remembered: it may be any document.
    private var areTooMany = false

    init(limit: Int) { self.limit = limit }

    mutating func add(_ id: DocumentID) {
        guard !areTooMany else { return }
        ids.insert(id)
        guard ids.count > limit else { return }
        areTooMany = true
        ids = []
    }

    /// Whether the document is one of them; from then on it no longer is.
    mutating func take(_ id: DocumentID) -> Bool { areTooMany || !ids.isEmpty && ids.remove(id) != nil }

    /// No row is on its way any more.
    mutating func removeAll() {
        areTooMany = false
        if !ids.isEmpty { ids = [] }
    }
}
