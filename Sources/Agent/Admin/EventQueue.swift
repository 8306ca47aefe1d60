/// The newest events, so many and of so many bytes; the oldest make room.
struct EventQueue {
    /// `max_waiting_events`: kept for a reader that is slow, and for those that come back.
    static let maximumWaiting = 1_000
    /// `max_waiting_event_bytes`: of them all together. An event that is larger is lost.
    static let maximumWaitingBytes = 1 << 20

    struct Entry {
        /// Its place among what happened; of what is told beside that, such as a status, the place of the one before it.
        var number: Int
        var text: [UInt8]
        /// What it is about: `replicator hub`; nil for what every reader gets.
        var subject: String?
    }

    /// Nil for those that were taken.
    private var entries: [Entry?] = []
    private var head = 0
    private var bytes = 0

    var waiting: some Sequence<Entry> { entries[head...].lazy.compactMap { $0 } }
    var first: Entry? { head < entries.count ? entries[head] : nil }

    /// - Returns: those that made room for it, or itself where it is too large.
    mutating func append(_ entry: Entry) -> [Entry] {
        entries.append(entry)
        bytes += entry.text.count
        var lost: [Entry] = []
        while entries.count - head > Self.maximumWaiting || bytes > Self.maximumWaitingBytes, let entry = removeFirst() { lost.append(entry) }
        return lost
    }

    mutating func removeFirst() -> Entry? {
        guard head < entries.count, let entry = entries[head].take() else { return nil }
        head += 1
        bytes -= entry.text.count
        if head == entries.count || head > 1_000 {
            entries.removeFirst(head)
            head = 0
        }
        return entry
    }
}
