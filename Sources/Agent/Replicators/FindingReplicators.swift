import Replication

extension Agent {
    package nonisolated func replicator(_ name: String) throws(AgentError) -> Replicator {
        guard let found = replicators.first(where: { $0.configuration.name.utf8.elementsEqual(name.utf8) }) else {
            let names = replicators.map(\.configuration.name)
            throw AgentError(
                .notFound,
                "there is no replicator \"\(name)\"; there \(names.isEmpty ? "are none" : "is \(names.joined(separator: ", "))")")
        }
        return found
    }
}
