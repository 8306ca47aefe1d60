import AgentConfiguration
import Interfaces
import Logging

/// Listeners one by one: an operator stops and starts them, and one that cannot have its port yet gets it later.
extension Agent {
    /// `listener_wait`: the longest pause between two attempts to have a port, in seconds. The first is one second, and each doubles.
    private static let longestPause = 60

    func startListener(_ settings: ListenerSettings) async throws {
        let listener = try makeListener(settings, policies())
        let obstacle = try await bindUnlessBlocked(listener)
        guard !isStopping else {
            await listener.stop(code: 4001)
            return
        }
        shared.withLock { $0.listeners.append(listener) }
        listener.open()
        if let obstacle { wait(for: obstacle, listener) }
    }

    func bind(_ listener: PeerListener) async throws {
        do { try await listener.start(group: group) } catch {
            throw AgentError(.failed, "listener \"\(listener.settings.name.value)\": \(error)")
        }
    }

    /// - Returns: what stands in the way and may go away by itself.
    private func bindUnlessBlocked(_ listener: PeerListener) async throws -> ReplicationError? {
        do { try await listener.start(group: group) } catch let error as ReplicationError where error.mayFreeThePort {
            return error
        } catch {
            throw AgentError(.failed, "listener \"\(listener.settings.name.value)\": \(error)")
        }
        return nil
    }

    private func wait(for obstacle: ReplicationError, _ listener: PeerListener) {
        listener.logger.error("it does not listen yet, and goes on trying: \(obstacle.message)")
        listener.binding.waits(for: obstacle, now: environment.time.wallSeconds(), next: 1)
        listener.binding.begin(environment.task { [weak self, weak listener] in
            guard let listener else { return }
            await self?.keepTrying(listener)
        })
    }

    private func keepTrying(_ listener: PeerListener) async {
        var seconds = 1
        while !Task.isCancelled {
            await listener.binding.pause(seconds: seconds, environment)
            guard !Task.isCancelled, !isStopping else { return }
            do { try await listener.start(group: group) } catch {
                seconds = min(seconds * 2, Self.longestPause)
                let obstacle = error as? ReplicationError ?? ReplicationError(network: .aborted, message: "\(error)")
                listener.binding.waits(for: obstacle, now: environment.time.wallSeconds(), next: seconds)
                continue
            }
            // It may have been taken out of the configuration meanwhile.
            guard !isStopping, listeners.contains(where: { $0 === listener }) else { return await listener.stop(code: 1001) }
            listener.binding.isListening()
            return
        }
    }

    // MARK: - By hand

    nonisolated func listener(_ name: String) throws(AgentError) -> PeerListener {
        guard let found = listeners.first(where: { $0.settings.name.value.utf8.elementsEqual(name.utf8) }) else {
            let names = listeners.map(\.settings.name.value)
            throw AgentError(.notFound, "there is no listener \"\(name)\"; there \(names.isEmpty ? "are none" : "is \(names.joined(separator: ", "))")")
        }
        return found
    }

    /// Ends its connections and gives the port back, until it is started, its configuration changes or the agent starts again.
    func stopListener(named name: String) async throws {
        await reloads.enter()
        defer { reloads.leave() }
        let listener = try listener(name)
        if case .stopped = listener.binding.condition { return }
        // What is stopped is over: another one stands for it.
        let next = try makeListener(listener.settings, policies())
        next.binding.isStopped()
        shared.withLock { state in state.listeners = state.listeners.map { $0 === listener ? next : $0 } }
        await listener.stop(code: 1001)
        next.logger.notice("stopped by an operator")
    }

    /// No effect on one that listens; one that waits for its port tries now.
    func startListener(named name: String) async throws {
        await reloads.enter()
        defer { reloads.leave() }
        let listener = try listener(name)
        switch listener.binding.condition {
        case .listening: break
        case .waiting: listener.binding.retryNow()
        case .stopped:
            guard !isStopping else { return }
            let obstacle = try await bindUnlessBlocked(listener)
            listener.binding.isListening()
            listener.open()
            if let obstacle { wait(for: obstacle, listener) }
        }
    }
}

extension ReplicationError {
    /// Of a listener: the port is in use, or the interface or its address is not there, and that may end by itself.
    fileprivate var mayFreeThePort: Bool {
        guard domain == .network, let code = NetworkCode(rawValue: code) else { return false }
        return [.addressNotAvailable, .unknownInterface, .dnsFailure, .networkDown].contains(code)
    }
}
