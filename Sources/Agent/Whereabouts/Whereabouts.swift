import Documents
import DocumentStore
import Encodings
import HTTPServer
import Interfaces
import Replication

/// "Why did this document not arrive?": its state here, with each replicator, and with each connected peer.
extension Agent {
    /// The answer as JSON.
    ///
    /// - Throws: ``AgentError`` if there is no such database or collection.
    nonisolated func whereabouts(of text: String, in name: CollectionName, database: String) async throws -> JSONValue {
        guard let found = self.database(database) else { throw AgentError(.notFound, "there is no database \"\(database)\"") }
        let access = try DocumentAccess(found, collection: name)
        let id = try await self.id(text, access)
        let row = try await found.read { [collection = access.collection] in try $0.changes(collection, since: 0, limit: 1, includeBodies: false, ids: [id]).first }
        var document = try await Self.here(id, row, found, access.collection)
        if let row {
            document = try await deletedByResolver(document, row, access.collection, found)
            document = try await expiring(document, row, access.collection, found)
        } else if let gone = try await removalCause(id, access.collection, found) {
            document = gone
        }
        var isKnown = false
        var replicators: [JSONValue] = []
        let hasExpired = document.state == "expired"
        for replicator in self.replicators {
            let (answer, knowsIt) = try await whereabouts(of: id, in: name, found, with: replicator, isHere: row != nil, hasExpired: hasExpired)
            replicators.append(answer)
            isKnown = isKnown || knowsIt
        }
        var listeners: [JSONValue] = []
        let unrouted = row != nil ? try await self.unrouted(id, access.collection, found) : nil
        for listener in self.listeners {
            let answer = try await whereabouts(of: id, in: name, database, with: listener, unrouted)
            listeners.append(answer)
            isKnown = isKnown || ListenerWhereabouts.names(answer)
        }
        if document.state == "unknown", isKnown {
            document = WhereaboutsStatement("not_here", "it is not in this database, but was announced: see below for what holds it back")
        }
        return JSONOutput.object([
            "database": .string(database), "collection": .string(name.description), "id": .string(id.text), "document": document.json,
            "replicators": .array(replicators), "listeners": .array(listeners),
        ])
    }

    /// The id, or the name under which a document of a remote is listed whose id is not valid here.
    private nonisolated func id(_ text: String, _ access: DocumentAccess) async throws -> DocumentID {
        let name = NotTakenDocuments.name(of: text)
        do { return try access.documentID(text) } catch {
            for replicator in replicators where replicator.configuration.database === access.database {
                if try await replicator.standing(of: name, in: access.collection.name).pull.namesDocument { return name }
            }
            throw error
        }
    }

    // MARK: - Here

    private static func here(_ id: DocumentID, _ row: ChangeRow?, _ database: Database, _ collection: Collection) async throws -> WhereaboutsStatement {
        if let damage = database.damagedDocuments.first(where: { $0.id == id && $0.collection == collection.name }) {
            return WhereaboutsStatement(
                "damaged", "its stored data cannot be read: \(damage.detail)", remedy: "save it again on top of its current revision, delete it, or purge it")
        }
        guard let row else {
            return WhereaboutsStatement(
                "unknown", "there is no such document here: it never arrived, or was refused when a peer pushed it, or it was purged, which leaves no trace, even if a remote took away access to it. The last "
                    + "\(Plural.count(StoreLimits.expiredDocuments, "document")) that expired are known (expired_documents)",
                remedy: "ids are compared letter for letter: nightjar doc list shows them; nightjar audit shows purges by hand, and how many documents were purged "
                    + "for lost access (access_removed of a replicator counts them); the log names some")
        }
        var what = row.isDeleted ? WhereaboutsStatement("deleted", "it is deleted") : WhereaboutsStatement("here", "it is here")
        if row.hasBlobs, !row.isDeleted {
            let body = try await database.read { try $0.document(collection, id)?.body ?? [] }
            let lost = try await database.lostBlobs(of: body)
            if !lost.isEmpty {
                what = WhereaboutsStatement(
                    "damaged", "it is here, but no peer gets it: \(lost.text)", remedy: BlobMend.text(database: database.name)
                ).with(["blobs": .array(lost.all.map { .string("\($0)") })])
            }
        }
        return what.with(["rev": .string(row.revision.text), "sequence": JSONOutput.number(row.sequence), "conflict": row.hasConflict ? .bool(true) : nil])
    }

    /// The last purge by hand, if it is recent enough to be recorded.
    nonisolated func lastPurge(of id: DocumentID, in name: CollectionName, database: String) -> WhereaboutsStatement? {
        let lines = (try? AuditLog.last(.max, dataFolder: settings.data.value)) ?? []
        let names = [name.isDefault ? database : "\(database).\(name)", "\(database).\(name)"]
        let actions = Set(names.flatMap { place in
            [id.text, PercentEncoding.encode(id.text)].map { "POST /api/databases/\(place)/purge/\($0)" }
        })
        for line in lines.reversed() {
            guard let entry = try? JSONValue(parsing: line), entry["outcome"]?.asString == "200", actions.contains(entry["action"]?.asString ?? "") else { continue }
            let time = entry["time"]?.asString ?? "", who = entry["who"]?.asString ?? ""
            return WhereaboutsStatement(
                "purged", "it was purged at \(time) by \(who): it is gone here, and peers were not told",
                remedy: resetAdvice(database).map { "a replicator brings it back when it changes there; at once with \($0)" }
                    ?? "no replicator pulls into this database: save it again, or restore it from a backup"
            ).with(["since": .string(time), "by": .string(who)])
        }
        return nil
    }

