import Documents
import Encodings
import HTTPServer
import NIOCore
import Replication
import Synchronization

/// `/api/events`: server-sent events (HTML standard, section 9.2): `status` of replicators, `documents` that they replicated or failed to,
/// `remote_went_back` when a replicator finds its remote at an earlier sequence than before, `conflict` when one was decided or became pending,
/// `plugin` reloads and failures, `attention` when an entry joins or leaves the list of what needs attention, and `lost`, which tells a slow reader
/// how many events it missed.
///
/// With `status=SECONDS` there is also `agent`: all of `/api/status`, at that interval; with `log=true` also `log`: lines of the log. With
/// `replicator=NAME`, nothing about other replicators is sent. Replicators that a reload adds are included from then on.
///
/// Each event has an `id`. A reader that reconnects with the last one it saw (`Last-Event-ID`, or `last_event_id` in the query) first gets what has
/// happened since, see ``EventRecord``; `status`, `agent` and `log` describe the present state, and are not repeated.
struct EventRoutes: Sendable {
    let agent: Agent

    /// Seconds between two comments that keep the connection alive.
    static let keepAliveSeconds = 15
    /// `max_event_streams`: concurrent readers; HTTP 503 for any more. Leaves sockets for requests that do something.
    static let maximumStreams = 64

    private let places = Places()
    private let record: EventRecord

    init(agent: Agent) {
        self.agent = agent
        record = EventRecord(agent: agent)
    }

    /// Counts the readers.
    private final class Places: Sendable {
        let taken = Atomic<Int>(0)

        func take() throws(HTTPError) -> Place {
            guard taken.wrappingAdd(1, ordering: .relaxed).newValue <= EventRoutes.maximumStreams else {
                taken.wrappingSubtract(1, ordering: .relaxed)
                throw HTTPError(503, "there are \(EventRoutes.maximumStreams) readers of /api/events already (max_event_streams)")
            }
            return Place(self)
        }
    }

    /// A reader's place, occupied until this is released.
    private final class Place: Sendable {
        private let places: Places
        init(_ places: Places) { self.places = places }
        deinit { places.taken.wrappingSubtract(1, ordering: .relaxed) }
    }

    var routes: [Route] {
        [
            .get("api/events") { request in
                let seconds = try Self.seconds(request)
                let hasLog = try request.flag(.log)
                let only = try request.value(.replicator)
                let last = try request.headers.first("Last-Event-ID") ?? request.value(.lastEventID)
                let place = try places.take()
                return .stream(headers: ["Content-Type": "text/event-stream", "Cache-Control": "no-store"]) { writer in
                    defer { withExtendedLifetime(place) {} }
                    let events = events(status: seconds, hasLog: hasLog, only: only, after: last)
                    // When the agent stops it does not wait for readers to disconnect.
                    let registration = request.connection.drain.onDrain { events.finish() }
                    defer {
                        request.connection.drain.cancel(registration)
                        events.finish()
                    }
                    try await writer.write(ByteBuffer(string: ": nightjar events\n\n"))
                    for await _ in events.signal {
                        while let text = events.take() { try await writer.write(ByteBuffer(bytes: text)) }
                    }
                }
            }
        ]
    }

    /// `status=SECONDS`, 1 to 60.
    private static func seconds(_ request: HTTPRequest) throws -> Int? {
        guard let text = try request.value(.status) else { return nil }
        guard let seconds = Int(text), (1...60).contains(seconds) else { throw AgentError(.invalid, "status must be 1 to 60 seconds, not \"\(text)\"") }
        return seconds
    }

    /// All events from now on, preceded by those after the last one that a returning reader saw, and a comment every `keepAliveSeconds`, until the
    /// buffer is finished.
    private func events(status seconds: Int?, hasLog: Bool, only: String?, after last: String?) -> EventBuffer {
        let running = RunningTasks()
        let buffer = record.join(only: only, after: last) { running.cancel() }
        var tasks: [Task<Void, Never>] = []
        tasks.append(Task { await followStatus(only, into: buffer) })
        if let seconds {
            tasks.append(
                Task {
                    while !Task.isCancelled {
                        buffer.add(EventText.event("agent", await agent.statusReport()))
                        try? await agent.environment.time.sleep(seconds: seconds)
                    }
                })
        }
        if hasLog {
            let lines = agent.logs.tail.stream()
            tasks.append(
                Task {
                    for await line in lines { buffer.add(EventText.event("log", line)) }
                })
        }
        tasks.append(
            Task {
                while !Task.isCancelled {
                    try? await agent.environment.time.sleep(seconds: Self.keepAliveSeconds)
                    buffer.add(EventText.comment)
                }
            })
        running.set(tasks)
        return buffer
    }

    /// Follows the status of each replicator for as long as the replicator exists, until the task is cancelled.
    private func followStatus(_ only: String?, into buffer: EventBuffer) async {
        let agent = agent
        await RosterFollower(roster: agent.roster, only: only) { replicator in
            let changes = replicator.statusChanges()
            return [
                Task {
                    for await _ in changes {
                        var report = await agent.report(replicator).asObject ?? JSONObject()
                        report["time"] = .string(Timestamp.format(agent.environment.time.wallSeconds()))
                        buffer.add(EventText.event("status", .object(report)))
                    }
                }
            ]
        }.run()
    }

    /// The tasks that fill a buffer, cancelled when it is finished.
    private final class RunningTasks: Sendable {
        private struct State {
            var tasks: [Task<Void, Never>] = []
            var isCancelled = false
        }

        private let state = Mutex(State())

        func set(_ running: [Task<Void, Never>]) {
            let isCancelled = state.withLock { state in
                state.tasks = running
                return state.isCancelled
            }
            if isCancelled { cancel() }
        }

        func cancel() {
            let tasks = state.withLock { state in
                state.isCancelled = true
                return state.tasks
            }
            for task in tasks { task.cancel() }
        }
    }
}
