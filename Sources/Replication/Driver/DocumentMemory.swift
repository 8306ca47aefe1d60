import Environment

/// How carefully documents are requested, after connections that took more memory than there was. It lasts until everything that was waiting is here;
/// then the connection is made anew.
enum MemoryCaution: Int, Sendable, Comparable {
    case none
    /// The next document is requested when the previous one is stored.
    case oneByOne
    /// That did not help: a document that might not fit fails by name.
    case smallDocuments

    var next: MemoryCaution { MemoryCaution(rawValue: rawValue + 1) ?? .smallDocuments }

    static func < (one: MemoryCaution, other: MemoryCaution) -> Bool { one.rawValue < other.rawValue }
}

/// What `limits.memory` leaves for a document that is being received.
struct DocumentMemory: Sendable, Equatable {
    /// `limits.memory`, in bytes.
    var limit: Int
    /// In bytes.
    var largestDocument: Int
    /// Documents come because this agent requested them.
    var isRequested: Bool

    /// The `limits.memory`, in bytes, that a document of this size needs, which has no room now.
    func limit(forDocument size: Int) -> Int {
        let usual = MemoryBudget.setting(forDocument: size)
        // After connections that took too much, less is taken at a time than the memory usually allows.
        return usual > limit ? usual : 8 * size + 64
    }
}

extension ReplicationLimits {
    /// The same limits for this much memory: a document for which there is none fails on its own instead of ending its connection each time it comes.
    ///
    /// - Parameter caution: nil on the passive side, which requests nothing.
    func within(_ memory: MemoryBudget, _ caution: MemoryCaution?) -> ReplicationLimits {
        var limits = self
        let isPassive = caution == nil
        let caution = caution ?? .none
        if caution > .none { (limits.rowsPerSubscribedList, limits.requestedRevisions) = (1, 1) }
        let (most, certain) = (Self.largestDocument(in: memory.limit), Self.documentForCertain(in: memory.limit))
        // A peer that was evicted for a document sends it again, and this side cannot ask for less at a time.
        let largest = isPassive && most < blip.maximumMessage || caution == .smallDocuments ? certain : most
        guard largest < blip.maximumMessage else { return limits }
        limits.memoryForDocuments = DocumentMemory(limit: memory.limit, largestDocument: largest, isRequested: !isPassive)
        limits.bufferedRevisionBytes = min(limits.bufferedRevisionBytes, memory.limit / 8)
        if isPassive {
            limits.largestGivenBody = Self.largestGivenBody(in: memory.limit)
            // Beside the largest of them, few others are held.
            limits.revisionBytesInFlight = min(limits.revisionBytesInFlight, memory.limit / 32)
        }
        return limits
    }

    /// The largest document, in bytes, whose message fits into this `limits.memory`. While it arrives it counts one and a half times, for what its
    /// buffers leave behind, and an eighth of the memory is kept free. What the agent uses besides without counting it was measured as up to 6 MiB.
    static func largestDocument(in memory: Int) -> Int {
        max(documentForCertain(in: memory), min(memory / 2, (memory / 8 * 7 - uncountedBytes) / 3 * 2))
    }

    /// The same, whatever the agent uses without counting it: up to three eighths of the memory, no connection is evicted for that (``MemoryBudget``).
    /// That leaves as much again for the beginnings of other documents, which peers send before the first acknowledgement.
    private static func documentForCertain(in memory: Int) -> Int { memory / 8 }

    /// The largest body, in bytes, that a peer can pull: a passive side holds it as it was read, and as the message that the peer has not read yet,
    /// beside others. A connection that holds more would be evicted each time.
    private static func largestGivenBody(in memory: Int) -> Int { max(documentForCertain(in: memory), (memory / 8 * 7 - uncountedBytes) / 4) }

    fileprivate static let uncountedBytes = 6 << 20
}