    /// The commands by which the replicators that pull into a database ask for everything again; nil if there are none.
    nonisolated func resetAdvice(_ database: String) -> String? {
        let names = replicators.filter { $0.configuration.database.name == database && $0.configuration.type.pulls }.map(\.configuration.name)
        return names.isEmpty ? nil : names.map { "nightjar replicator \($0) start --reset" }.joined(separator: " or ")
    }

    // MARK: - Replicators and listeners

    private nonisolated func whereabouts(
        of id: DocumentID, in name: CollectionName, _ database: Database, with replicator: Replicator, isHere: Bool, hasExpired: Bool
    ) async throws -> (answer: JSONValue, knowsIt: Bool) {
        let configuration = replicator.configuration
        let words = ReplicatorWhereabouts(
            replicator: replicator, collection: name, staysStopped: records.read(configuration.name).isStopped,
            resumesAt: resumption(of: replicator, now: environment.time.wallSeconds()), hasExpired: hasExpired)
        var members: [JSONObject.Member] = [
            .init(key: "name", value: .string(configuration.name)), .init(key: "target", value: .string(configuration.shownTarget)),
            .init(key: "type", value: .string(configuration.type.rawValue)), .init(key: "activity", value: .string(replicator.status.activity.rawValue)),
        ]
        guard configuration.database === database else {
            let other = WhereaboutsStatement("other_database", "it replicates database \(configuration.database.name)")
            return (.object(JSONObject(members + [.init(key: "connection", value: .null)] + other.members)), false)
        }
        let standing = try await replicator.standing(of: id, in: name)
        var connection = words.connection
        if connection == nil { connection = await words.unanswered(now: environment.time.wallSeconds()) }
        members.append(.init(key: "connection", value: connection?.json ?? .null))
        members.append(.init(key: "push", value: words.statement(standing.push).json))
        members.append(.init(key: "pull", value: words.statement(standing.pull, isHere: isHere).json))
        return (.object(JSONObject(members)), standing.pull.namesDocument)
    }

    private nonisolated func isRouted(_ database: String) -> Bool { listeners.contains { $0.settings.sync != nil && $0.serves(database) } }

    /// That the sync function of its database has not put an existing document into channels; nil if it has, or there is none.
    private nonisolated func unrouted(_ id: DocumentID, _ collection: Collection, _ database: Database) async throws -> PeerDocumentState? {
        guard isRouted(database.name) else { return nil }
        return try await database.read { transaction -> PeerDocumentState? in
            let failed = try transaction.unassigned(collection, id)
            guard failed == nil, try transaction.assignedChannels(collection, id) != nil else { return .unrouted(failed) }
            return nil
        }
    }

    private nonisolated func whereabouts(
        of id: DocumentID, in name: CollectionName, _ database: String, with listener: PeerListener, _ unrouted: PeerDocumentState?
    ) async throws -> JSONValue {
        let words = ListenerWhereabouts(listener: listener, collection: name, database: database, isRouted: isRouted(database))
        let isServed = listener.serves(database)
        var condition = words.condition
        // Another listener serves it, so nothing needs to be done about this one.
        if !isServed, listeners.contains(where: { $0.serves(database) }) { condition?.remedy = nil }
        let peers = try await listener.standings(of: id, in: name, database: database)
        func isOfDocument(_ key: RefusedByPeers.Key) -> Bool { key.database == database && key.collection == name && key.id == id }
        let said = listener.refusedByPeers
        let refusals = said.refusals.filter { isOfDocument($0.key) }
        let kept = said.kept.filter { isOfDocument($0.key) }
        let pushed = listener.waiting.find(name, id, .pull)
        let now = environment.time.wallSeconds()
        let requests = listener.refusals.tooLargeRequests(now: now).first { $0.key.database == database && $0.key.collection == name }
        let tooLarge = listener.refusals.tooLarge(now: now).first { $0.key.database == database && $0.key.collection == name && $0.key.id == id }
        return JSONOutput.object([
            "name": .string(listener.settings.name.value), "activity": .string(listener.binding.condition.word),
            "condition": condition?.json ?? .null,
            // For every peer that connects.
            "unrouted": isServed ? unrouted.map { words.statement($0).json } ?? .null : .null,
            "peers": .array(
                peers.map { peer, standing in
                    let statement = words.answer(of: peer, id, standing) ?? words.statement(standing)
                    return .object(
                        JSONObject(
                            [
                                .init(key: "address", value: .string(peer.address)), .init(key: "user", value: JSONOutput.text(peer.user)),
                                .init(key: "correlation_id", value: JSONOutput.text(peer.correlationID)),
                            ] + statement.members))
                }),
            // For anonymous peers of the request-based protocol.
            "left_out": listener.reviews.kept.failure(of: id, in: name, database: database).map { words.statement(.held($0)).json } ?? .null,
            // Includes peers that have disconnected.
            "refused_by_peers": .array(
                refusals.sorted { $0.key < $1.key }.map { key, refusal in
                    .object(JSONObject([.init(key: "peer", value: .string(key.peer))] + ListenerWhereabouts.statement(refusal).members))
                }),
            "kept_by_peers": .array(
                kept.sorted { $0.key < $1.key }.map { key, kept in
                    .object(JSONObject([.init(key: "peer", value: .string(key.peer))] + ListenerWhereabouts.statement(kept).members))
                }),
            // What a peer pushed of it that could not be stored.
            "not_taken": (pushed.map(ListenerWhereabouts.statement) ?? tooLarge.map { ListenerWhereabouts.statement($0.refusal) })?.json ?? .null,
            // What peers pushed whose documents are not known; it may have been among them.
            "requests_refused": requests.map { ListenerWhereabouts.statement($0.refusals).json } ?? .null,
        ])
    }
}
