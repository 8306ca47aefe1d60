extension Replicator {
    /// Since when the peer owes an answer on a connection that is up, and says nothing at all (seconds since 1970); nil while it owes none.
    public func unansweredSince() async -> Int64? {
        guard status.activity == .busy, let session = sessions.first, let heard = await session.heardWhileOwed else { return nil }
        let now = status
        return now.activity == .busy ? max(heard, now.since) : nil
    }
}
