import Documents
import DocumentStore
import Interfaces

/// Documents of a feed for a pulling peer about which the filter could not decide. The feed skips them, and each later document carries the position
/// at which the peer has to resume after a reconnect, as with Sync Gateway's skipped sequences.
struct HeldDocuments {
    private struct Hold {
        var version: Version
        /// The feed's position right before it, from which it will be read again.
        var before: SequenceNumber
    }

    private var holds: [DocumentID: Hold] = [:]
    /// The first of them with their errors, for display.
    private(set) var first: [FeedReader.Stall] = []
    private var low: SequenceNumber?
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    var isEmpty: Bool { holds.isEmpty }
    var count: Int { holds.count }
    /// How many more documents may be held before the feed stalls.
    var room: Int { max(0, limit - holds.count) }
    /// In feed order.
    var ids: [DocumentID] { holds.sorted { ($0.value.before, $0.key) < ($1.value.before, $1.key) }.map(\.key) }

    /// Returns false if this version is already held.
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

    /// The peer gets the document, or no longer needs it.
    mutating func release(_ id: DocumentID) {
        guard let hold = holds.removeValue(forKey: id) else { return }
        first.removeAll { $0.id == id }
        if hold.before == low { low = holds.values.map(\.before).min() }
    }

    /// The position at which a peer that has this document must resume after a reconnect; nil: after this document.
    func low(_ document: OutgoingDocument) -> SequenceNumber? {
        guard let low, low < document.event ?? document.sequence else { return nil }
        return low
    }
}
