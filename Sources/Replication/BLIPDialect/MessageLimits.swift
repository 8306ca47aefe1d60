import BLIP

extension BLIPLimits {
    /// The limits that the replication protocol's messages need: only revisions are long.
    init(_ limits: ReplicationLimitValues) {
        self.init()
        let lists = limits.maximumChangeListBytes + BLIPBounds.propertiesBytes
        maximumMessageByProfile = [
            Profile.changes: lists, Profile.proposeChanges: lists, Profile.subChanges: lists,
            Profile.getCollections: limits.maximumCollectionsBytes + BLIPBounds.propertiesBytes,
            Profile.setCheckpoint: limits.maximumCheckpointBytes + BLIPBounds.propertiesBytes,
            Profile.getCheckpoint: BLIPBounds.propertiesBytes, Profile.getAttachment: BLIPBounds.propertiesBytes,
            Profile.proveAttachment: BLIPBounds.propertiesBytes, Profile.norev: BLIPBounds.propertiesBytes,
            Profile.unsubChanges: BLIPBounds.propertiesBytes,
        ]
        if let memory = limits.memoryForDocuments {
            maximumMessageByProfile[Profile.rev] = memory.largestDocument
            maximumInterleavedBytes = min(maximumInterleavedBytes, memory.limit / 16)
        }
        maximumReply = lists
        #if DEBUG
        copiesReplies = limits.planted == .copiedReply
        #endif
    }
}
