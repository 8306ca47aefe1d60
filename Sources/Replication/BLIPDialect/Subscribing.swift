import BLIP
import Documents

/// Our subscriptions to the peer's changes.
extension BLIPDialect {
    /// Subscribes to the peer's changes. Sync Gateway answers 400 to a continuous pull of chosen documents, and accepts no other subscription on that
    /// connection afterwards.
    mutating func subscribe(_ slot: Int, _ subscription: PullSubscription) {
        let picks = subscription.isContinuous && subscription.documentIDs != nil
        send(request(subscription), slot, .subscription(picks: picks))
    }

    private func request(_ wanted: PullSubscription) -> OutgoingRequest {
        var message = OutgoingRequest(profile: Profile.subChanges)
        if let since = wanted.since { message.properties.append(Property.since, since.json) }
        if wanted.isContinuous { message.properties.append(Property.continuous, "true") }
        message.properties.append(Property.batch, String(min(limits.rowsPerChangeList, limits.rowsPerSubscribedList)))
        if wanted.isFirst { message.properties.append(Property.activeOnly, "true") }
        // Even if nothing is purged: a loss of access is reported as an event, and the document is listed.
        message.properties.append(Property.revocations, "true")
        message.properties.append(Property.versioning, naming != .trees ? "version-vectors" : "rev-trees")
        if let channels = wanted.channels {
            message.properties.append(Property.filter, ChannelSelection.filter)
            message.properties.append(Property.channels, channels.joined(separator: ","))
        }
        if let ids = wanted.documentIDs {
            let body = JSONValue.object(JSONObject([JSONObject.Member(key: "docIDs", value: .array(ids.map { .string($0.text) }))]))
            message.body = .init(bytes: body.serialize())
        }
        return message
    }
}
