import Environment
import ServiceLifecycle

/// Returns memory that was held for peers to the system: otherwise the allocator would keep it for reuse.
struct MemoryReturning: Service {
    let agent: Agent

    /// Seconds between checks.
    private static let interval = 1
    /// Present memory use counts as the use at rest only after this many checks with next to nothing held: before that,
    /// recently held memory may not have been returned yet.
    private static let checksAtRest = 5

    func run() async throws {
        await cancelWhenGracefulShutdown {
            let memory = agent.memory
            var peak = MemoryPeak(limit: memory.limit)
            memory.noteRest()
            var quiet = 0
            while !Task.isCancelled {
                try? await agent.environment.time.sleep(seconds: Self.interval)
                let highest = memory.takeHighest()
                if peak.isOver(highest: highest, used: memory.used, uncounted: memory.uncounted) { System.returnFreeMemory() }
                quiet = highest <= memory.limit / 16 ? quiet + 1 : 0
                if quiet >= Self.checksAtRest { memory.noteRest() }
            }
        }
    }
}
