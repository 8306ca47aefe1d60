import AgentConfiguration
import Documents
import DocumentStore
import Interfaces
import Replication

/// A person's decision about a pending conflict: `{"take": "local" | "remote" | "delete"}` or `{"document": {…}}`, with the two revisions that the
/// person looked at in `local_rev` and `remote_rev`.
package struct DecisionByHand: Sendable {
    package enum Choice: Sendable {
        case take(String)
        /// JSON as `doc put` accepts it.
        case document([UInt8])
    }

    private static let words: [String: ConflictDecision] = ["local": .local, "remote": .remote, "delete": .delete]

    package var local: RevisionID
    package var remote: RevisionID
    package var choice: Choice

    package init(local: RevisionID, remote: RevisionID, choice: Choice) { (self.local, self.remote, self.choice) = (local, remote, choice) }

    package init(json: JSONValue) throws(AgentError) {
        func revision(_ key: String) throws(AgentError) -> RevisionID {
            guard let text = json[key]?.asString else { throw AgentError(.invalid, "\(key) is missing: the revision that the decision is based on") }
            do { return try RevisionID(known: text) } catch { throw AgentError(.invalid, "\(key): \(error)") }
        }
        (local, remote) = (try revision("local_rev"), try revision("remote_rev"))
        switch (json["take"]?.asString, json["document"]) {
        case (let word?, nil): choice = .take(word)
        case (nil, let document?): choice = .document(document.serialize())
        default: throw AgentError(.invalid, "say either take (local, remote or delete) or document")
        }
    }

    /// In the form that ``init(json:)`` reads.
    package var json: JSONValue {
        var members: [String: JSONValue] = ["local_rev": .string(local.text), "remote_rev": .string(remote.text)]
        switch choice {
        case .take(let word): members["take"] = .string(word)
        case .document(let bytes): members["document"] = (try? JSONValue(parsing: bytes)) ?? .null
        }
        return .object(JSONObject(members.sorted { $0.key < $1.key }.map { .init(key: $0.key, value: $0.value) }))
    }

    fileprivate func decision(_ id: DocumentID, _ documents: DocumentAccess) throws -> ConflictDecision {
        switch choice {
        case .take(let word):
            guard let decision = Self.words[word] else { throw AgentError(.invalid, "take must be local, remote or delete, not \"\(word)\"") }
            return decision
        case .document(let json):
            let parts = try documents.parts(json)
            if let own = parts.id, !own.utf8.elementsEqual(id.text.utf8) {
                throw AgentError(.invalid, "_id in the document is \"\(own)\", but the conflict is of \"\(id)\"")
            }
            return parts.isDeleted ? .delete : .merged(parts.body)
        }
    }
}

/// Decides pending conflicts without a resolver.
package struct ConflictsByHand: Sendable {
    let accesses: [ConflictAccess]
    let settings: AgentSettings
    let observer: ConflictObserver

    /// - Parameter accesses: where to look for the document.
    package init(_ accesses: [ConflictAccess], settings: AgentSettings, observer: @escaping ConflictObserver = { _ in }) {
        (self.accesses, self.settings, self.observer) = (accesses, settings, observer)
    }

    private struct Place {
        var database: Database
        var collection: Collection
        var pending: PendingConflict
        /// The store's name for the remote.
        var remote: String?
    }

    /// Decides the conflict of a document.
    ///
    /// - Returns: the decision, the revision that is now current, its number in the history, and whether another branch waits.
    /// - Throws: ``AgentError``, `conflict` if the revisions are no longer those that were looked at.
    package func decide(_ text: String, _ wanted: DecisionByHand) async throws -> JSONValue {
        let id: DocumentID
        do { id = try DocumentID(text) } catch { throw AgentError(.invalid, "\(error)") }
        let place = try await place(of: id)
        let (database, collection) = (place.database, place.collection)
        let decision = try wanted.decision(id, try DocumentAccess(database, collection: collection.name))
        let decider = ConflictDecider(database: database, collection: collection, resolver: nil, context: context(place), observer: observer)
        do {
            let (saved, number) = try await decider.decide(id, local: wanted.local, remote: wanted.remote, byHand: decision)
            let isPending = try await database.read { try $0.pendingConflict(collection, id) } != nil
            return JSONOutput.object([
                "ok": .bool(true), "database": .string(database.name), "collection": .string(collection.name.description), "id": .string(id.text),
                "rev": .string(saved.revision.text), "number": number.map { JSONOutput.number($0) } ?? .null, "pending": .bool(isPending),
            ])
        } catch StoreError.conflictMoved(_, let local?, let remote?) {
            throw AgentError(
                .conflict,
                "the conflict of document \(id) is not between \(wanted.local) and \(wanted.remote) any more: here is \(local) now, there \(remote); look at it again, "
                    + "nothing was decided")
        } catch StoreError.conflictMoved {
            throw AgentError(.conflict, "the conflict of document \(id) is over: it was decided meanwhile, and nothing was done")
        } catch StoreError.blobMissing(let digest) {
            throw AgentError(
                .invalid, "the document names the blob \(digest), which is not in database \(database.name); store its bytes first (nightjar blob put \(database.name) FILE)")
        } catch let error as StoreError {
            throw AgentError(error.kind, "\(error)")
        }
    }

    private func place(of id: DocumentID) async throws -> Place {
        var places: [Place] = []
        for access in accesses {
            let database = access.database
            for collection in access.collections {
                let found = try await database.read { transaction in
                    try transaction.pendingConflict(collection, id).map { (pending) throws(StoreError) in
                        (pending, try pending.remoteID.flatMap { (id) throws(StoreError) in try transaction.remoteKey(id) })
                    }
                }
                if let (pending, remote) = found { places.append(Place(database: database, collection: collection, pending: pending, remote: remote)) }
            }
        }
        guard let place = places.first else {
            throw AgentError(.notFound, "no conflict of document \"\(id)\" waits; nightjar conflicts list --pending lists those that do")
        }
        guard places.count == 1 else {
            let names = places.map { "\($0.database.name).\($0.collection.name)" }.joined(separator: ", ")
            throw AgentError(.invalid, "conflicts of document \"\(id)\" wait in several places: say which, with db: \(names)")
        }
        return place
    }

    /// The origin of the conflict, in the form that a resolver gets.
    private func context(_ place: Place) -> PolicyContext {
        let database = place.database.name
        if let remote = place.remote {
            let replicator = settings.replicators(pulling: place.collection.name, of: database, from: remote).first
            return PolicyContext(
                database: database, collection: place.collection.name, direction: .pull, replicator: replicator?.name.value ?? "",
                remote: replicator?.target.value.shown ?? ReplicatorTarget.shown(remote))
        }
        let listener = settings.listeners.first { $0.databases.contains { $0.value.utf8.elementsEqual(database.utf8) } }
        return PolicyContext(
            database: database, collection: place.collection.name, direction: .pull, listener: listener?.name.value ?? "", remote: "")
    }
}
