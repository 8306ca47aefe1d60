import Documents
import DocumentStore
import HTTPServer
import Interfaces

/// Design documents are stored, so that a replication that pushes them is complete and finds them again. Nothing here executes their contents, so
/// they do not count as documents of the collection: other peers and feeds do not get them, and no policy is asked about them. Peers restricted by
/// channels or a push filter cannot read them; peers whose documents a pull filter judges cannot write them.
struct DesignDocuments: Sendable {
    let call: CouchCall

    struct Stored: Sendable {
        var revision: RevisionID
        var isDeleted: Bool
        /// Newest first.
        var history: [RevisionID]
        /// Revisions of losing branches: they were received, but their documents are not kept.
        var passedOver: [RevisionID] = []
        /// Includes `_id` and `_rev`.
        var json: [UInt8]

        /// The winning branch.
        var branch: [RevisionID] { history.isEmpty ? [revision] : history }
    }

    func get(_ id: String) async throws -> Stored? {
        guard call.readsEverything else { return nil }
        let (call, collection) = (call, call.collection)
        let size = try await call.database.read { try $0.localDocumentSize(collection, id: id) } ?? 0
        // Counted three times: as read, as parsed, and as written.
        return try await call.answer.reading(3 * size) {
            let record = try await call.database.read { try $0.localDocument(collection, id: id) }
            let stored = record.flatMap { Self.read($0.body) }
            if let stored, !stored.isDeleted { return (stored, 2 * stored.json.count) }
            let made = try await IndexDesign.get(id, call) ?? stored
            return (made, 2 * (made?.json.count ?? 0))
        }
    }

    /// The error for a client that wants something in a design document executed: there is no such document, it does not contain that, or it is not
    /// executed here.
    func refusal(_ design: String, _ kind: String, _ name: String, absent: (String) -> HTTPError) async throws -> HTTPError {
        guard let stored = try await get("_design/\(design)"), !stored.isDeleted else { return CouchError.missing() }
        let parts = JSONParts(checked: stored.json)
        guard let functions = parts.member(kind, of: parts.root), parts.isObject(functions) else { return absent(kind) }
        guard parts.member(name, of: functions) != nil else { return absent(name) }
        return CouchError.notServedHere("what design documents hold (\(kind))")
    }

    /// `_compact/DESIGN`: for an existing design document, which has no index that could be compacted.
    static func compact(_ call: CouchCall) async throws -> HTTPResponse {
        let id = "_design/\(try call.request.parameters.require("ddoc"))"
        guard let stored = try await Self(call: call).get(id), !stored.isDeleted else { throw CouchError.missing() }
        return .couch(202, ["ok": true])
    }

    /// Their ids and revisions, in order.
    func all() async throws -> [Entry] {
        guard call.readsEverything else { return [] }
        let (call, collection) = (call, call.collection)
        var all: [Entry] = []
        var last: String? = ""
        while let after = last {
            // They may be large, so they are read a few at a time.
            let part = try await call.answer.reading(3 * CouchLimits.pageBytes) {
                let part = try await call.database.read { transaction in
                    let records = try transaction.localDocuments(
                        collection, prefix: "_design/", after: after, limit: CouchLimits.pageRows, maxBytes: CouchLimits.pageBytes)
                    let live = records.compactMap { id, record in
                        Self.read(record.body).flatMap { $0.isDeleted ? nil : Entry(id: id, revision: $0.revision) }
                    }
                    return (live: live, last: records.last?.id)
                }
                return (part, bytes: 0)
            }
            all += part.live
            last = all.count < CouchLimits.documents ? part.last : nil
        }
        let names = Set(all.map { Array($0.id.utf8) })
        all += try await IndexDesign.all(call).filter { !names.contains(Array($0.id.utf8)) }
        return all.sorted { $0.id.utf8.lexicographicallyPrecedes($1.id.utf8) }
    }

    struct Entry: Sendable {
        var id: String
        var revision: RevisionID
    }

    private static func read(_ json: [UInt8]) -> Stored? {
        // All other members may be large, and are not parsed.
        let parts = JSONParts(checked: json)
        var passedOver: [RevisionID] = []
        var head: [UInt8] = Array("{".utf8)
        for place in parts.places(of: parts.root) {
            guard let key = parts.reservedKey(place.key) else { continue }
            if key.utf8.elementsEqual(passedOverKey.utf8) {
                let list = parts.elements(of: place.value, atMost: StoreLimits.historyDepth) ?? []
                passedOver = list.compactMap { parts.string($0).map { RevisionID(stored: $0) } }
            }
            guard key == "_rev" || key == "_revisions" || key == "_deleted" else { continue }
            if head.count > 1 { head.append(UInt8(ascii: ",")) }
            parts.append(place.key, to: &head)
            head.append(UInt8(ascii: ":"))
            parts.append(place.value, to: &head)
        }
        head.append(UInt8(ascii: "}"))
        guard let document = try? IncomingDocument(JSONParts(checked: head), 0..<head.count), let revision = document.revision else { return nil }
        return Stored(
            revision: revision, isDeleted: document.isDeleted, history: document.history, passedOver: passedOver, json: json)
    }

