import AgentConfiguration
import Interfaces
import Logging

/// Listeners one by one: an operator stops and starts them, one that cannot have its port yet gets it later, and one that is bound by the name of a
/// network interface goes where its addresses go.
extension Agent {
    /// `listener_wait`: the longest pause between two attempts to have a port, in seconds. The first is one second, and each doubles. After as long a
    /// listener looks at its interface too, in case the system does not tell of changes.
    private static let longestPause = 60
    /// As many attempts to have one more address have failed when that is told: for a second or two after it has come, an IPv6 address cannot be had,
    /// while the machine asks whether somebody else has it.
    private static let partlyTold = 3

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
        guard let obstacle else {
            if listener.followsInterface { keepTrying(listener, failures: 0) }
            return "listener \(name) started"
        }
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
        keepTrying(listener, failures: 1)
    }

    private func keepTrying(_ listener: PeerListener, failures: Int) {
        listener.binding.begin(environment.task { [weak self, weak listener] in
            guard let listener else { return }
            await self?.attempts(listener, failures: failures)
        })
    }

    /// Until it has its port; where that is on the addresses of an interface, as long as it listens.
    ///
    /// - Parameter failures: attempts that failed, one after the other.
    private func attempts(_ listener: PeerListener, failures: Int) async {
        var failures = failures
        func pause() -> Int { failures == 0 ? Self.longestPause : min(1 << min(failures - 1, 10), Self.longestPause) }
        while !Task.isCancelled {
            await listener.binding.nextAttempt(seconds: pause(), environment)
            guard !Task.isCancelled, !isStopping else { return }
            let wasBound = listener.isBound
            do { try await listener.startOrFollow(group: group) } catch {
                // One that has lost all addresses, or has got one, begins anew.
                failures = listener.isBound == wasBound ? failures + 1 : 1
                if listener.isBound, failures < Self.partlyTold {
                    if !Task.isCancelled { listener.binding.markListening() }
                    continue
                }
                let obstacle = error as? ReplicationError ?? ReplicationError(network: .aborted, message: "\(error)")
                if failures == (listener.isBound ? Self.partlyTold : 1) {
                    listener.logger.error("it does not listen\(listener.isBound ? " everywhere" : " any more"), and goes on trying: \(obstacle.message)")
                }
                listener.binding.noteWaiting(for: obstacle, isListening: listener.isBound, now: environment.time.wallSeconds(), next: pause())
                continue
            }
            failures = 0
            // Whoever stopped it meanwhile waits for this, and closes what is bound.
            if !Task.isCancelled { listener.binding.markListening() }
            guard listener.followsInterface else { return }
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

    /// No effect on one that listens everywhere; one that waits for its port tries now, and this returns when it has.
    func startListener(named name: String) async throws {
        await reloads.enter()
        defer { reloads.leave() }
        let listener = try listener(name)
        switch listener.binding.condition {
        case .listening: break
        case .partly, .waiting: await listener.binding.retry()
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
