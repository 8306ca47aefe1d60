import Documents

/// A peer's access, indexed for reading its feed: each question takes the same time however much the peer was granted.
struct AccessEvents {
    /// The channels whose access begins and ends at one sequence.
    private struct Event {
        var granted: Set<ExactName> = []
        var revoked: Set<ExactName> = []
    }

    let hasEverything: Bool
    /// The channels that the peer has now.
    private var current: Set<ExactName> = []
    /// The periods in which the peer has or had each channel.
    private var spans: [ExactName: [(first: SequenceNumber, granted: SequenceNumber, revoked: SequenceNumber?)]] = [:]
    /// For channels that the peer no longer has, the last sequence at which it had them.
    private var ended: [ExactName: SequenceNumber] = [:]
    private var events: [SequenceNumber: Event] = [:]
    /// The sequences at which present access was granted, and at which access ended: both ascending.
    private var grants: [SequenceNumber] = []
    private var ends: [SequenceNumber] = []

    init(_ access: ChannelAccess) {
        hasEverything = access.hasEverything
        for entry in access.entries {
            let channel = ExactName(entry.channel)
            spans[channel, default: []].append((entry.first, entry.granted, entry.revoked))
            if let revoked = entry.revoked {
                events[revoked, default: Event()].revoked.insert(channel)
                ended[channel] = max(ended[channel] ?? 0, revoked)
                ends.append(revoked)
            } else {
                current.insert(channel)
                events[entry.granted, default: Event()].granted.insert(channel)
                grants.append(entry.granted)
            }
        }
        grants.sort()
        ends.sort()
    }

    func grants(at event: SequenceNumber) -> Bool { events[event]?.granted.isEmpty == false }
    func grantsEverything(at event: SequenceNumber) -> Bool { events[event]?.granted.contains("*") == true }

    /// The channels to which access begins at this sequence.
    func granted(at event: SequenceNumber) -> Set<ExactName> { events[event]?.granted ?? [] }
    /// The channels to which access ends at this sequence.
    func revoked(at event: SequenceNumber) -> Set<ExactName> { events[event]?.revoked ?? [] }

    /// The next sequence at which access begins or ends. Includes ends of access granted after the peer's last visit, since it may also have been
    /// granted, and revoked, before that.
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
        current.contains("*") || rows.contains { $0.left == nil && current.contains(ExactName($0.channel)) }
    }

    /// Whether the peer had the channel at this sequence, or has it now.
    func held(_ channel: String, at sequence: SequenceNumber) -> Bool {
        let channel = ExactName(channel)
        return current.contains(channel) || ended[channel].map { sequence < $0 } ?? false
    }

    /// Where a document that the peer may not see left the last of its channels; nil if the peer never had access to it.
    func departure(_ rows: [ReadTransaction.ChannelRow]) -> ChannelDeparture? {
        func held(_ row: ReadTransaction.ChannelRow) -> SequenceNumber? {
            // A document that left before access first began was never accessible.
            guard let left = row.left.map({ SequenceNumber(clamping: $0) }), self.held(row.channel, at: left),
                (spans[ExactName(row.channel)] ?? []).contains(where: { $0.first < left })
            else { return nil }
            return left
        }
        guard let last = rows.compactMap(held).max() else { return nil }
        // Access that began later, or ended before, does not entitle the peer to know what the document was at that moment.
        let wasThere = rows.contains { row in
            held(row) == last && (spans[ExactName(row.channel)] ?? []).contains { $0.granted < last && last <= $0.revoked ?? .max }
        }
        return ChannelDeparture(sequence: last, wasHeld: wasThere)
    }

    /// Whether an event makes a document appear that the peer may see now, and that has not changed since.
    func comes(_ rows: [ReadTransaction.ChannelRow], because event: SequenceNumber) -> Bool {
        let granted = granted(at: event)
        return isVisible(rows) && (granted.contains("*") || rows.contains { $0.left == nil && granted.contains(ExactName($0.channel)) })
    }

    /// The position within an event of a document that the peer loses because of it; nil if it does not. That is the sequence at which the document
    /// first entered a revoked channel, so that it reveals nothing about later writes, which the peer may not see.
    func loses(_ rows: [ReadTransaction.ChannelRow], because event: SequenceNumber) -> SequenceNumber? {
        let revoked = revoked(at: event)
        if revoked.isEmpty || isVisible(rows) { return nil }
        return rows.filter { row in
            guard UInt64(clamping: row.entered) < event else { return false }
            return revoked.contains("*") || revoked.contains(ExactName(row.channel)) && (row.left.map { UInt64(clamping: $0) >= event } ?? true)
        }.map { SequenceNumber(clamping: $0.entered) }.min()
    }
}
