import Documents
import HTTPServer
import NIOCore
import PluginHost
import Replication
import Synchronization

/// `/api/events`: what happens, as server-sent events (HTML standard, section 9.2): `status` of replicators, `documents` they
/// moved or could not move, `conflict` where one was decided or became pending, `plugin` reloads and failures, and `lost`, which
/// tells a reader that was too slow how many it missed.
struct EventRoutes: Sendable {
    let agent: Agent

    /// `max_waiting_events`: events kept for a reader that is slow; older ones are dropped, and it is told.
    static let maximumWaiting = 1_000
    /// Seconds between two comments that show that the connection lives.
    static let keepAliveSeconds = 15

    private struct Event: Sendable {
        var name: String
        var data: JSONValue
    }

    var routes: [Route] {
        [
            .get("api/events") { request in
                .stream(headers: ["Content-Type": "text/event-stream", "Cache-Control": "no-store"]) { writer in
                    let (events, continuation, lost) = events()
                    // An agent that stops does not wait for its readers to go.
                    let registration = request.connection.drain.onDrain { continuation.finish() }
                    defer {
                        request.connection.drain.cancel(registration)
                        continuation.finish()
                    }
                    try await writer.write(ByteBuffer(string: ": nightjar events\n\n"))
                    for await event in events {
                        if let count = lost.take() {
                            try await writer.write(ByteBuffer(string: "event: lost\ndata: {\"events\":\(count)}\n\n"))
                        }
                        guard let event else {
                            try await writer.write(ByteBuffer(string: ": \n\n"))
                            continue
                        }
                        var buffer = ByteBuffer(string: "event: \(event.name)\ndata: ")
                        buffer.writeBytes(event.data.serialize())
                        buffer.writeString("\n\n")
                        try await writer.write(buffer)
                    }
                }
            }
        ]
    }

    /// Counts what a reader misses.
    private final class Lost: Sendable {
        private let count = Mutex(0)

        func note(_ result: AsyncStream<Event?>.Continuation.YieldResult) {
            if case .dropped(.some) = result { count.withLock { $0 += 1 } }
        }

        /// Nil where nothing was lost since the last time.
        func take() -> Int? {
            count.withLock { count in
                defer { count = 0 }
                return count > 0 ? count : nil
            }
        }
    }

    /// All events from now on, and nil every `keepAliveSeconds`. The stream ends when the continuation is finished.
    private func events() -> (events: AsyncStream<Event?>, continuation: AsyncStream<Event?>.Continuation, lost: Lost) {
        let lost = Lost()
        let (stream, continuation) = AsyncStream.makeStream(of: Event?.self, bufferingPolicy: .bufferingNewest(Self.maximumWaiting))
        var tasks: [Task<Void, Never>] = []
        for replicator in agent.replicators {
            let name = replicator.configuration.name
            let changes = replicator.statusChanges()
            let documents = replicator.documentEvents()
            tasks.append(
                Task {
                    for await _ in changes {
                        lost.note(continuation.yield(Event(name: "status", data: await agent.report(replicator))))
                    }
                })
            tasks.append(
                Task {
                    for await batch in documents {
                        lost.note(continuation.yield(Event(name: "documents", data: Self.report(name, batch))))
                    }
                })
        }
        let conflicts = agent.conflicts.stream()
        tasks.append(
            Task {
                for await event in conflicts { lost.note(continuation.yield(Event(name: "conflict", data: ConflictReports.json(event)))) }
            })
        if let plugins = agent.plugins?.events() {
            tasks.append(
                Task {
                    for await event in plugins {
                        let generation = agent.plugins?.status().first { $0.name == event.plugin }?.generation
                        lost.note(continuation.yield(Event(name: "plugin", data: Self.report(event, generation))))
                    }
                })
        }
        tasks.append(
            Task {
                while !Task.isCancelled {
                    try? await agent.environment.time.sleep(seconds: Self.keepAliveSeconds)
                    continuation.yield(nil)
                }
            })
        let running = tasks
        continuation.onTermination = { _ in
            for task in running { task.cancel() }
        }
        return (stream, continuation, lost)
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
                        "held": .bool(event.error?.domain == .plugin && event.error?.code == 503),
                        "error": event.error.map { Agent.report($0) } ?? .null,
                    ])
                }),
        ])
    }

    private static func report(_ event: PluginEvent, _ generation: UInt64?) -> JSONValue {
        func object(_ kind: String, _ plugin: String, _ version: String? = nil, _ message: String? = nil) -> JSONValue {
            JSONOutput.object([
                "kind": .string(kind), "plugin": .string(plugin), "version": JSONOutput.text(version),
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
            return object("failing", plugin, version, "\(usedBy) failed \(failures) times in a row: \(message)")
        case .recovered(let plugin, let version, let usedBy): return object("recovered", plugin, version, usedBy)
        case .notKept(let plugin, let version, let message): return object("not_kept", plugin, version, message)
        case .folder(let problem): return object("folder", "", nil, problem.description)
        }
    }
}
