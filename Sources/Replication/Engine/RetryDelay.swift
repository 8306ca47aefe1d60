/// A delay that doubles up to a maximum. It is used for retries within a connection, for connections that end only so that the next one asks for
/// something again, and for the time that a replicator stays offline after an error, which ``RetryMachine`` decides.
struct RetryDelay {
    let first: Int
    let longest: Int
    /// Timers started since the last reset.
    private var started = 0
    private(set) var isRunning = false

    init(first: Int, longest: Int) {
        self.first = first
        self.longest = longest
    }

    /// Seconds to wait; nil if a timer is already running.
    mutating func start() -> Int? {
        guard !isRunning else { return nil }
        isRunning = true
        defer { started += 1 }
        return seconds(after: started)
    }

    /// Seconds to wait after this many failed attempts, for callers that count them themselves.
    func seconds(after attempts: Int) -> Int {
        // Thirty doublings of a second are decades.
        attempts >= 30 ? longest : min(first << attempts, longest)
    }

    mutating func elapsed() { isRunning = false }

    /// Nothing is waiting any more: the next failure starts with the shortest delay.
    mutating func reset() { started = 0 }
}
