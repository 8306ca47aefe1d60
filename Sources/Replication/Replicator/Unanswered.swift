extension Replicator {
    /// Since when the peer, on an established connection, has made no progress with what it owes, in seconds since 1970; nil while it owes nothing.
    public func unansweredSince() async -> Int64? {
        guard status.activity == .busy, let session = sessions.first, let since = await session.owedSince else { return nil }
        let now = status
        return now.activity == .busy ? max(since, now.since) : nil
    }
}
