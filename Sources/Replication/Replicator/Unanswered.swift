extension Replicator {
    /// Since when the peer owes something on a connection that is up, and nothing of it comes (seconds since 1970); nil while it owes nothing.
    public func unansweredSince() async -> Int64? {
        guard status.activity == .busy, let session = sessions.first, let since = await session.owedSince else { return nil }
        let now = status
        return now.activity == .busy ? max(since, now.since) : nil
    }
}
