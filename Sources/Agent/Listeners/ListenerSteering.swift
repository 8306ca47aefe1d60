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
        take(listener, obstacle)
    }

    /// Takes peers from now on, at once or when what stands in the way has gone.
    ///
    /// - Returns: what was done, for the operator.
    @discardableResult
    func take(_ listener: PeerListener, _ obstacle: ReplicationError?) -> String {
        let name = listener.settings.name.value
        shared.withLock { state in
            // One that an operator stopped stood for it.
            if let index = state.listeners.firstIndex(where: { $0.settings.name.value == name }) {
                state.listeners[index] = listener
            } else {
                state.listeners.append(listener)
            }
        }
        listener.open()
        guard let obstacle else { return "listener \(name) started" }
        wait(for: obstacle, listener)
        return "listener \(name) waits for its port: \(obstacle.message)"
    }

    func bind(_ listener: PeerListener) async throws {
        do { try await listener.start(group: group) } catch {
            throw AgentError(.failed, "listener \"\(listener.settings.name.value)\": \(error)")
        }
    }

    /// - Returns: what stands in the way and may go away by itself.
    func bindUnlessBlocked(_ listener: PeerListener) async throws -> ReplicationError? {
        do { try await listener.start(group: group) } catch let error as ReplicationError where error.mayPassByItself {
            return error
        } catch {
            throw AgentError(.failed, "listener \"\(listener.settings.name.value)\": \(error)")
        }
        return nil
    }

    private func wait(for obstacle: ReplicationError, _ listener: PeerListener) {
        listener.logger.error("it does not listen yet, and goes on trying: \(obstacle.message)")
        listener.binding.noteWaiting(for: obstacle, now: environment.time.wallSeconds(), next: 1)
        listener.binding.begin(environment.task { [weak self, weak listener] in
            guard let listener else { return }
            await self?.keepTrying(listener)
        })
    }

    private func keepTrying(_ listener: PeerListener) async {
        var seconds = 1
        while !Task.isCancelled {
            await listener.binding.nextAttempt(seconds: seconds, environment)
            guard !Task.isCancelled, !isStopping else { return }
            do { try await listener.start(group: group) } catch {
                seconds = min(seconds * 2, Self.longestPause)
                let obstacle = error as? ReplicationError ?? ReplicationError(network: .aborted, message: "\(error)")
                listener.binding.noteWaiting(for: obstacle, now: environment.time.wallSeconds(), next: seconds)
                continue
            }
            // Whoever stopped it meanwhile waits for this, and closes what is bound.
            if !Task.isCancelled { listener.binding.markListening() }
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

    /// Ends its connections and releases the port, until it is started, its configuration changes or the agent starts again. Needs nothing of
    /// what it was made of: a listener whose files are broken can be stopped too. Its peers are told to come back: only the operator knows for
    /// how long it stays away, and a peer that was told to stop for good would have to be started by hand.
    func stopListener(named name: String) async throws {
        await reloads.enter()
        defer { reloads.leave() }
        let listener = try listener(name)
        if case .stopped = listener.binding.condition { return }
        await listener.stop(code: 4001)
        listener.binding.markStopped()
        listener.logger.notice("stopped by an operator")
    }

    /// No effect on one that listens; one that waits for its port tries now, and this returns when it has.
    func startListener(named name: String) async throws {
        await reloads.enter()
        defer { reloads.leave() }
        let listener = try listener(name)
        switch listener.binding.condition {
        case .listening: break
        case .waiting: await listener.binding.retry()
        case .stopped:
            guard !isStopping else { return }
            // What was stopped is over: another one takes its place.
            try await startListener(listener.settings)
        }
    }
}

extension ReplicationError {
    /// Of a listener: the port is in use, or the interface or its address is not there, and that may end by itself.
    fileprivate var mayPassByItself: Bool {
        guard domain == .network, let code = NetworkCode(rawValue: code) else { return false }
        return [.addressNotAvailable, .unknownInterface, .dnsFailure, .networkDown].contains(code)
    }
}
