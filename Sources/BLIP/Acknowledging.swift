// When the peer's messages are acknowledged (blip.md).
extension BLIPConnection {
    private mutating func mayAcknowledge(_ partial: PartialMessage, _ key: MessageKey) -> Bool {
        guard acknowledgesReceived else { return false }
        if let token = partial.stream { return !incomingStreams.exceedsWindow(token) }
        if key.isReply || partial.phase == .dropping || unfinishedBytes <= limits.maximumInterleavedBytes { return true }
        let turn = self.turn ?? min(oldestCollected ?? key.number, key.number)
        self.turn = turn
        return turn == key.number
    }

    /// The oldest request that is collected; those that are dropped take no memory.
    private var oldestCollected: UInt64? { unfinishedRequests.lazy.filter { $0.value.phase != .dropping }.map(\.key).min() }

    /// Queues the acknowledgement of a message that grew, if it is due; withdraws a queued one that is to be withheld.
    mutating func noteAcknowledgement(_ partial: inout PartialMessage, _ key: MessageKey) {
        if partial.acknowledgementIsDue {
            guard partial.stream != nil, !mayAcknowledge(partial, key) else { return }
            partial.acknowledgementIsDue = false
            dueAcknowledgements.removeAll { $0 == key }
        } else if partial.isDue(limits.ackThreshold), mayAcknowledge(partial, key) {
            partial.acknowledgementIsDue = true
            dueAcknowledgements.append(key)
        }
    }

    /// A request has ended, or no longer takes memory. Looks at all requests only if none has to wait any more: a peer could end thousands of tiny ones.
    mutating func passTurn(from number: UInt64) {
        guard let turn else { return }
        if unfinishedBytes <= limits.maximumInterleavedBytes {
            self.turn = nil
            collectDueRequests()
        } else if number == turn {
            self.turn = oldestCollected
            if let next = self.turn { acknowledgeIfDue(request: next) }
        }
    }

    /// The owner consumed part of a reply, or abandoned it.
    mutating func acknowledgeIfDue(replyTo number: UInt64) {
        guard var partial = unfinishedReplies.removeValue(forKey: number) else { return }
        noteAcknowledgement(&partial, MessageKey(number: number, isReply: true))
        unfinishedReplies[number] = partial
    }

    /// Queues the acknowledgements that were withheld.
    mutating func collectDueAcknowledgements() {
        collectDueRequests()
        for number in unfinishedReplies.keys.sorted() { acknowledgeIfDue(replyTo: number) }
    }

    private mutating func collectDueRequests() {
        for number in unfinishedRequests.keys.sorted() { acknowledgeIfDue(request: number) }
    }

    private mutating func acknowledgeIfDue(request number: UInt64) {
        guard var partial = unfinishedRequests.removeValue(forKey: number) else { return }
        noteAcknowledgement(&partial, MessageKey(number: number, isReply: false))
        unfinishedRequests[number] = partial
    }
}
