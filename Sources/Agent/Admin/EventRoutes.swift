import Documents
import Encodings
import HTTPServer
import NIOCore
import PluginHost
import Replication
import Synchronization

/// `/api/events`: what happens, as server-sent events (HTML standard, section 9.2): `status` of replicators, `documents` they
/// moved or could not move, `remote_went_back` where one finds its remote behind where it was, `conflict` where one was decided or became pending, `plugin` reloads and failures,
/// `attention` where something comes onto the list of what needs it or is over, and `lost`, which tells a reader that was too slow how many it missed.
///
/// With `status=SECONDS` also `agent`: all of `/api/status`, so often; with `log=true` also `log`: lines of the log. With
/// `replicator=NAME` nothing of other replicators. Replicators that a reload adds are followed from then on.
struct EventRoutes: Sendable {
    let agent: Agent

    /// Seconds between two comments that show that the connection lives.
    static let keepAliveSeconds = 15
    /// `max_event_streams`: readers at once; HTTP 503 to a further one. Leaves sockets for those who do something.
    static let maximumStreams = 64

    private let places = Places()

    init(agent: Agent) { self.agent = agent }

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

    /// One reader's, until it is let go.
    private final class Place: Sendable {
        private let places: Places
        init(_ places: Places) { self.places = places }
        deinit { places.taken.wrappingSubtract(1, ordering: .relaxed) }
    }

    var routes: [Route] {
        [
            .get("api/events") { request in
                let seconds = try Self.seconds(request)
                let hasLog = try request.queryValue("log") == "true"
                let only = try request.queryValue("replicator")
                let place = try places.take()
                return .stream(headers: ["Content-Type": "text/event-stream", "Cache-Control": "no-store"]) { writer in
                    defer { withExtendedLifetime(place) {} }
                    let events = events(status: seconds, hasLog: hasLog, only: only)
                    // An agent that stops does not wait for its readers to go.
                    let registration = request.connection.drain.onDrain { events.finish() }
                    defer {
                        request.connection.drain.cancel(registration)
                        events.finish()
                    }
                    try await writer.write(ByteBuffer(string: ": nightjar events\n\n"))
                    for await _ in events.signal {
                        while let (lost, event) = events.take() {
                            if lost > 0 { try await writer.write(ByteBuffer(string: "event: lost\ndata: {\"events\":\(lost)}\n\n")) }
                            if let event { try await writer.write(ByteBuffer(bytes: event)) }
                        }
                    }
                }
            }
        ]
    }

    private static func text(_ name: String, _ data: JSONValue) -> [UInt8] {
        Array("event: \(name)\ndata: ".utf8) + data.serialize() + Array("\n\n".utf8)
    }

    /// `status=SECONDS`, 1 to 60.
    private static func seconds(_ request: HTTPRequest) throws -> Int? {
        guard let text = try request.queryValue("status") else { return nil }
        guard let seconds = Int(text), (1...60).contains(seconds) else { throw AgentError(.invalid, "status is 1 to 60 seconds, not \"\(text)\"") }
        return seconds
    }

    /// All events from now on, and a comment every `keepAliveSeconds`, until the buffer is finished.
    private func events(status seconds: Int?, hasLog: Bool, only: String?) -> EventBuffer {
        let running = RunningTasks()
        let buffer = EventBuffer { running.cancel() }
        var tasks: [Task<Void, Never>] = []
        tasks.append(Task { await follow(only, into: buffer) })
        let conflicts = agent.conflicts.stream()
        tasks.append(
            Task {
                for await event in conflicts { buffer.add(Self.text("conflict", ConflictReports.json(event))) }
            })
        if let plugins = agent.plugins?.events() {
            tasks.append(
                Task {
                    for await event in plugins {
                        let generation = agent.plugins?.status().first { $0.name == event.plugin }?.generation
                        buffer.add(Self.text("plugin", Self.report(event, generation, at: agent.environment.time.wallSeconds())))
                    }
                })
        }
        let attention = agent.attentionTimes.stream()
        tasks.append(
            Task {
                for await change in attention where !Self.isOfAnother(change.entry.subject, than: only) {
                    buffer.add(Self.text("attention", Self.report(change)))
                }
            })
        if let seconds {
            tasks.append(
                Task {
                    while !Task.isCancelled {
                        buffer.add(Self.text("agent", await agent.statusReport()))
                        try? await agent.environment.time.sleep(seconds: seconds)
                    }
                })
        }
        if hasLog {
            let lines = agent.logs.tail.stream()
            tasks.append(
                Task {
                    for await line in lines { buffer.add(Array("event: log\ndata: ".utf8) + line + Array("\n\n".utf8)) }
                })
        }
        tasks.append(
            Task {
                while !Task.isCancelled {
                    try? await agent.environment.time.sleep(seconds: Self.keepAliveSeconds)
                    // Else only who asks would learn what has come, up to a minute later.
                    _ = await agent.attention()
                    buffer.add(Array(": \n\n".utf8))
                }
            })
        running.set(tasks)
        return buffer
    }

