import ServiceLifecycle

/// Signs of life for systemd's watchdog: the event loops turn, and every database answers. A disk that fails or is full is no reason to be
/// killed: a restart would not mend it.
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
                if await isAlive() { notice.alive() }
                // Two signs may be late before it counts.
                try? await agent.environment.time.sleep(nanoseconds: watchdog / 3)
            }
        }
    }

    private func isAlive() async -> Bool {
        _ = try? await agent.group.next().submit {}.get()
        // Whatever they answer.
        for database in agent.databases { _ = try? await database.read { _ in } }
        return true
    }
}
