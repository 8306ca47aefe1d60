import AgentConfiguration
import Replication

extension ReplicationLimits {
    /// - Parameter compression: the level of a listener or replicator.
    init(_ settings: LimitSettings, compression: Located<Int>) {
        self.init()
        self.maximumBlobBytes = settings.maxBlobBytes
        self.compressionLevel = Int32(compression.value)
    }
}
