/// A delay that doubles up to a maximum. For retries within a connection and for the time between connections that end to ask again; how long a
/// replicator stays offline after an error is decided by ``RetryMachine``.
struct RetryDelay {
    let first: Int
    let longest: Int
    private var current = 0
    private(set) var isRunning = false

    init(first: Int, longest: Int) {
        self.first = first
        self.longest = longest
    }

    /// Seconds to wait; nil if a timer is already running.
    mutating func start() -> Int? {
        guard !isRunning else { return nil }
        isRunning = true
        current = current == 0 ? first : min(current * 2, longest)
        return current
    }

    /// Seconds to wait after this many failed attempts, for callers that count them themselves.
    func seconds(after attempts: Int) -> Int { min(first << min(attempts, 16), longest) }

    mutating func elapsed() { isRunning = false }

    /// Nothing is waiting any more: the next failure starts with the shortest delay.
    mutating func reset() { current = 0 }
}
