import Environment
import Glibc
import HTTPServer
import Logging
import NIOCore
import ServiceLifecycle
import Synchronization

/// The admin socket's place in the data folder, and the folder's lock: both are made again if somebody removes or replaces them while the agent
/// runs. Otherwise commands would say that no agent runs, and a second one could start beside this one. Nothing else is made.
final class AdminSocket: Service {
    /// `admin_socket_interval`: seconds between two checks, each of which costs a few system calls.
    private static let seconds = 5

    private struct State {
        var listener: HTTPListener?
        var identity: FileIdentity?
        /// What was last logged as wrong; nil while all is well.
        var problem: String?
    }

    let path: String
    private let agent: Agent
    private let logger: Logger
    private let state = Mutex(State())

    init(_ path: String, agent: Agent, logger: Logger) {
        self.path = path
        self.agent = agent
        self.logger = logger
    }

    /// Called when the socket accepts connections: only the agent's user may open it.
    func bound(_ listener: HTTPListener) {
        chmod(path, 0o600)
        let identity = FileIdentity(path: path)
        state.withLock {
            $0.listener = listener
            $0.identity = identity
        }
    }

    /// Removes the socket, unless another agent's is in its place.
    func remove() { if isInPlace { unlink(path) } }

    /// Whether the socket that this agent listens on is at its path.
    private var isInPlace: Bool {
        guard let identity = state.withLock({ $0.identity }) else { return false }
        return FileIdentity(path: path) == identity
    }

    func run() async throws {
        await cancelWhenGracefulShutdown { [self] in
            while !Task.isCancelled {
                try? await agent.environment.time.sleep(seconds: Self.seconds)
                guard !Task.isCancelled else { return }
                await check()
            }
        }
    }

    /// Checks once.
    private func check() async {
        do throws(AgentError) {
            // First: while another agent has the folder, the socket there is that one's.
            if try await agent.keepFolderLock() {
                logger.warning("the lock file of the data folder was gone or another one, and has been made again: find out what removed it")
            }
            if try await keepSocket() {
                logger.warning("the admin socket was gone or another file, and has been made again: find out what removed it", metadata: ["socket": "\(path)"])
            }
            state.withLock { $0.problem = nil }
        } catch {
            report(error)
        }
    }

    /// - Returns: whether it had to be made again.
    private func keepSocket() async throws(AgentError) -> Bool {
        guard let listener = state.withLock({ $0.listener }), !isInPlace else { return false }
        guard let address = try? SocketAddress(unixDomainSocketPath: path) else { return false }
        // Connections that are open go on.
        _ = await listener.listen(on: [])
        unlink(path)
        let outcome = await listener.listen(on: [address])
        if let failure = outcome.failures.first {
            let reason = (failure.error as? IOError).map { String(cString: strerror($0.errnoCode)) } ?? "\(failure.error)"
            throw AgentError(.failed, "\(path): cannot listen: \(reason)")
        }
        // It is stopping.
        guard !outcome.bound.isEmpty else { return false }
        bound(listener)
        return true
    }

    /// Logs what keeps the socket or the lock from being made again: once, until it is another reason.
    private func report(_ error: AgentError) {
        let isNew = state.withLock { state in
            defer { state.problem = error.message }
            return state.problem != error.message
        }
        guard isNew else { return }
        logger.error(
            """
            the admin socket or the lock file of the data folder is gone or another file and cannot be made again, so commands may not reach this agent, and \
            another one may start on the same folder; it tries again every \(Self.seconds) seconds: \(error)
            """)
    }
}
