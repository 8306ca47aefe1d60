/// When to try again what the peer could not take for the moment: a delay that doubles up to a bound.
struct RetryDelay {
    let first: Int
    let longest: Int
    private var current = 0
    private(set) var isRunning = false

    init(first: Int, longest: Int) {
        self.first = first
        self.longest = longest
    }

    /// Seconds to wait; nil while a timer runs already.
    mutating func start() -> Int? {
        guard !isRunning else { return nil }
        isRunning = true
        current = current == 0 ? first : min(current * 2, longest)
        return current
    }

    /// Seconds to wait after so many attempts that came to nothing, for who counts them himself.
    func seconds(after attempts: Int) -> Int { min(first << min(attempts, 16), longest) }

    mutating func elapsed() { isRunning = false }

    /// Nothing waits any more: the next trouble starts with the shortest delay.
    mutating func reset() { current = 0 }
}
