import DocumentStore

/// Starting over.
extension Replicator {
    /// Removes the replicator's own checkpoints: a reset holds until a connection has saved new ones, even if the first attempts fail or the agent is
    /// restarted meanwhile. Of a group of remotes, whose checkpoints have names of their own, the one that is reached first is started over.
    func forgetCheckpoints() async {
        let (configuration, database) = (configuration, configuration.database)
        do {
            try await database.write { transaction in
                for wanted in configuration.collections {
                    guard let collection = database.collection(wanted.collection) else { continue }
                    try transaction.removeCheckpoint(id: configuration.checkpointID(of: wanted, privateUUID: database.privateUUID), collection: collection)
                }
            }
        } catch {
            // The first connection ignores it all the same.
            logger.warning("the checkpoint could not be removed before the reset: \(error)")
        }
    }
}
