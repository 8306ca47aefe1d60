import Environment
import Logging
import Replication

/// Periodically checks the files of identities, authorities and token keys, so that a renewed file needs no restart; and the clock, for tokens that
/// expire.
struct SecurityWatch: Sendable {
    /// `tls_files_interval`: seconds between two checks. A check costs one system call per file.
    private static let seconds = 5

    let time: any TimeSource
    let listeners: @Sendable () -> [PeerListener]
    let replicators: @Sendable () -> [(ReplicatorSecurity, Logger)]
    /// Called with a replicator whose next connection will use different files.
    let changed: @Sendable (ReplicatorSecurity) -> Void
    let secrets: @Sendable () -> [String: ReplicatorSecrets]
    /// Called with the name of a replicator whose next connection will use different secrets.
    let secretsChanged: @Sendable (String) -> Void
    /// Called after each check.
    let checked: @Sendable () -> Void
    /// Called with the number of seconds that the machine was suspended.
    let awoke: @Sendable (Int) -> Void

    /// Runs until the task is cancelled.
    func run() async {
        var sleep = SleepDetector(time)
        while !Task.isCancelled {
            try? await time.sleep(seconds: Self.seconds)
            guard !Task.isCancelled else { return }
            if let seconds = sleep.look() { awoke(seconds) }
            await refresh()
        }
    }

    /// Checks once.
    func refresh() async {
        for listener in listeners() {
            await listener.refreshSecurity()
            await listener.refreshTokens()
        }
        for (security, logger) in replicators() where security.refresh(logger) { changed(security) }
        for (name, secrets) in secrets().sorted(by: { $0.key < $1.key }) where secrets.refresh() { secretsChanged(name) }
        checked()
    }
}

extension Logger {
    /// The same logger with one more field.
    func with(_ key: String, _ value: String) -> Logger {
        var logger = self
        logger[metadataKey: key] = "\(value)"
        return logger
    }
}

extension Agent {
    /// All parts whose TLS files may change while they run.
    nonisolated var tlsFiles: SecurityWatch {
        SecurityWatch(
            time: environment.time,
            listeners: { [weak self] in self?.listeners ?? [] },
            replicators: { [weak self, logger = logs.logger(.replicator)] in
                self?.shared.withLock { $0.replicatorSecurity.map { ($0.value, logger.with("replicator", $0.key)) } } ?? []
            }, changed: { [weak self] in self?.retryNow($0) },
            secrets: { [weak self] in self?.shared.withLock { $0.replicatorSecrets } ?? [:] },
            secretsChanged: { [weak self] in self?.retryNow(secretsOf: $0) },
            checked: { [weak self] in self?.ownIdentity.note() },
            awoke: { [weak self] in self?.awoke(afterSeconds: $0) })
    }
}
