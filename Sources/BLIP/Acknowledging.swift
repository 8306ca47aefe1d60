// When the peer's messages are acknowledged (blip.md).
extension BLIPConnection {
    func mayAcknowledge(_ partial: PartialMessage) -> Bool {
        guard acknowledgesReceived else { return false }
        guard let token = partial.stream else { return true }
        return !incomingStreams.exceedsWindow(token)
    }

    /// Queues the acknowledgement of a message that grew, if it is due; withdraws a queued one that is to be withheld.
    mutating func noteAcknowledgement(_ partial: inout PartialMessage, _ key: MessageKey) {
        if partial.acknowledgementIsDue {
            guard partial.stream != nil, !mayAcknowledge(partial) else { return }
            partial.acknowledgementIsDue = false
            dueAcknowledgements.removeAll { $0 == key }
        } else if partial.isDue(limits.ackThreshold), mayAcknowledge(partial) {
            partial.acknowledgementIsDue = true
            dueAcknowledgements.append(key)
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
        for number in unfinishedRequests.keys.sorted() {
            guard var partial = unfinishedRequests.removeValue(forKey: number) else { continue }
            noteAcknowledgement(&partial, MessageKey(number: number, isReply: false))
            unfinishedRequests[number] = partial
        }
        for number in unfinishedReplies.keys.sorted() { acknowledgeIfDue(replyTo: number) }
    }
}
