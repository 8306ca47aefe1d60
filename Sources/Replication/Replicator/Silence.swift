import Interfaces

/// A connection may be up and answer PING, and still not report changes at the peer: a load balancer lost half of it, or a feed died. So an idle
/// replicator occasionally checks, over a separate connection, whether the peer has something that is not here. And a peer that is asked by requests may
/// be restored or created anew between two of them: whether it still has the checkpoint is checked as well.
extension Replicator {
    /// Watches a session until cancelled; nil if there is nothing to watch.
    func watchForSilence(_ session: ReplicationSession) -> Task<Void, Never>? {
        guard configuration.isContinuous, configuration.silenceIntervalSeconds > 0 else { return nil }
        return environment.task { [weak self, environment, interval = configuration.silenceIntervalSeconds, pulls = configuration.type.pulls] in
            var canary = IdleCanary(intervalSeconds: interval)
            var seconds = interval
            while true {
                try? await environment.time.sleep(seconds: seconds)
                guard !Task.isCancelled else { return }
                let checks = await session.checkPeer()
                guard pulls || checks else { return }
                guard pulls else { continue }
                guard let self, let next = await self.look(at: session, &canary) else { return }
                seconds = next
            }
        }
    }

    /// - Returns: seconds until the next check; nil once the connection is being replaced.
    private func look(at session: ReplicationSession, _ canary: inout IdleCanary) async -> Int? {
        // Documents that wait for space are known to be missing.
        guard status.activity == .idle, status.refusals.space == nil else { return canary.forget() }
        let before = await session.pulledThrough
        guard let missing = await ask(since: before) else { return canary.forget() }
        guard status.activity == .idle, sessions.contains(where: { $0 === session }) else { return canary.forget() }
        let after = await session.pulledThrough
        guard before == after else { return canary.forget() }
        update { $0.silence.checks += 1 }
        switch canary.asked(missing: missing, at: after) {
        case .wait(let seconds): return seconds
        case .reconnect:
            update { $0.silence.reconnects += 1 }
            await reconnect("idle, while the peer has \(missing) \(missing == 1 ? "document" : "documents") that it did not announce")
            return nil
        }
    }

    /// Counts what the peer has after these sequences that is not here, without accepting any of it; nil if that could not be determined.
    private func ask(since: [RemoteSequence?]) async -> UInt64? {
        guard let reached = try? await connector.reach(configuration.chosen.key) else { return nil }
        let transport = reached.transport
        guard !isStopping, !isSuspended else {
            transport.drop()
            return nil
        }
        var only = configuration.at(reached.remote)
        (only.type, only.isContinuous) = (.pull, false)
        let counters = ReplicationCounters()
        var active = ActiveConfiguration(replicator: only, startsLegacy: speaksLegacy, savesCheckpoint: false)
        active.asksOnlySince = since
        let end = await replicate(over: transport, active, counters, correlation: transport.correlationID)
        return end.error == nil ? counters.snapshot.rejected : nil
    }
}
