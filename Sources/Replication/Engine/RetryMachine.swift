import Interfaces

/// Decides what follows when a run of a replicator ended: give up, or try again after a delay that doubles.
///
/// The numbers are Couchbase Lite's: 2, 4, 8 … seconds up to a cap of 300, nine retries for a one-shot replication, no
/// bound for a continuous one. A connection that succeeded resets the count.
public struct RetryMachine: Sendable {
    public struct Settings: Sendable, Equatable {
        /// Attempts in all, the first included; 0 for the default, 1 for no retry.
        public var maximumAttempts: Int
        /// Longest delay in seconds; 0 for the default of 300.
        public var maximumWaitSeconds: Int

        public init(maximumAttempts: Int = 0, maximumWaitSeconds: Int = 0) {
            self.maximumAttempts = maximumAttempts
            self.maximumWaitSeconds = maximumWaitSeconds
        }
    }

    public enum Decision: Equatable, Sendable {
        /// The replicator ends here, with the error if there is one.
        case stop
        /// Offline; the next attempt starts after this many seconds.
        case retry(afterSeconds: Int)
    }

    public let settings: Settings
    public let isContinuous: Bool
    /// Retries since the last connection that succeeded.
    public private(set) var retries = 0

    public init(settings: Settings, isContinuous: Bool) {
        self.settings = settings
        self.isContinuous = isContinuous
    }

    public var maximumRetries: Int {
        switch settings.maximumAttempts {
        case 0: isContinuous ? .max : 9
        default: settings.maximumAttempts - 1
        }
    }

    /// The connection is up: the next failure starts again with the shortest delay.
    public mutating func connected() { retries = 0 }

    /// A run ended with an error.
    public mutating func failed(_ error: ReplicationError) -> Decision {
        guard error.isTransient || (isContinuous && error.isNetworkDependent) else { return .stop }
        guard retries < maximumRetries else { return .stop }
        retries += 1
        let cap = settings.maximumWaitSeconds > 0 ? settings.maximumWaitSeconds : 300
        let delay = retries >= 30 ? cap : min(1 << retries, cap)
        return .retry(afterSeconds: delay)
    }
}
