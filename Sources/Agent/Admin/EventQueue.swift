/// The newest events, bounded in number and bytes; the oldest are dropped first.
struct EventQueue {
    /// `max_waiting_events`: kept for a slow reader, and for readers that reconnect.
    static let maximumWaiting = 1_000
    /// `max_waiting_event_bytes`: for all events together. A larger single event is lost.
    static let maximumWaitingBytes = 1 << 20

    struct Entry {
        /// The event's number in the record; for an unrecorded event such as a status, the number of the event before it.
        var number: Int
        var text: [UInt8]
        /// What it is about, for example `replicator hub`; nil for an event that every reader gets.
        var subject: String?
    }

    /// Nil in place of events that were taken.
    private var entries: [Entry?] = []
    private var head = 0
    private var bytes = 0

    var waiting: some Sequence<Entry> { entries[head...].lazy.compactMap { $0 } }
    var first: Entry? { head < entries.count ? entries[head] : nil }

    /// - Returns: the events that were dropped to make room, or the new one itself if it is too large.
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
