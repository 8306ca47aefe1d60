import Documents
import Environment
import Interfaces

extension SessionRole {
    /// The dialect for a connection, which follows from its transport: one that takes HTTP requests leads to a CouchDB, and any other carries the
    /// messages of BLIP. Only here is it known which dialects there are.
    ///
    /// - Parameter resumed: called when the beginning of an attachment was here from an earlier connection.
    func dialect(
        _ transport: any MessageTransport, _ limits: ReplicationLimits, _ environment: Environment, _ memory: MemoryBudget, _ counters: ReplicationCounters,
        resumed: @escaping @Sendable (BlobDigest, UInt64) -> Void
    ) -> any Dialect & ~Copyable {
        let wire = wireLog(transport)
        if let couch = CouchDialect(transport, self, environment, memory, wire, counters, resumed: resumed) { return couch }
        let isPassive = if case .passive = self { true } else { false }
        return BLIPDialect(isPassive: isPassive, takesDeltas: usesDeltas, naming: naming(transport), limits: limits, wire: wire)
    }
}
