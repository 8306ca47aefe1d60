import Encodings

/// Progress of a connection.
extension Replicator {
    /// The connection has done something useful.
    nonisolated func noteProgress() {
        let isFirst = shared.withLock { shared in
            defer { shared.hasMadeProgress = true }
            return !shared.hasMadeProgress
        }
        guard isFirst else { return }
        if let failing = failingSince.withLock({ failing in
            defer { failing = nil }
            return failing
        }) {
            let seconds = max(0, environment.time.wallSeconds() - failing.time)
            runLogger.info("recovered after \(Plural.count(failing.attempts, "failed attempt")) in \(seconds) s")
        }
        update { $0.attempt = 0 }
    }
}
