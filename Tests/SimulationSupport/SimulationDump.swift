import Documents
import DocumentStore
import Replication

/// What the machines hold, for the trace of a failing seed.
extension Simulation {
    func dump() {
        for agent in agents {
            do {
                let lines = try agent.read { transaction, collection -> [String] in
                    var lines: [String] = []
                    for row in try transaction.changes(collection, since: 0, limit: 10_000, includeBodies: true) {
                        let tree = try row.revisionTree().leaves.map { "\($0.revision.text.prefix(8))\($0.isDeleted ? " deleted" : "")" }
                        let state = (row.isDeleted ? " deleted" : "") + (row.hasConflict ? " in conflict" : "")
                        let known = try agent.links.compactMap { link -> String? in
                            guard let remote = try transaction.existingRemote(for: "machine-\(link.to)") else { return nil }
                            return try transaction.remoteRevision(remote, collection, row.id).map { "machine \(link.to) known to have \($0.text.prefix(8))" }
                        }
                        lines.append("\(row.sequence) \(row.id) \(row.revision.text.prefix(8))\(state), leaves \(tree) \(known)")
                    }
                    for kept in try transaction.exclusions(collection, limit: 1_000) {
                        let what = "\(kept.direction) \(kept.kind) \(kept.id) \(kept.revision?.text.prefix(8) ?? "")"
                        lines.append("kept back for remote \(kept.remote.number): \(what) \(kept.error) by version \(kept.version)")
                    }
                    return lines
                }
                for line in lines ?? ["down"] { scheduler.say("machine \(agent.number): \(line)") }
                for replicator in agent.process?.replicators ?? [] {
                    let status = replicator.status
                    scheduler.say("machine \(agent.number): \(replicator.configuration.name) \(status.activity) \(status.counts)")
                    let configuration = replicator.configuration
                    guard let process = agent.process else { continue }
                    let id = configuration.checkpointID(of: configuration.collections[0], privateUUID: process.database.privateUUID)
                    let bytes = try agent.read { try $0.checkpoint(id: id, collection: $1)?.body }
                    scheduler.say("machine \(agent.number): checkpoint \(String(decoding: (bytes ?? nil) ?? [], as: UTF8.self))")
                }
            } catch {
                scheduler.say("machine \(agent.number): \(error)")
            }
        }
    }
}
