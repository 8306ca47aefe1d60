import AgentConfiguration
import Glibc
import Replication
import Synchronization

/// Which replicators may connect only at certain times of day, and whether this is such a time.
final class Schedules: Sendable {
    private let known = Mutex<[String: Bool]>([:])
    private let watch = Mutex<Task<Void, Never>?>(nil)

    func follow(_ work: @escaping @Sendable () async -> Void) { watch.withLock { $0 = Task { await work() } } }
    func end() { watch.withLock { $0?.cancel() } }

    /// - Returns: the value noted before; nil for a new replicator.
    func note(_ name: String, isWanted: Bool) -> Bool? { known.withLock { $0.updateValue(isWanted, forKey: name) } }

    /// Forgets all others.
    func keep(_ names: Set<String>) { known.withLock { $0 = $0.filter { names.contains($0.key) } } }
}

extension Agent {
    /// Seconds between two looks at the clock.
    private static let checkIntervalSeconds = 10

    /// Suspends and resumes replicators when their schedules say so, until the task is cancelled. An operator's action in between holds until the
    /// next change.
    func watchSchedules() async {
        while !Task.isCancelled {
            try? await environment.time.sleep(seconds: Self.checkIntervalSeconds)
            guard !Task.isCancelled, !isStopping else { return }
            let minute = Self.minuteOfDay(environment.time.wallSeconds())
            let scheduled = settings.replicators.filter { !$0.schedule.isEmpty }
            schedules.keep(Set(scheduled.map(\.name.value)))
            for wanted in scheduled {
                let name = wanted.name.value
                let isWanted = wanted.isScheduled(at: minute)
                guard let replicator = replicators.first(where: { $0.configuration.name.utf8.elementsEqual(name.utf8) }),
                    let before = schedules.note(name, isWanted: isWanted), before != isWanted
                else { continue }
                if !isWanted {
                    _ = await replicator.suspend()
                } else if shared.withLock({ $0.replicatorHalts[name] }) == nil {
                    await replicator.resume()
                }
            }
        }
    }

    /// Whether a replicator that starts now may connect.
    func mayConnect(_ settings: ReplicatorSettings) -> Bool {
        guard !settings.schedule.isEmpty else { return true }
        let isWanted = settings.isScheduled(at: Self.minuteOfDay(environment.time.wallSeconds()))
        _ = schedules.note(settings.name.value, isWanted: isWanted)
        return isWanted
    }

    /// When the schedule lets a replicator connect again (seconds since 1970); nil if it may now, an operator has suspended it, or it never does.
    nonisolated func resumption(of replicator: Replicator, now: Int64) -> Int64? {
        let name = replicator.configuration.name
        guard replicator.status.isSuspended, shared.withLock({ $0.replicatorHalts[name] }) == nil,
            let settings = settings.replicators.first(where: { $0.name.value.utf8.elementsEqual(name.utf8) }),
            !settings.isScheduled(at: Self.minuteOfDay(now))
        else { return nil }
        // Evaluates the local time at that moment, since summer time may begin or end before it.
        let minutes = (1...2 * 1_440).first { settings.isScheduled(at: Self.minuteOfDay(now + 60 * Int64($0))) }
        return minutes.map { now - now % 60 + 60 * Int64($0) }
    }

    /// Since midnight, in the machine's time zone.
    private nonisolated static func minuteOfDay(_ seconds: Int64) -> Int {
        var seconds = time_t(seconds)
        var parts = tm()
        localtime_r(&seconds, &parts)
        return Int(parts.tm_hour) * 60 + Int(parts.tm_min)
    }
}
