import BLIP

extension BLIPLimits {
    /// Room for a message's properties, in addition to its body.
    private static let roomForProperties = 102_400 + 16

    /// The limits that the replication protocol's messages need: only revisions are long.
    init(_ limits: ReplicationLimitValues) {
        self.init()
        let lists = limits.maximumChangeListBytes + Self.roomForProperties
        maximumMessageByProfile = [
            Profile.changes: lists, Profile.proposeChanges: lists, Profile.subChanges: lists,
            Profile.getCollections: limits.maximumCollectionsBytes + Self.roomForProperties,
            Profile.setCheckpoint: limits.maximumCheckpointBytes + Self.roomForProperties,
            Profile.getCheckpoint: Self.roomForProperties, Profile.getAttachment: Self.roomForProperties,
            Profile.proveAttachment: Self.roomForProperties, Profile.norev: Self.roomForProperties,
            Profile.unsubChanges: Self.roomForProperties,
        ]
        if let memory = limits.memoryForDocuments { maximumMessageByProfile[Profile.rev] = memory / 2 }
        maximumReply = lists
        #if DEBUG
        copiesReplies = limits.planted == .copiedReply
        #endif
    }
}
