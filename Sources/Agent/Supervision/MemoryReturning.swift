import Environment
import ServiceLifecycle

/// Returns memory that was held for peers to the system: otherwise the allocator would keep it for reuse.
struct MemoryReturning: Service {
    let agent: Agent

    /// Seconds between checks.
    private static let interval = 1

    func run() async throws {
        await cancelWhenGracefulShutdown {
            let memory = agent.memory
            var peak = MemoryPeak(limit: memory.limit)
            var rest = MemoryRest(limit: memory.limit)
            memory.noteRest()
            while !Task.isCancelled {
                try? await agent.environment.time.sleep(seconds: Self.interval)
                let highest = memory.takeHighest()
                if peak.isOver(highest: highest, used: memory.used, uncounted: memory.uncounted) { System.returnFreeMemory() }
                if rest.isAtRest(highest: highest, used: memory.used, uncounted: memory.uncounted) {
                    // What was in use until now, such as the state of connections, is not to become part of the use at rest.
                    if rest.returnsFreeMemory { System.returnFreeMemory() }
                    memory.noteRest()
                }
            }
        }
    }
}
