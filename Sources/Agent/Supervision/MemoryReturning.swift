import Environment
import ServiceLifecycle

/// Gives memory back that was held for peers and is not any more: the allocator would keep it for the next time.
struct MemoryReturning: Service {
    let agent: Agent

    /// Seconds between looks.
    private static let interval = 1
    /// So many looks at next to nothing are a rest: what was held lately may not be given back yet.
    private static let looksAtRest = 5

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
                if quiet >= Self.looksAtRest { memory.noteRest() }
            }
        }
    }
}