    /// Internal to the stored form; clients do not see it, and a member with that name in their documents is ignored.
    private static let passedOverKey = "_revs_info"

    /// Whether a revision made elsewhere replaces the stored one. As in CouchDB, of two branches the winner is the one that is not deleted, then the
    /// one with the higher generation, then the one with the greater digest.
    private static func replaces(_ before: Stored, _ made: RevisionID, _ history: [RevisionID], isDeleted: Bool) -> Bool {
        if history.contains(before.revision) { return true }
        return before.isDeleted == isDeleted ? before.revision < made : before.isDeleted
    }

    /// Stores a design document; `parent` is the revision named by the client. With `isMade`, it is a revision made elsewhere: of several branches,
    /// only the winner's document is kept, and only the revisions of the others.
    ///
    /// - Returns: its revision.
    /// - Throws: ``HTTPError`` 403, 409.
    func put(_ id: String, _ document: IncomingDocument, parent: RevisionID?, isMade: Bool) async throws -> RevisionID {
        try await call.requireUnrestrictedAccess("design documents are written only by users who are not limited by channels or a filter")
        let (collection, received) = (call.collection, document)
        return try await call.database.write { transaction in
            var document = received
            let record = try transaction.localDocument(collection, id: id)
            let before = record.flatMap { Self.read($0.body) }
            var revision: RevisionID
            var history: [RevisionID]
            var passedOver = before?.passedOver ?? []
            if isMade {
                guard let made = document.revision ?? document.history.first else { throw CouchError.badRequest("a revision is needed with new_edits=false") }
                (revision, history) = (made, document.history.isEmpty ? [made] : document.history)
                if let before {
                    if before.branch.contains(made) || before.passedOver.contains(made) { return made }
                    if Self.replaces(before, made, history, isDeleted: document.isDeleted) {
                        if !history.contains(before.revision) { passedOver = before.branch + passedOver }
                    } else {
                        passedOver = history + passedOver
                        document = try IncomingDocument(JSONParts(checked: before.json), 0..<before.json.count)
                        (revision, history) = (before.revision, before.branch)
                    }
                }
            } else {
                let isFree = before.map { $0.isDeleted && parent == nil || $0.revision == parent } ?? (parent == nil)
                guard isFree else { throw CouchError.conflict() }
                revision = RevisionDigest.revision(
                    parent: before?.revision, deleted: document.isDeleted, canonicalBody: try CanonicalJSON.bytes(of: document.body))
                history = [revision] + (before?.branch ?? []).prefix(StoreLimits.historyDepth - 1)
            }
            let json = Self.json(id, revision, history, passedOver: passedOver.prefix(StoreLimits.historyDepth), document)
            _ = try transaction.putLocalDocument(collection, id: id, body: json, expectedRevision: record?.revision)
            return isMade ? received.revision ?? received.history.first ?? revision : revision
        }
    }

    private static func json(
        _ id: String, _ revision: RevisionID, _ history: [RevisionID], passedOver: some Sequence<RevisionID>, _ document: IncomingDocument
    ) -> [UInt8] {
        var text = JSONWriter()
        text.raw("{\"_id\":")
        text.string(id)
        text.text(",\"_rev\":\"\(revision.text)\"\(document.isDeleted ? ",\"_deleted\":true" : "")")
        text.text(",\"_revisions\":{\"start\":\(revision.generation),\"ids\":")
        text.strings(history.map { String($0.digest) })
        text.raw("}")
        let passedOver = passedOver.map(\.text)
        if !passedOver.isEmpty {
            text.text(",\"\(passedOverKey)\":")
            text.strings(passedOver)
        }
        if let attachments = document.attachments {
            text.raw(",\"_attachments\":")
            text.value(.object(attachments))
        }
        if document.body.count > 2 {
            text.raw(",")
            text.append(document.body.dropFirst())
        } else {
            text.raw("}")
        }
        return text.bytes
    }

    /// In the form that clients see.
    static func shown(_ stored: Stored, withRevisions: Bool) -> [UInt8] {
        let parts = JSONParts(checked: stored.json)
        var text = JSONWriter()
        text.raw("{")
        text.list(parts.members(of: parts.root).lazy.filter { $0.key != passedOverKey && (withRevisions || $0.key != "_revisions") }) { text, member in
            text.string(member.key)
            text.raw(":")
            text.append(stored.json[member.value])
        }
        text.raw("}")
        return text.bytes
    }
}
