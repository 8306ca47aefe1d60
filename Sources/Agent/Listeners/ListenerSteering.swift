import AgentConfiguration
import Interfaces
import Logging

/// Controls single listeners: an operator stops and starts them, a listener that could not bind its port gets it later, and one that is bound to a
/// network interface by name follows the interface's addresses.
extension Agent {
    /// `listener_wait`: the longest pause between two attempts to bind a port, in seconds. The first pause is one second, and each one doubles. At
    /// this interval a listener also checks its interface, in case the system does not report changes.
    private static let longestPause = 60
    /// A failure to bind an additional address is reported only after this many attempts: a new IPv6 address cannot be bound for the first second or
    /// two, while the system checks for duplicates.
    private static let attemptsBeforeReporting = 3

    func startListener(_ settings: ListenerSettings) async throws {
        let listener = try makeListener(settings, policies())
        let obstacle = try await bindUnlessBlocked(listener)
        guard !isStopping else {
            await listener.stop(code: 4001)
            return
        }
        take(listener, obstacle)
    }

    /// Starts accepting peers, at once or when the obstacle is gone.
    ///
    /// - Returns: what was done, for the operator.
    @discardableResult
    func take(_ listener: PeerListener, _ obstacle: ReplicationError?) -> String {
        let name = listener.settings.name.value
        shared.withLock { state in
            // It replaces a listener with the same name that an operator stopped.
            if let index = state.listeners.firstIndex(where: { $0.settings.name.value == name }) {
                state.listeners[index] = listener
            } else {
                state.listeners.append(listener)
            }
        }
        listener.open()
        guard let obstacle else {
            if listener.followsInterface { keepTrying(listener, failures: 0) }
            return "listener \(name) started"
        }
        wait(for: obstacle, listener)
        return "listener \(name) waits for its port: \(obstacle.message)"
    }

    func bind(_ listener: PeerListener) async throws {
        do { try await listener.start(group: group) } catch {
            throw Self.failure(of: listener, error)
        }
    }

    /// - Returns: an obstacle that may disappear without intervention.
    func bindUnlessBlocked(_ listener: PeerListener) async throws -> ReplicationError? {
        do { try await listener.start(group: group) } catch let error as ReplicationError where error.mayResolveItself {
            return error
        } catch {
            throw Self.failure(of: listener, error)
        }
        return nil
    }

    /// With the place in the configuration that chooses what failed.
    private static func failure(of listener: PeerListener, _ error: any Error) -> AgentError {
        let settings = listener.settings
        let place = settings.port.position == .none ? settings.name.position : settings.port.position
        return AgentError(.failed, (place == .none ? "" : "\(place): ") + "listener \"\(settings.name.value)\": \(error)")
    }

    private func wait(for obstacle: ReplicationError, _ listener: PeerListener) {
        listener.logger.error("it does not listen yet, and keeps trying: \(obstacle.message)")
        listener.binding.noteWaiting(for: obstacle, now: environment.time.wallSeconds(), next: 1)
        keepTrying(listener, failures: 1)
    }

    private func keepTrying(_ listener: PeerListener, failures: Int) {
        listener.binding.begin(environment.task { [weak self, weak listener] in
            guard let listener else { return }
            await self?.attempts(listener, failures: failures)
        })
    }

    /// Tries until the listener has its port; if it is bound to an interface, as long as it listens.
    ///
    /// - Parameter failures: the number of consecutive failed attempts.
    private func attempts(_ listener: PeerListener, failures: Int) async {
        var failures = failures
        func pause() -> Int { failures == 0 ? Self.longestPause : min(1 << min(failures - 1, 10), Self.longestPause) }
        while !Task.isCancelled {
            await listener.binding.nextAttempt(seconds: pause(), environment)
            guard !Task.isCancelled, !isStopping else { return }
            let wasBound = listener.isBound
            do { try await listener.startOrFollow(group: group) } catch {
                // If it has lost all addresses, or gained its first, the count starts over.
                failures = listener.isBound == wasBound ? failures + 1 : 1
                if listener.isBound, failures < Self.attemptsBeforeReporting {
                    if !Task.isCancelled { listener.binding.markListening() }
                    continue
                }
                let obstacle = error as? ReplicationError ?? ReplicationError(network: .aborted, message: "\(error)")
                if failures == (listener.isBound ? Self.attemptsBeforeReporting : 1) {
                    listener.logger.error("it does not listen\(listener.isBound ? " everywhere" : " any more"), and keeps trying: \(obstacle.message)")
                }
                listener.binding.noteWaiting(for: obstacle, isListening: listener.isBound, now: environment.time.wallSeconds(), next: pause())
                continue
            }
            failures = 0
            // If it was stopped meanwhile, the stop waits for this attempt and closes what it bound.
            if !Task.isCancelled { listener.binding.markListening() }
            guard listener.followsInterface else { return }
        }
    }

    // MARK: - Manual control

    nonisolated func listener(_ name: String) throws(AgentError) -> PeerListener {
        guard let found = listeners.first(where: { $0.settings.name.value.utf8.elementsEqual(name.utf8) }) else {
            let names = listeners.map(\.settings.name.value)
            throw AgentError(.notFound, "there is no listener \"\(name)\"; there \(names.isEmpty ? "are none" : "is \(names.joined(separator: ", "))")")
        }
        return found
    }

    /// Ends its connections and releases the port, until it is started, its configuration changes or the agent restarts. Works even if the listener's
    /// files are broken. Its peers are asked to come back: only the operator knows how long the stop will last, and a peer that gives up completely
    /// would have to be restarted by hand.
    func stopListener(named name: String) async throws {
        await reloads.enter()
        defer { reloads.leave() }
        let listener = try listener(name)
        if case .stopped = listener.binding.condition { return }
        await listener.stop(code: 4001, reason: "the listener was stopped by an operator, come back later")
        listener.binding.markStopped()
        listener.logger.notice("stopped by an operator")
    }

    /// No effect if it listens on all addresses; if it waits for its port it tries now, and this returns after the attempt.
    func startListener(named name: String) async throws {
        await reloads.enter()
        defer { reloads.leave() }
        let listener = try listener(name)
        switch listener.binding.condition {
        case .listening: break
        case .partly, .waiting: await listener.binding.retry()
        case .stopped:
            guard !isStopping else { return }
            // The stopped listener cannot be reused: a new one takes its place.
            try await startListener(listener.settings)
        }
    }
}

extension ReplicationError {
    /// The port is in use, or the interface or its address does not exist; this may change without intervention.
    fileprivate var mayResolveItself: Bool {
        guard domain == .network, let code = NetworkCode(rawValue: code) else { return false }
        return [.addressNotAvailable, .unknownInterface, .dnsFailure, .networkDown].contains(code)
    }
}
