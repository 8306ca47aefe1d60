import Documents

/// The entries of a ``PushLedger``. An entry keeps its slot while it exists, so it is looked up once and then changed in place.
struct LedgerTable {
    private var places: [DocumentID: Int] = [:]
    /// By slot; a free slot has an entry without a document.
    private(set) var slots: [PushLedger.Entry] = []
    private var free: [Int] = []

    private static let blank = PushLedger.Entry(phase: .due(.init(sequence: 0)))

    func place(of id: DocumentID) -> Int? { places.isEmpty ? nil : places[id] }

    /// In order of document id.
    var sorted: [(DocumentID, PushLedger.Entry)] {
        places.sorted { $0.key < $1.key }.map { ($0.key, slots[$0.value]) }
    }

    mutating func releaseBody(_ place: Int) { slots[place].releaseBody() }

    mutating func change(_ place: Int, to phase: consuming PushLedger.Phase) { slots[place].change(to: phase) }

    mutating func change(_ place: Int, successor: SequenceNumber) { slots[place].successor = successor }

    /// - Returns: the document's previous entry.
    @discardableResult
    mutating func insert(_ id: DocumentID, _ entry: consuming PushLedger.Entry) -> PushLedger.Entry? {
        if let place = place(of: id) {
            let old = slots[place]
            slots[place] = entry
            return old
        }
        if let place = free.popLast() {
            slots[place] = entry
            places[id] = place
        } else {
            places[id] = slots.count
            slots.append(entry)
        }
        return nil
    }

    mutating func remove(_ id: DocumentID) -> PushLedger.Entry? {
        guard !places.isEmpty, let place = places.removeValue(forKey: id) else { return nil }
        var entry = Self.blank
        swap(&entry, &slots[place])
        if places.isEmpty, slots.count > EngineBounds.spareSlots {
            (slots, free) = ([], [])
        } else {
            free.append(place)
        }
        return entry
    }
}

// What takes a look at everything under way.
extension PushLedger {
    /// Whether the peer is being sent the end of a branch before some document.
    var hasEndsOfBranches: Bool { entries.slots.contains { $0.phase.document?.isEndOfBranch == true } }

    /// What was sent and is not acknowledged.
    var sent: [OutgoingDocument] {
        entries.slots.compactMap { if case .sent(let document) = $0.phase { document } else { nil } }
    }
}
