import AgentConfiguration
import Environment
import Glibc
import Logging
import ServiceLifecycle
import Synchronization

/// Runs an agent until a signal stops it: SIGTERM and SIGINT stop it in an orderly way, SIGHUP reloads the configuration.
package struct AgentService: Sendable {
    let agent: Agent
    let logs: LogSink
    let signals: ProcessSignals
    /// Reads the configuration.
    let load: @Sendable () throws -> AgentSettings
    /// Reads as much of the configuration as is valid, and reports what is not.
    let examine: @Sendable () -> (settings: AgentSettings?, problems: ConfigurationProblems?)
    /// What else is worth a warning in a configuration.
    let advise: @Sendable (AgentSettings) -> [String]
    /// What rehearsals from the dashboard run.
    let rehearse: Rehearse
    /// Called once, when everything accepts connections, with all bound addresses.
    let ready: @Sendable ([String]) -> Void

    package init(
        settings: AgentSettings, logs: LogSink, environment: Environment, signals: ProcessSignals, load: @escaping @Sendable () throws -> AgentSettings,
        examine: @escaping @Sendable () -> (settings: AgentSettings?, problems: ConfigurationProblems?),
        advise: @escaping @Sendable (AgentSettings) -> [String], rehearse: @escaping Rehearse,
        ready: @escaping @Sendable ([String]) -> Void
    ) {
        self.logs = logs
        self.signals = signals
        self.rehearse = rehearse
        self.examine = examine
        self.advise = advise
        self.ready = ready
        // The start reports any fleet documents that cannot be read.
        let agent = Agent(settings: (try? FleetStore.withFleet(settings)) ?? settings, logs: logs, environment: environment)
        self.agent = agent
        let load = { @Sendable [weak agent] in
            let settings = try load()
            return try agent?.withFleet(settings) ?? settings
        }
        self.load = load
        agent.nextStart.reads(load)
        signals.tells(of: agent.stopProgress)
    }

    /// Returns after an orderly stop. The event loops live as long as the process: answers that a disconnected client no longer receives, and results
    /// from the store or a policy for a session that has ended, may still be delivered to them, and there is no point at which none can be.
    package func run() async throws {
        let agent = agent
        let signals = signals
        let notice = SupervisorNotice(time: agent.environment.time)
        let log = logs.logger(.database)
        let early = Task {
            await signals.stop()
            if signals.isStopping { notice.stopping() }
            if let signal = signals.reportStop() { log.info("stopping: \(signal)") }
            if signals.isStopping { await agent.abandonStart() }
        }
        do { try await agent.start() } catch where signals.isStopping { return }
        early.cancel()
        for line in agent.settings.advice(plugins: nil) { logs.logger(.database).warning("\(line)") }
        for error in ConfigurationCheck.exposedSecrets(agent.settings) { logs.logger(.database).warning("\(error)") }
        let load = load
        let (examine, advise) = (examine, advise)
        let reload = { @Sendable () async throws -> ReloadOutcome in
            notice.reloading()
            defer { notice.ready("runs") }
            return try await agent.reload(load, examine: examine, advise: advise)
        }
        let admin = AdminServer(agent: agent, rehearse: rehearse, reload: reload)
        let announcer = Announcer(expected: admin.sideCount) { addresses in
            let listeners = agent.listeners.flatMap { listener in
                listener.addresses.map { "\(listener.settings.name.value)=\($0)" }
            }
            System.returnProgramPages()
            ready(listeners + addresses.map { "admin=\($0)" })
            agent.audit.note(.init(who: "agent", from: "", action: "started", target: AgentVersion.number, outcome: "ready"))
            notice.ready(listeners.isEmpty ? "runs" : "listens on \(listeners.joined(separator: ", "))")
        }
        let adminServices: [any Service]
        do {
            adminServices = try admin.services { address in announcer.add(address) }
        } catch {
            await agent.stop()
            throw error
        }
        var logger = Logger(label: "nightjar.lifecycle") { _ in SwiftLogNoOpLogHandler() }
        logger.logLevel = .critical
        // They stop in reverse order: the admin API first, then the agent, whose event loops the API uses.
        let services: [any Service] =
            [Stopping(agent: agent), Heartbeat(agent: agent, notice: notice), MemoryReturning(agent: agent)] + adminServices
            + [Reloading(signals: signals, reload: reload, logger: logs.logger(.database))]
        var configuration = ServiceGroupConfiguration(
            services: services.map { .init(service: $0) }
                + [.init(service: Ending(signals: signals, notice: notice, agent: agent, logger: log), successTerminationBehavior: .gracefullyShutdownGroup)], logger: logger)
        configuration.maximumGracefulShutdownDuration = .seconds(StopLimits.promised)
        let group = ServiceGroup(configuration: configuration)
        do {
            try await group.run()
        } catch {
            await agent.stop()
            admin.socket.remove()
            throw error
        }
        admin.socket.remove()
    }
}

/// Stops the agent when the group shuts down.
private struct Stopping: Service {
    let agent: Agent

    func run() async throws {
        try await gracefulShutdown()
        await agent.stop()
    }
}

/// Ends, and the group with it, when a signal requests a stop.
private struct Ending: Service {
    let signals: ProcessSignals
    let notice: SupervisorNotice
    let agent: Agent
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown { await signals.stop() }
        guard signals.isStopping else { return }
        agent.stopProgress.start(at: agent.environment.time.monotonicNanoseconds())
        notice.stopping()
        if let signal = signals.reportStop() { logger.info("stopping: \(signal)") }
        agent.audit.note(.init(who: "agent", from: "", action: "stopped", outcome: "by a signal"))
    }
}

/// Reloads the configuration at each SIGHUP.
private struct Reloading: Service {
    let signals: ProcessSignals
    let reload: @Sendable () async throws -> ReloadOutcome
    let logger: Logger

    func run() async throws {
        for await _ in signals.reloads.cancelOnGracefulShutdown() {
            do {
                let done = try await reload().done
                logger.notice("SIGHUP: \(done.joined(separator: "; "))")
            } catch {
                logger.error("SIGHUP: the configuration is refused, the old one stays in force: \(error)")
            }
        }
    }
}

/// Waits for both sides of the admin API, then reports all listening addresses once.
private final class Announcer: Sendable {
    private let state: Mutex<(missing: Int, addresses: [String])>
    private let announce: @Sendable ([String]) -> Void

    init(expected: Int, announce: @escaping @Sendable ([String]) -> Void) {
        state = Mutex((expected, []))
        self.announce = announce
    }

    func add(_ address: String) {
        let all = state.withLock { state -> [String]? in
            state.missing -= 1
            state.addresses.append(address)
            return state.missing == 0 ? state.addresses : nil
        }
        if let all { announce(all) }
    }
}
