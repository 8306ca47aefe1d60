import ServiceLifecycle

/// Signs of life for systemd's watchdog: every event loop turns, and tasks run. A slow, full or broken disk is no reason to be killed, because a
/// restart would not fix it.
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
                await waitForLoops()
                notice.alive()
                // Two signs of life may be late before systemd acts.
                try? await agent.environment.time.sleep(nanoseconds: watchdog / 3)
            }
        }
    }

    /// Returns when every event loop has run something; never while one is stuck.
    private func waitForLoops() async {
        for loop in agent.group.makeIterator() { try? await loop.submit {}.get() }
    }
}
