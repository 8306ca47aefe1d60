import Documents
import Interfaces

// Which revisions are requested next. A large document may have to wait for memory: others are requested meanwhile, and are stored as soon as they are
// here, although no checkpoint passes the large one.
extension CouchDialect {
    /// What is requested at once.
    struct Portion {
        var wanted: [WantedRevision]
        var isLarge = false
        /// How often there was no memory for it.
        var attempts = 0
        /// Those that need not be requested any more.
        var over: [WantedRevision] = []
    }

    /// If the document at which an answer became too long is large, it is requested alone later, and the rest next, with others.
    ///
    /// - Returns: false if it is not; the rest is still to be requested then.
    func setAside(_ rest: [WantedRevision], _ answer: PeerAnswer) -> Bool {
        guard answer.isTooLarge, let cut = BulkGetEntries(answer.body)?.cut, cut.count > DriverBounds.smallBodyBytes,
            let owner = BulkGetEntries.owner(of: cut, in: answer.body)
        else { return false }
        let large = rest.filter { $0.row.id.isNamed(owner) }
        guard !large.isEmpty else { return false }
        state.withLock { state in
            if state.isOver { return }
            state.large.append(Portion(wanted: large, isLarge: true))
            state.wanted.insert(contentsOf: rest.filter { !$0.row.id.isNamed(owner) }, at: 0)
        }
        return true
    }

    /// There was no memory for one document while others were under way: it is requested again when they are here.
    ///
    /// - Parameter large: set if it was known to be large.
    func postpone(_ wanted: [WantedRevision], _ large: Portion?) -> Bool {
        guard large != nil || wanted.count == 1 else { return false }
        return state.withLock { state in
            var portion = large ?? Portion(wanted: wanted, isLarge: true)
            guard !state.isOver, state.fetches > 1, portion.attempts < CouchBounds.largeAttempts else { return false }
            portion.attempts += 1
            state.large.append(portion)
            return true
        }
    }
}

extension CouchDialect.State {
    /// A large document, if it may be requested now: one request is left to the others, and if there is only one, they take turns.
    ///
    /// - Parameter memory: `limits.memory`: if it is small, there is room for one large answer at a time, and others would arrive in vain.
    mutating func nextLarge(of fetches: Int, _ memory: Int) -> CouchDialect.Portion? {
        guard !large.isEmpty, largeFetches < max(1, min(fetches - 1, memory / CouchBounds.largeFetchBytes)), fetches > 1 || !wasLarge || wanted.isEmpty else { return nil }
        return large.removeFirst()
    }

    mutating func nextWanted() -> CouchDialect.Portion? {
        guard !wanted.isEmpty else { return nil }
        var count = min(wanted.count, fetchSize)
        // A few are requested at once only if no other request is under way that they could wait for.
        guard count == fetchSize || fetches == largeFetches else { return nil }
        // The leaves of a document are fetched together: how to treat the winner depends on those that ended.
        while count < wanted.count, wanted[count].row.id == wanted[count - 1].row.id { count += 1 }
        defer { wanted.removeFirst(count) }
        return CouchDialect.Portion(wanted: Array(wanted[..<count]))
    }
}
