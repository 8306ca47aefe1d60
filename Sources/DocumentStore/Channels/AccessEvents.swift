import Documents

/// A peer's access, ordered for reading its feed: each question costs the same however much the peer was granted.
struct AccessEvents {
    /// What begins and ends at one sequence.
    private struct Event {
        var granted: Set<String> = []
        var revoked: Set<String> = []
    }

    let hasEverything: Bool
    /// What the peer has now.
    private var current: Set<String> = []
    /// Since when the peer has or had a channel, and until when.
    private var spans: [String: [(first: SequenceNumber, granted: SequenceNumber, revoked: SequenceNumber?)]] = [:]
    /// The last sequence at which the peer had a channel that it has no more.
    private var ended: [String: SequenceNumber] = [:]
    private var events: [SequenceNumber: Event] = [:]
    /// When access was given and is still there, and when it ended: each ascending.
    private var grants: [SequenceNumber] = []
    private var ends: [SequenceNumber] = []

    init(_ access: ChannelAccess) {
        hasEverything = access.hasEverything
        for entry in access.entries {
            spans[entry.channel, default: []].append((entry.first, entry.granted, entry.revoked))
            if let revoked = entry.revoked {
                events[revoked, default: Event()].revoked.insert(entry.channel)
                ended[entry.channel] = max(ended[entry.channel] ?? 0, revoked)
                ends.append(revoked)
            } else {
                current.insert(entry.channel)
                events[entry.granted, default: Event()].granted.insert(entry.channel)
                grants.append(entry.granted)
            }
        }
        grants.sort()
        ends.sort()
    }

    func grants(at event: SequenceNumber) -> Bool { events[event]?.granted.isEmpty == false }
    func grantsEverything(at event: SequenceNumber) -> Bool { events[event]?.granted.contains("*") == true }

    /// To which access begins there.
    func granted(at event: SequenceNumber) -> Set<String> { events[event]?.granted ?? [] }
    /// To which it ends there.
    func revoked(at event: SequenceNumber) -> Set<String> { events[event]?.revoked ?? [] }

    /// The next sequence at which access begins or ends. Where it ended, also if it was given after the last visit: it may have been given,
    /// and taken, before that too.
    func nextEvent(after sequence: SequenceNumber) -> SequenceNumber? {
        [Self.first(in: grants, after: sequence), Self.first(in: ends, after: sequence)].compactMap(\.self).min()
    }

    private static func first(in sorted: [SequenceNumber], after sequence: SequenceNumber) -> SequenceNumber? {
        var (low, high) = (0, sorted.count)
        while low < high {
            let middle = (low + high) / 2
            if sorted[middle] > sequence { high = middle } else { low = middle + 1 }
        }
        return low < sorted.count ? sorted[low] : nil
    }

    func isVisible(_ rows: [ReadTransaction.ChannelRow]) -> Bool {
        current.contains("*") || rows.contains { $0.left == nil && current.contains($0.channel) }
    }

    /// The peer had the channel when this sequence came, or has it now.
    func held(_ channel: String, at sequence: SequenceNumber) -> Bool {
        current.contains(channel) || ended[channel].map { sequence < $0 } ?? false
    }

    /// Where a document that the peer may not see left the last of its channels; nil where it never was the peer's to know.
    func departure(_ rows: [ReadTransaction.ChannelRow]) -> ChannelDeparture? {
        func held(_ row: ReadTransaction.ChannelRow) -> SequenceNumber? {
            // What left before access began for the first time was never the peer's.
            guard let left = row.left.map({ SequenceNumber(clamping: $0) }), self.held(row.channel, at: left),
                (spans[row.channel] ?? []).contains(where: { $0.first < left })
            else { return nil }
            return left
        }
        guard let last = rows.compactMap(held).max() else { return nil }
        // Access that began later, or ended before, is no reason to know what was there at that moment.
        let wasThere = rows.contains { row in
            held(row) == last && (spans[row.channel] ?? []).contains { $0.granted < last && last <= $0.revoked ?? .max }
        }
        return ChannelDeparture(sequence: last, wasHeld: wasThere)
    }

    /// Whether the peer gets a document that it may see now, and that did not change since, because of an event.
    func comes(_ rows: [ReadTransaction.ChannelRow], because event: SequenceNumber) -> Bool {
        let granted = granted(at: event)
        return isVisible(rows) && (granted.contains("*") || rows.contains { $0.left == nil && granted.contains($0.channel) })
    }

    /// Where in an event a document stands that the peer loses because of it; nil where it does not. That is when the document first came into
    /// what ends, so that nothing that is written later, which the peer may not see, shows in it.
    func loses(_ rows: [ReadTransaction.ChannelRow], because event: SequenceNumber) -> SequenceNumber? {
        let revoked = revoked(at: event)
        if revoked.isEmpty || isVisible(rows) { return nil }
        return rows.filter { row in
            guard UInt64(clamping: row.entered) < event else { return false }
            return revoked.contains("*") || revoked.contains(row.channel) && (row.left.map { UInt64(clamping: $0) >= event } ?? true)
        }.map { SequenceNumber(clamping: $0.entered) }.min()
    }
}
