import Environment
import ServiceLifecycle

/// Gives memory back when peers held much of `limits.memory` and do not any more: the allocator would keep it for the next time.
struct MemoryReturning: Service {
    let agent: Agent

    /// Seconds between looks.
    private static let interval = 5

    func run() async throws {
        await cancelWhenGracefulShutdown {
            var peak = MemoryPeak(limit: agent.memory.limit)
            agent.memory.noteRest()
            while !Task.isCancelled {
                try? await agent.environment.time.sleep(seconds: Self.interval)
                let highest = agent.memory.takeHighest()
                if peak.isOver(highest: highest, used: agent.memory.used) { System.returnFreeMemory() }
                // What was held lately and is not given back yet is no rest.
                if highest <= agent.memory.limit / 16 { agent.memory.noteRest() }
            }
        }
    }
}
