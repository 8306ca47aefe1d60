import BLIP

extension BLIPLimits {
    /// Beside what the properties of a message may take.
    private static let roomForProperties = 102_400 + 16

    /// What the messages of the replication protocol need: only revisions are long.
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
