import Interfaces

/// Decides what follows a run of a replicator that ended with an error: stop, or retry after a delay that doubles each time.
///
/// The numbers are Couchbase Lite's: 2, 4, 8 … seconds up to a maximum of 300, nine retries for a one-shot replication, no limit for a continuous
/// one. A continuous one does not give up on permanent errors either, such as a wrong password: it retries them at growing intervals, since somebody
/// may fix the cause. Only errors of the local database stop it, and a peer that tells it not to come back. The count is reset when data flows, not
/// when a connection is established.
public struct RetryMachine: Sendable {
    public struct Settings: Sendable, Equatable {
        /// Total number of attempts, including the first; nil for the default, 1 for no retry.
        public var maximumAttempts: Int?
        /// Longest delay in seconds.
        public var maximumWaitSeconds: Int
        /// First delay in seconds for a continuous replicator whose error needs intervention.
        public var blockedWaitSeconds = EngineBounds.blockedRetrySeconds
        public var maximumBlockedWaitSeconds = EngineBounds.longestBlockedRetrySeconds

        /// - Parameter maximumWaitSeconds: nil for the default of 300.
        public init(maximumAttempts: Int? = nil, maximumWaitSeconds: Int? = nil) {
            self.maximumAttempts = maximumAttempts
            self.maximumWaitSeconds = maximumWaitSeconds ?? EngineBounds.longestRetrySeconds
        }
    }

    public enum Decision: Equatable, Sendable {
        /// The replicator stops, with the error if there is one.
        case stop
        /// Offline; the next attempt starts after this many milliseconds.
        case retry(afterMilliseconds: Int)
    }

    public let settings: Settings
    public let isContinuous: Bool
    /// Retries since data last flowed.
    public private(set) var retries = 0
    /// How many of the latest retries, in a row, were due to errors that somebody has to fix.
    private var blockedRetries = 0

    public init(settings: Settings, isContinuous: Bool) {
        self.settings = settings
        self.isContinuous = isContinuous
    }

    public var maximumRetries: Int {
        if let attempts = settings.maximumAttempts { return attempts - 1 }
        return isContinuous ? .max : EngineBounds.oneShotRetries
    }

    /// Documents were transferred, or there were none to transfer: the next failure starts again with the shortest delay.
    public mutating func flowed() { (retries, blockedRetries) = (0, 0) }

    /// Something changed that may help: the next attempt counts as the first, except where the number of attempts is limited.
    public mutating func conditionsChanged() {
        if isContinuous, settings.maximumAttempts == nil { flowed() }
    }

    /// A run ended with an error.
    ///
    /// - Parameter setbacks: how many runs in a row, including this one, found that the remote had lost data: the delay is that of as many failed
    ///   attempts, although data flowed.
    /// - Parameter chance: random bits, which shorten the delay by up to half, so that a fleet does not reconnect all at once.
    public mutating func failed(_ error: ReplicationError, chance: UInt64 = .max, setbacks: Int = 0) -> Decision {
        guard error.isTransient || (isContinuous && !error.isPermanent) else { return .stop }
        guard retries < maximumRetries else { return .stop }
        retries += 1
        blockedRetries = error.isTransient ? 0 : blockedRetries + 1
        let seconds =
            if error.isTransient {
                RetryDelay(first: 1, longest: settings.maximumWaitSeconds).seconds(after: max(retries, setbacks))
            } else {
                RetryDelay(first: settings.blockedWaitSeconds, longest: settings.maximumBlockedWaitSeconds).seconds(after: blockedRetries - 1)
            }
        let asked = min(max(0, error.retryAfterSeconds ?? 0), EngineBounds.longestRetryAfterSeconds) * 1_000
        return .retry(afterMilliseconds: max(Self.shortened(seconds * 1_000, by: chance), asked))
    }

    /// The delay, shortened by half if `chance` is 0, and by nothing if it is the largest number.
    private static func shortened(_ delay: Int, by chance: UInt64) -> Int {
        delay - Int(Double(delay / 2) * (Double(UInt64.max - chance) / Double(UInt64.max)))
    }
}
