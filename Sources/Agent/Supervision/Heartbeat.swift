import ServiceLifecycle

/// Signs of life for systemd's watchdog: every event loop turns, and tasks run. A disk that is slow, full or broken is no reason to be killed: a
/// restart would not mend it.
struct Heartbeat: Service {
    let agent: Agent
    let notice: SupervisorNotice

    func run() async throws {
        guard let watchdog = notice.watchdog, watchdog > 0 else {
            try? await gracefulShutdown()
            return
        }
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                await loopsTurn()
                notice.alive()
                // Two signs may be late before it counts.
                try? await agent.environment.time.sleep(nanoseconds: watchdog / 3)
            }
        }
    }

    /// Returns when all of them have done something; never, while one is stuck.
    private func loopsTurn() async {
        for loop in agent.group.makeIterator() { try? await loop.submit {}.get() }
    }
}
