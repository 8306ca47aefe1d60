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
            while !Task.isCancelled {
                try? await agent.environment.time.sleep(seconds: Self.interval)
                if peak.isOver(highest: agent.memory.takeHighest(), used: agent.memory.used) { System.returnFreeMemory() }
            }
        }
    }
}
