import Documents
import DocumentStore
import Interfaces

/// Documents of a feed that a peer pulls about which its filter could not decide. The feed goes on behind them, and the peer is told with
/// each document that follows where it has to begin when it comes back, as with Sync Gateway's skipped sequences.
struct HeldDocuments {
    private struct Hold {
        var version: Version
        /// A sequence that lies before it.
        var before: SequenceNumber
    }

    private var holds: [DocumentID: Hold] = [:]
    /// The first of them, with what failed: to be shown.
    private(set) var first: [FeedReader.Stall] = []
    private var low: SequenceNumber?
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    var isEmpty: Bool { holds.isEmpty }
    var count: Int { holds.count }
    /// How many more may be held. Then the feed stands still.
    var room: Int { max(0, limit - holds.count) }
    /// In the order of the feed.
    var ids: [DocumentID] { holds.sorted { ($0.value.before, $0.key) < ($1.value.before, $1.key) }.map(\.key) }

    /// False when this version is held already.
    mutating func add(_ stall: FeedReader.Stall, before: SequenceNumber) -> Bool {
        let known = holds[stall.id]
        if known?.version == stall.version {
            if let at = first.firstIndex(where: { $0.id == stall.id }) { first[at] = stall }
            return false
        }
        if known != nil { release(stall.id) }
        holds[stall.id] = Hold(version: stall.version, before: before)
        if first.count < EngineBounds.shownHeldDocuments { first.append(stall) }
        low = min(low ?? before, before)
        return true
    }

    /// The peer gets the document, or needs it no more.
    mutating func release(_ id: DocumentID) {
        guard let hold = holds.removeValue(forKey: id) else { return }
        first.removeAll { $0.id == id }
        if hold.before == low { low = holds.values.map(\.before).min() }
    }

    /// Where a peer that has this document has to begin when it comes back; nil: behind it.
    func low(_ document: OutgoingDocument) -> SequenceNumber? {
        guard let low, low < document.event ?? document.sequence else { return nil }
        return low
    }
}
