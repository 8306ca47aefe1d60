import Interfaces

/// Decides what follows when a run of a replicator ended: give up, or try again after a delay that doubles.
///
/// The numbers are Couchbase Lite's: 2, 4, 8 … seconds up to a cap of 300, nine retries for a one-shot replication, no
/// bound for a continuous one. That one does not give up on other errors either, such as a wrong password: it tries them ever more
/// seldom, since somebody may mend them. Only the own database's errors end it, and a peer that forbids to
/// come back. Data that flowed, not a connection that was made, resets the count.
public struct RetryMachine: Sendable {
    public struct Settings: Sendable, Equatable {
        /// Attempts in all, the first included; 0 for the default, 1 for no retry.
        public var maximumAttempts: Int
        /// Longest delay in seconds; 0 for the default of 300.
        public var maximumWaitSeconds: Int
        /// First and longest delay in seconds of a continuous replicator whose error does not go away by itself.
        public var blockedWaitSeconds = EngineBounds.blockedRetrySeconds
        public var maximumBlockedWaitSeconds = EngineBounds.longestBlockedRetrySeconds

        public init(maximumAttempts: Int = 0, maximumWaitSeconds: Int = 0) {
            self.maximumAttempts = maximumAttempts
            self.maximumWaitSeconds = maximumWaitSeconds
        }
    }

    public enum Decision: Equatable, Sendable {
        /// The replicator ends here, with the error if there is one.
        case stop
        /// Offline; the next attempt starts after this many milliseconds.
        case retry(afterMilliseconds: Int)
    }

    public let settings: Settings
    public let isContinuous: Bool
    /// Retries since data flowed.
    public private(set) var retries = 0
    /// Of them, those in a row that wait for somebody.
    private var blockedRetries = 0

    public init(settings: Settings, isContinuous: Bool) {
        self.settings = settings
        self.isContinuous = isContinuous
    }

    public var maximumRetries: Int {
        switch settings.maximumAttempts {
        case 0: isContinuous ? .max : EngineBounds.oneShotRetries
        default: settings.maximumAttempts - 1
        }
    }

    /// Documents moved, or there was nothing to move: the next failure starts again with the shortest delay.
    public mutating func flowed() { (retries, blockedRetries) = (0, 0) }

    /// Something changed that may help: what follows is tried as if it were the first time. A one-shot's attempts stay counted.
    public mutating func conditionsChanged() {
        if isContinuous, settings.maximumAttempts == 0 { flowed() }
    }

    /// A run ended with an error.
    ///
    /// - Parameter setbacks: how often in a row the remote was found behind where it was, the last time in this run: it is waited for as long as
    ///   after so many failed attempts, although data flowed.
    /// - Parameter chance: random bits. They take up to half of the delay away, so that a fleet does not come back all at once.
    public mutating func failed(_ error: ReplicationError, chance: UInt64 = .max, setbacks: Int = 0) -> Decision {
        guard error.isTransient || (isContinuous && !error.isForGood) else { return .stop }
        guard retries < maximumRetries else { return .stop }
        retries += 1
        blockedRetries = error.isTransient ? 0 : blockedRetries + 1
        let cap = settings.maximumWaitSeconds > 0 ? settings.maximumWaitSeconds : EngineBounds.longestRetrySeconds
        var delay: Int
        if error.isTransient {
            delay = Self.doubled(1, max(retries, setbacks), cap)
        } else {
            delay = Self.doubled(settings.blockedWaitSeconds, blockedRetries - 1, settings.maximumBlockedWaitSeconds)
        }
        delay *= 1_000
        delay -= Int(Double(delay / 2) * (Double(UInt64.max - chance) / Double(UInt64.max)))
        let asked = min(max(0, error.retryAfterSeconds ?? 0), EngineBounds.longestRetryAfterSeconds) * 1_000
        return .retry(afterMilliseconds: max(delay, asked))
    }

    private static func doubled(_ first: Int, _ times: Int, _ cap: Int) -> Int { times >= 30 ? cap : min(first << times, cap) }
}
