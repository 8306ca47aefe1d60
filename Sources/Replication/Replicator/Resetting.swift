import DocumentStore

/// Starting over.
extension Replicator {
    /// The next run starts over, whenever it begins: the running one has to stop first. Whoever records that it is owed, and says so again after a
    /// restart of the agent, loses no reset.
    public nonisolated func oweReset() { shared.withLock { $0.owesReset = true } }

    /// Whether a reset was asked for, and the checkpoints are still there.
    public nonisolated var owesReset: Bool { shared.withLock { $0.owesReset } }

    /// When the first attempt failed since data last flowed, in seconds since 1970; nil while all is well.
    public nonisolated var failing: Int64? { failingSince.withLock { $0?.time } }

    /// Removes the replicator's own checkpoints: a reset holds until a connection has saved new ones, even if the first attempts fail or the agent is
    /// restarted meanwhile. Of a group of remotes, whose checkpoints have names of their own, the one that is reached first is started over. What of the remote cannot be
    /// stored here is found out again.
    func forgetCheckpoints() async {
        let (configuration, database, key) = (configuration, configuration.database, configuration.remoteKey)
        do {
            try await database.write { transaction in
                let remote = try transaction.existingRemote(for: key)
                for wanted in configuration.collections {
                    guard let collection = database.collection(wanted.collection) else { continue }
                    try transaction.removeCheckpoint(id: configuration.checkpointID(of: wanted, privateUUID: database.privateUUID), collection: collection)
                    if let remote { try NotTakenDocuments.forgetAll(remote, collection, transaction) }
                }
            }
            shared.withLock { $0.owesReset = false }
        } catch {
            // The first connection ignores it all the same.
            logger.warning("the checkpoint could not be removed before the reset: \(error)")
        }
    }
}
