import Documents
import Encodings
import Replication
import Synchronization

/// Recent events, for all readers of `/api/events` and for those that reconnect: `documents`, `remote_went_back`, `conflict`, `plugin` and
/// `attention`, numbered in one sequence.
///
/// Recording begins with the first reader and ends when there has been none for `event_memory_seconds`, so an agent that nobody watches spends
/// nothing on it. An event id is `RUN-NUMBER`; for an id from another run, such as the one before a restart, it is not known how many events are
/// missing.
final class EventRecord: Sendable {
    /// `event_memory_seconds`: how long recording goes on without a reader.
    static let memorySeconds = 600

    private struct Reader {
        var only: String?
        var buffer: EventBuffer
    }

    private struct Run {
        let id: String
        var last = 0
        var queue = EventQueue()
        var readers: [Int: Reader] = [:]
        var nextReader = 0
        /// How long there has been no reader.
        var secondsWithoutReader = 0
        var tasks: [Task<Void, Never>] = []
    }

    private let agent: Agent
    private let run = Mutex<Run?>(nil)

    init(agent: Agent) { self.agent = agent }

    deinit { for task in run.withLock({ $0?.tasks ?? [] }) { task.cancel() } }

    /// A buffer that starts with what has happened since an event, if that is known, and then receives everything new.
    func join(only: String?, after last: String?, onEnd: @escaping @Sendable () -> Void) -> EventBuffer {
        run.withLock { run in
            var now = run ?? begin()
            now.nextReader += 1
            let number = now.nextReader
            now.secondsWithoutReader = 0
            let place = last.map { Self.number($0, in: now) }
            // If the id is not usable, everything kept counts as new.
            let since = place.map { $0 ?? 0 } ?? now.last
            let before = max(since, now.queue.first.map { $0.number - 1 } ?? now.last)
            let id = now.id
            let buffer = EventBuffer(run: id, number: before) { [weak self] in
                onEnd()
                self?.leave(number, of: id)
            }
            if let place {
                if place == nil { buffer.lose(nil) } else if before > since { buffer.lose(before - since) }
                for entry in now.queue.waiting where entry.number > before { Self.hand(entry, to: Reader(only: only, buffer: buffer)) }
            }
            now.readers[number] = Reader(only: only, buffer: buffer)
            run = now
            return buffer
        }
    }

    /// The number in an id of this run; nil for any other text.
    private static func number(_ id: String, in run: Run) -> Int? {
        let parts = id.split(separator: "-")
        guard parts.count == 2, parts[0].utf8.elementsEqual(run.id.utf8), let number = Int(parts[1]), (0...run.last).contains(number) else { return nil }
        return number
    }

    private func leave(_ number: Int, of id: String) {
        run.withLock { run in
            guard run?.id == id else { return }
            run?.readers[number] = nil
        }
    }

    private static func hand(_ entry: EventQueue.Entry, to reader: Reader) {
        if EventReports.isAboutAnother(entry.subject ?? "", than: reader.only) { reader.buffer.pass(entry.number) } else { reader.buffer.add(entry) }
    }

    private func add(_ name: String, _ data: JSONValue, about subject: String? = nil, to id: String) {
        let text = EventText.event(name, data)
        run.withLock { run in
            guard run?.id == id, var now = run.take() else { return }
            now.last += 1
            let entry = EventQueue.Entry(number: now.last, text: text, subject: subject)
            _ = now.queue.append(entry)
            for reader in now.readers.values { Self.hand(entry, to: reader) }
            run = now
        }
    }

    /// Subscribes to all sources of events, from this moment on.
    private func begin() -> Run {
        let agent = agent
        let id = Hex.encode(agent.environment.random.bytes(4))
        var run = Run(id: id)
        let follower = RosterFollower(roster: agent.roster) { replicator in
            let name = replicator.configuration.name
            let noted = replicator.status.wentBack?.time
            let changes = replicator.statusChanges()
            let documents = replicator.documentEvents()
            return [
                Task { [weak self] in
                    var noted = noted
                    for await status in changes {
                        guard let wentBack = status.wentBack, wentBack.time != noted else { continue }
                        noted = wentBack.time
                        self?.add("remote_went_back", EventReports.report(name, wentBack), about: "replicator \(name)", to: id)
                    }
                },
                Task { [weak self] in
                    for await batch in documents { self?.add("documents", EventReports.report(name, batch), about: "replicator \(name)", to: id) }
                },
            ]
        }
        let followed = follower.start()
        run.tasks.append(Task { await follower.run(followed) })
        let conflicts = agent.conflicts.stream()
        run.tasks.append(
            Task { [weak self] in
                for await event in conflicts { self?.add("conflict", ConflictReports.json(event), to: id) }
            })
        let plugins = agent.pluginEvents.stream()
        run.tasks.append(
            Task { [weak self] in
                for await event in plugins {
                    let generation = agent.plugins?.status().first { $0.name == event.plugin }?.generation
                    self?.add("plugin", EventReports.report(event, generation, at: agent.environment.time.wallSeconds()), to: id)
                }
            })
        let attention = agent.attentionTimes.stream()
        run.tasks.append(
            Task { [weak self] in
                for await change in attention { self?.add("attention", EventReports.report(change), about: change.entry.subject, to: id) }
            })
        run.tasks.append(
            Task { [weak self] in
                while !Task.isCancelled {
                    try? await agent.environment.time.sleep(seconds: EventRoutes.keepAliveSeconds)
                    // Otherwise readers would learn of new attention only when the next check runs, up to a minute later.
                    _ = await agent.attention()
                    self?.endIfAlone(id)
                }
            })
        return run
    }

    private func endIfAlone(_ id: String) {
        let tasks = run.withLock { run -> [Task<Void, Never>] in
            guard run?.id == id, var now = run.take() else { return [] }
            now.secondsWithoutReader = now.readers.isEmpty ? now.secondsWithoutReader + EventRoutes.keepAliveSeconds : 0
            if now.secondsWithoutReader >= Self.memorySeconds { return now.tasks }
            run = now
            return []
        }
        for task in tasks { task.cancel() }
    }
}
