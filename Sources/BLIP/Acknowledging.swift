// When the peer's messages are acknowledged (blip.md).
extension BLIPConnection {
    func mayAcknowledge(_ partial: PartialMessage, _ key: MessageKey) -> Bool {
        guard acknowledgesReceived else { return false }
        if let token = partial.stream { return !incomingStreams.exceedsWindow(token) }
        return key.isReply || partial.phase == .dropping || unfinishedBytes <= limits.maximumInterleavedBytes || isOldest(key.number)
    }

    /// Of the requests that are collected; those that are dropped take no memory.
    private func isOldest(_ number: UInt64) -> Bool { !unfinishedRequests.contains { $0.key < number && $0.value.phase != .dropping } }

    /// Queues the acknowledgement of a message that grew, if it is due; withdraws a queued one that is to be withheld.
    mutating func noteAcknowledgement(_ partial: inout PartialMessage, _ key: MessageKey) {
        if partial.acknowledgementIsDue {
            guard partial.stream != nil, !mayAcknowledge(partial, key) else { return }
            partial.acknowledgementIsDue = false
            dueAcknowledgements.removeAll { $0 == key }
        } else if partial.isDue(limits.ackThreshold) {
            guard mayAcknowledge(partial, key) else {
                if !key.isReply { makesRequestsWait = true }
                return
            }
            partial.acknowledgementIsDue = true
            dueAcknowledgements.append(key)
        }
    }

    /// A request has ended, or no longer takes memory: it is the next one's turn.
    mutating func continueWaitingRequests() {
        guard makesRequestsWait else { return }
        makesRequestsWait = false
        collectDueRequests()
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
        for number in unfinishedRequests.keys.sorted() {
            guard var partial = unfinishedRequests.removeValue(forKey: number) else { continue }
            noteAcknowledgement(&partial, MessageKey(number: number, isReply: false))
            unfinishedRequests[number] = partial
        }
    }
}