    /// Each replicator for as long as there is one of it, until the task is cancelled.
    private func follow(_ only: String?, into buffer: EventBuffer) async {
        var followed: [ObjectIdentifier: [Task<Void, Never>]] = [:]
        for await replicators in agent.roster.stream() {
            let wanted = replicators.filter { only?.utf8.elementsEqual($0.configuration.name.utf8) ?? true }
            let ids = Set(wanted.map { ObjectIdentifier($0) })
            for (id, tasks) in followed where !ids.contains(id) {
                for task in tasks { task.cancel() }
                followed[id] = nil
            }
            for replicator in wanted where followed[ObjectIdentifier(replicator)] == nil {
                let name = replicator.configuration.name
                let noted = replicator.status.wentBack?.time
                let changes = replicator.statusChanges()
                let documents = replicator.documentEvents()
                followed[ObjectIdentifier(replicator)] = [
                    Task {
                        var noted = noted
                        for await status in changes {
                            buffer.add(Self.text("status", await agent.report(replicator)))
                            guard let wentBack = status.wentBack, wentBack.time != noted else { continue }
                            noted = wentBack.time
                            buffer.add(Self.text("remote_went_back", Self.report(name, wentBack)))
                        }
                    },
                    Task {
                        for await batch in documents { buffer.add(Self.text("documents", Self.report(name, batch))) }
                    },
                ]
            }
        }
        for task in followed.values.joined() { task.cancel() }
    }

    /// What fills a buffer, until that ends.
    private final class RunningTasks: Sendable {
        private let tasks = Mutex([Task<Void, Never>]())

        func set(_ running: [Task<Void, Never>]) { tasks.withLock { $0 = running } }
        func cancel() { for task in tasks.withLock({ $0 }) { task.cancel() } }
    }

    private static func report(_ replicator: String, _ wentBack: RemoteWentBack) -> JSONValue {
        JSONOutput.object([
            "replicator": .string(replicator), "at": .string(Timestamp.format(wentBack.time)), "message": .string(wentBack.message),
        ])
    }

    private static func report(_ replicator: String, _ events: [DocumentEvent]) -> JSONValue {
        JSONOutput.object([
            "replicator": .string(replicator),
            "documents": .array(
                events.map { event in
                    var flags: [JSONValue] = []
                    if event.isDeleted { flags.append(.string("deleted")) }
                    if event.isAccessRemoved { flags.append(.string("access_removed")) }
                    return JSONOutput.object([
                        "id": .string(event.id.text), "collection": .string(event.collection.description),
                        "direction": .string(event.direction.rawValue), "flags": .array(flags),
                        "time": JSONOutput.text(event.time.map { Timestamp.format($0) }), "correlation_id": JSONOutput.text(event.correlationID),
                        "held": .bool(event.error?.domain == .plugin && event.error?.code == 503),
                        "error": event.error.map { Agent.report($0) } ?? .null,
                    ])
                }),
        ])
    }

    /// Whether it is about a replicator that a reader has not asked for.
    private static func isOfAnother(_ subject: String, than only: String?) -> Bool {
        guard let only, subject.hasPrefix("replicator ") else { return false }
        return subject != "replicator \(only)" && !subject.hasPrefix("replicator \(only),")
    }

    private static func report(_ change: AttentionChange) -> JSONValue {
        let entry = change.entry
        return JSONOutput.object([
            "state": .string(change.isOver ? "over" : "began"), "time": .string(Timestamp.format(change.time)),
            "kind": .string(entry.kind.rawValue), "gravity": .string(entry.kind.gravity.rawValue), "subject": .string(entry.subject),
            "since": JSONOutput.text(entry.since.map { Timestamp.format($0) }), "text": .string(entry.text), "remedy": .string(entry.remedy),
        ])
    }

    private static func report(_ event: PluginEvent, _ generation: UInt64?, at time: Int64) -> JSONValue {
        func object(_ kind: String, _ plugin: String, _ version: String? = nil, _ message: String? = nil) -> JSONValue {
            JSONOutput.object([
                "kind": .string(kind), "plugin": .string(plugin), "version": JSONOutput.text(version), "time": .string(Timestamp.format(time)),
                "generation": generation.map { JSONOutput.number($0) } ?? .null, "message": JSONOutput.text(message),
            ])
        }
        switch event {
        case .loaded(let plugin, let version): return object("loaded", plugin, version)
        case .reloaded(let plugin, _, let to): return object("reloaded", plugin, to)
        case .refused(let plugin, let version, _, let problem): return object("refused", plugin, version, problem.description)
        case .missing(let plugin, let serving): return object("missing", plugin, serving)
        case .returned(let plugin, let version): return object("returned", plugin, version)
        case .restored(let plugin, let version): return object("restored", plugin, version)
        case .removed(let plugin): return object("removed", plugin)
        case .parameterFileChanged(let plugin, let usedBy, let parameter):
            return object("parameter_file_changed", plugin, nil, "\(usedBy): \(parameter)")
        case .parameterFileRefused(let plugin, let usedBy, let parameter, let message):
            return object("parameter_file_refused", plugin, nil, "\(usedBy): \(parameter): \(message)")
        case .failed(let plugin, let version, let kind, let message): return object("failed", plugin, version, "\(kind): \(message)")
        case .rolledBack(let plugin, let from, let to): return object("rolled_back", plugin, to, "from \(from)")
        case .failing(let plugin, let version, let usedBy, let failures, let message):
            return object("failing", plugin, version, "\(usedBy) failed \(Plural.count(failures, "time")) in a row: \(message)")
        case .recovered(let plugin, let version, let usedBy): return object("recovered", plugin, version, usedBy)
        case .notKept(let plugin, let version, let message): return object("not_kept", plugin, version, message)
        case .folder(let problem): return object("folder", "", nil, problem.description)
        }
    }
}
