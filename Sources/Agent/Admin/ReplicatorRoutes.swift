import Documents
import DocumentStore
import HTTPServer
import Replication

/// `/api/replicators`: the replicators, and actions on them.
struct ReplicatorRoutes: Sendable {
    let agent: Agent

    var routes: [Route] {
        [
            .get("api/replicators") { _ in Answer.json(.array(await agent.replicatorReports())) },
            .get("api/replicators/:name") { request in Answer.json(await agent.report(try replicator(request))) },
            .post("api/replicators/:name/start", start),
            .post("api/replicators/:name/stop") { request in
                let replicator = try replicator(request)
                let isKept = try request.flag(.keep)
                if isKept { try agent.remember(replicator, isStopped: true) }
                agent.note(.stopped, of: replicator)
                // Answered at once; stopping may take until the peer answers our CLOSE.
                let start = "nightjar replicator \(replicator.configuration.name) start"
                await replicator.beginStop(why: "an operator requested it, until \(start)\(isKept ? "" : " or the agent's next start")")
                return Answer.json(JSONOutput.object(["ok": .bool(true)]), status: 202)
            },
            .post("api/replicators/:name/suspend") { request in
                let replicator = try replicator(request)
                guard await replicator.suspend() else { throw Self.isStopped(replicator) }
                agent.note(.suspended, of: replicator)
                return Answer.json(JSONOutput.object(["ok": .bool(true)]), status: 202)
            },
            .post("api/replicators/:name/resume") { request in
                let replicator = try replicator(request)
                guard await replicator.resume() else { throw Self.isStopped(replicator) }
                agent.note(nil, of: replicator)
                return Answer.json(JSONOutput.object(["ok": .bool(true)]), status: 202)
            },
            .get("api/replicators/:name/pending") { request in
                let replicator = try replicator(request)
                return Answer.rows { rows in
                    let barrier = Self.barrier(replicator)
                    try await replicator.forEachPending { page in
                        try await rows.write(
                            page.filter { !$0.isUndecided }.map { Self.report($0, replicator.waiting.find($0.collection, $0.id, .push), barrier) })
                    }
                    try await replicator.forEachUndecided { page in try await rows.write(page.map { Self.report($0.collection, $0.conflict) }) }
                    let pulled = replicator.waiting.all.filter { $0.direction == .pull }
                    if !pulled.isEmpty { try await rows.write(pulled.map { Self.report($0, since: nil) }) }
                }
            },
            .get("api/replicators/:name/pending/:id") { request in
                let replicator = try replicator(request)
                let id = try DocumentID(try request.parameters.require("id"))
                let collection = try request.value(.collection).map { try CollectionName(parsing: $0) } ?? .default
                let waiting = replicator.waiting.find(collection, id, .push) ?? replicator.waiting.find(collection, id, .pull)
                let pushed = try await replicator.pendingDocument(id, in: collection)
                var undecided: PendingConflict?
                try await replicator.forEachUndecided(only: (collection, id)) { undecided = $0.first?.conflict }
                let isPending = pushed != nil || waiting?.direction == .pull || undecided != nil
                let reason = undecided.map(Self.reason) ?? Self.rejection(pushed) ?? waiting.map { "\($0.error)" } ?? Self.barrier(replicator)
                return Answer.json(
                    JSONOutput.object([
                        "collection": .string(collection.description), "id": .string(id.text), "pending": .bool(isPending),
                        "reason": JSONOutput.text(isPending ? reason : nil),
                    ]))
            },
            .get("api/replicators/:name/held") { request in
                let replicator = try replicator(request)
                return Answer.rows { rows in
                    try await replicator.forEachHeld { page in try await rows.write(page.map { Self.report($0.0, $0.1) }) }
                    let tooLarge = try await replicator.tooLargeDocuments()
                    if !tooLarge.isEmpty { try await rows.write(tooLarge.map { Self.report($0) }) }
                }
            },
            .get("api/replicators/:name/orphaned") { request in
                let replicator = try replicator(request)
                return Answer.rows { rows in
                    try await replicator.forEachOrphaned { page in try await rows.write(page.map { Self.orphan($0.0, $0.1) }) }
                }
            },
            .get("api/replicators/:name/refused", refused),
            .post("api/replicators/:name/retry-refused", retryRefused),
            // The route's previous name.
            .get("api/replicators/:name/rejected", refused),
            .post("api/replicators/:name/retry-rejected", retryRefused),
        ]
    }

    @Sendable private func start(_ request: HTTPRequest) async throws -> HTTPResponse {
        let replicator = try replicator(request)
        let resets = try request.flag(.reset)
        // Recorded before the answer: the agent may be stopped before the replicator comes to it.
        if resets { replicator.oweReset() }
        try agent.remember(replicator, isStopped: false)
        agent.note(nil, of: replicator)
        // For the answer only: an unreadable database is no reason not to start.
        let backlog = (try? await replicator.backlog()) ?? Replicator.Backlog()
        // A running replicator cannot discard its checkpoint: it stops and starts again, which may take a while.
        if resets { await replicator.beginStop() }
        await replicator.start(reset: resets)
        let isNow = backlog.count > 0 && !resets ? await replicator.retryWaiting() : false
        return Answer.json(
            JSONOutput.object([
                "ok": .bool(true), "documents": JSONOutput.number(backlog.count), "documents_is_capped": .bool(backlog.isCapped),
                "waiting": JSONOutput.number(backlog.waiting), "held": JSONOutput.number(backlog.held), "refused": JSONOutput.number(backlog.refused),
                "now": .bool(isNow),
            ]), status: 202)
    }

    @Sendable private func refused(_ request: HTTPRequest) throws -> HTTPResponse {
        let replicator = try replicator(request)
        return Answer.rows { rows in
            try await replicator.forEachRefused { page in try await rows.write(page.map { Self.report($0) }) }
            try await replicator.forEachNotTaken { page in try await rows.write(page.map { Self.report($0) }) }
        }
    }

    @Sendable private func retryRefused(_ request: HTTPRequest) async throws -> HTTPResponse {
        let replicator = try replicator(request)
        let name = replicator.configuration.name
        guard replicator.configuration.type.pushes else {
            throw AgentError(.conflict, "replicator \"\(name)\" only pulls (type: pull): it offers nothing to the peer")
        }
        guard replicator.status.activity != .stopped else {
            throw AgentError(.conflict, "replicator \"\(name)\" is stopped; its next start offers them again: nightjar replicator \(name) start")
        }
        let count = try await replicator.refusedCount()
        // A peer that accepts nothing at all has refused no single document.
        let isRefused = count > 0 || replicator.status.refusals.push != nil
        let isNow = isRefused ? await replicator.retryRefused() : false
        return Answer.json(
            JSONOutput.object(["ok": .bool(true), "documents": JSONOutput.number(count), "now": .bool(isNow)]), status: 202)
    }

    private static func isStopped(_ replicator: Replicator) -> AgentError {
        AgentError(.conflict, "replicator \"\(replicator.configuration.name)\" is stopped; start it")
    }

    private static func orphan(_ collection: CollectionName, _ row: Exclusion) -> JSONValue {
        JSONOutput.object([
            "collection": .string(collection.description), "id": .string(row.id.text), "rev": JSONOutput.text(row.revision?.text),
            "since": .string(Timestamp.format(row.since)), "plugin": .string(row.plugin), "version": .string(row.version),
            "reason": .string(row.error),
        ])
    }

    /// A document of which nothing is pushed before its conflict is decided.
    private static func report(_ collection: CollectionName, _ conflict: PendingConflict) -> JSONValue {
        JSONOutput.object([
            "collection": .string(collection.description), "id": .string(conflict.id.text), "direction": .string("push"),
            "since": .string(Timestamp.format(conflict.since)), "tries": JSONOutput.number(conflict.tries), "reason": .string(reason(conflict)),
        ])
    }

    private static func reason(_ conflict: PendingConflict) -> String {
        "its conflict waits for a decision\(conflict.error.isEmpty ? "" : ": \(conflict.error)")"
    }

    /// Why a document that counts as pending will not be sent as it is; nil if the push filter does not reject it.
    private static func rejection(_ document: Replicator.PendingDocument?) -> String? {
        document?.rejectedBy.map { "push filter\($0.isEmpty ? "" : " \($0)") would reject it now: it is asked with the next connection, and counts as pending until then" }
    }

    /// Why none of the documents that wait is sent; nil if they are.
    private static func barrier(_ replicator: Replicator) -> String? {
        replicator.status.refusals.push.map { "the peer accepts nothing from us: \($0.cause)" }
    }

    /// A document that waits to be pushed, or could not be pulled, with the reason if it was tried.
    private static func report(_ document: Replicator.PendingDocument, _ waiting: WaitingDocument?, _ barrier: String?) -> JSONValue {
        let reason = rejection(document) ?? (waiting == nil ? barrier : nil)
        if reason == nil, let waiting { return report(waiting, since: document.since) }
        return JSONOutput.object([
            "collection": .string(document.collection.description), "id": .string(document.id.text), "direction": .string("push"),
            "since": JSONOutput.text(document.since.map { Timestamp.format($0) }), "reason": JSONOutput.text(reason),
        ])
    }

    private static func report(_ waiting: WaitingDocument, since: Int64?) -> JSONValue {
        JSONOutput.object([
            "collection": .string(waiting.collection.description), "id": .string(waiting.id.text), "direction": .string(waiting.direction.rawValue),
            "tries": JSONOutput.number(waiting.tries), "since": .string(Timestamp.format(min(since ?? waiting.since, waiting.since))), "reason": .string("\(waiting.error)"),
        ])
    }

    private static func report(_ refusal: Replicator.Refusal) -> JSONValue {
        JSONOutput.object([
            "collection": .string(refusal.collection.description), "id": .string(refusal.id.text),
            "rev": JSONOutput.text(refusal.revision?.text),
            "direction": .string(refusal.direction.rawValue), "domain": .string(refusal.domain), "status": JSONOutput.number(refusal.code),
            "reason": .string(refusal.reason), "tries": JSONOutput.number(refusal.tries),
            "since": .string(Timestamp.format(refusal.since)), "until": JSONOutput.text(refusal.until.map { Timestamp.format($0) }),
        ])
    }

    private static func report(_ collection: CollectionName, _ exclusion: Exclusion) -> JSONValue {
        JSONOutput.object([
            "collection": .string(collection.description), "id": .string(exclusion.id.text), "rev": JSONOutput.text(exclusion.revision?.text),
            "direction": .string(exclusion.direction == .push ? "push" : "pull"),
            "cause": .string("\(exclusion.cause)"),
            // A document held because of a blob or its size was not held by a plugin.
            "plugin": JSONOutput.text(exclusion.cause == .plugin ? exclusion.plugin : nil),
            "version": JSONOutput.text(exclusion.cause == .plugin && !exclusion.version.isEmpty ? exclusion.version : nil),
            "error": .string(exclusion.error), "tries": JSONOutput.number(exclusion.tries),
            "since": .string(Timestamp.format(exclusion.since)),
        ])
    }

    /// A document of the remote that this agent's memory had no room for. It is not counted as held: nothing of it is here.
    private static func report(_ document: Replicator.TooLargeDocument) -> JSONValue {
        JSONOutput.object([
            "collection": .string(document.collection.description), "id": .string(document.id.text), "rev": .null, "direction": .string("pull"),
            "cause": .string("memory"), "plugin": .null, "version": .null,
            "error": .string(
                "too large for this agent's limits.memory (\(document.memory))\(document.needed == nil ? " or for max_document_bytes" : "") when it came: \(Agent.largerMemory(document.needed)) and restart the agent, which then asks for it again"),
            "tries": .null, "since": .null,
        ])
    }

    private func replicator(_ request: HTTPRequest) throws -> Replicator { try agent.replicator(try request.parameters.require("name")) }
}
