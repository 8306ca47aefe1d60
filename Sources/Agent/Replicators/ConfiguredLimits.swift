import AgentConfiguration
import Replication

extension ReplicationLimits {
    init(_ settings: LimitSettings) {
        self.init()
        self.maximumBlobBytes = settings.maxBlobBytes
    }
}
