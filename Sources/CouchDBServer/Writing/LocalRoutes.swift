import Documents
import DocumentStore
import HTTPServer
import Interfaces
import Replication

/// `_local/ID`: documents that are never replicated, in which replicators keep their checkpoints. They belong to a user: nobody can
/// read, replace or displace another user's. Clients without permission to write documents may write these.
enum LocalRoutes {
    /// The key under which it is stored.
    static func key(_ call: CouchCall, _ id: String) -> String {
        call.collection.name.isDefault ? "_local/\(id)" : "_local/\(call.collection.name)/\(id)"
    }

    static func get(_ call: CouchCall, _ id: String) async throws -> HTTPResponse {
        guard let stored = try await read(call, key: key(call, id)), !isDeleted(stored) else { throw CouchError.missing() }
        let tag = "\"\(stored.revision)\""
        if call.holds(tag) { return HTTPResponse(status: 304, headers: ["ETag": tag]) }
        return .couch(shown("_local/\(id)", stored), headers: ["ETag": tag, "Cache-Control": "must-revalidate"], call.database.blobs, keeping: call.answer)
    }

    /// The document as a client sees it.
    ///
    /// - Parameter id: including the `_local/` prefix.
    static func shown(_ id: String, _ stored: StoredCheckpoint) -> JSONWriter {
        var text = JSONWriter()
        text.raw("{\"_id\":")
        text.string(id)
        text.text(",\"_rev\":\"\(stored.revision)\"")
        text.raw(stored.body.count > 2 ? "," : "")
        text.append(stored.body.dropFirst())
        return text
    }

    /// Reads it once memory is available.
    ///
    /// - Parameter kept: bytes that the response continues to hold besides.
    static func read(_ call: CouchCall, key: String, beside kept: Int = 0) async throws -> StoredCheckpoint? {
        let owner = call.peer.checkpointOwner
        // The client has received what was read before.
        call.answer.hold(kept)
        let size = try await call.database.read { try $0.peerCheckpointSize(owner, id: key) } ?? 0
        // Counted twice: as read and as written.
        return try await call.answer.reading(2 * size) {
            let stored = try await call.database.read { try $0.peerCheckpoint(owner, id: key) }
            return (stored, kept + 2 * (stored?.body.count ?? 0))
        }
    }

    /// Where a deletion left nothing but the token.
    static func isDeleted(_ stored: StoredCheckpoint) -> Bool { stored.body.isEmpty }

    static func put(_ call: CouchCall, _ id: String) async throws -> HTTPResponse {
        let parts = try await call.jsonParts()
        return try await put(call, id, parts, parts.root)
    }

    static func put(_ call: CouchCall, _ id: String, _ parts: JSONParts, _ range: Range<Int>) async throws -> HTTPResponse {
        let revision = try await store(call, id, parts, range)
        return answer(201, id, revision)
    }

    /// - Returns: its new token.
    /// - Throws: ``HTTPError`` 400 in CouchDB's words.
    static func store(_ call: CouchCall, _ id: String, _ parts: JSONParts, _ range: Range<Int>) async throws -> String {
        // Keys that begin with _ must have the same types as in any other document.
        _ = try IncomingDocument.check(parts, range, isEdit: true, isLocal: true)
        var body = JSONWriter()
        body.raw("{")
        var token: String?
        var isDeletion = false
        for member in parts.members(of: range) {
            switch member.key {
            case "_rev": token = parts.string(member.value)
            case "_deleted": isDeletion = parts.flag(member.value) == true
            case _ where member.key.utf8.first == UInt8(ascii: "_"): continue
            default:
                if body.bytes.count > 1 { body.raw(",") }
                body.string(member.key)
                body.raw(":")
                body.append(parts.bytes[member.value])
            }
        }
        body.raw("}")
        let made = try await set(call, id, token, isDeletion ? [] : body.bytes)
        return isDeletion ? "0-0" : made
    }

    static func delete(_ call: CouchCall, _ id: String) async throws -> HTTPResponse {
        guard let stored = try await read(call, key: key(call, id)), !isDeleted(stored) else { throw CouchError.missing() }
        _ = try await set(call, id, call.query.text("rev") ?? stored.revision, [])
        return answer(200, id, "0-0")
    }

    private static func set(_ call: CouchCall, _ id: String, _ token: String?, _ body: [UInt8]) async throws -> String {
        let (owner, key, bounds) = (call.peer.checkpointOwner, key(call, id), call.peer.checkpointBounds)
        return try await call.database.write { transaction in
            let stored = try transaction.peerCheckpoint(owner, id: key)
            // For the client, a deleted document does not exist.
            let expected = stored.map(isDeleted) == true && (token ?? "").utf8.isEmpty ? stored?.revision : token
            return try transaction.setPeerCheckpoint(owner, id: key, body: body, expectedRevision: expected, within: bounds)
        }
    }

    private static func answer(_ status: Int, _ id: String, _ revision: String) -> HTTPResponse {
        var text = JSONWriter()
        text.raw("{\"ok\":true,\"id\":")
        text.string("_local/\(id)")
        text.text(",\"rev\":\"\(revision)\"}")
        return .couch(status, text)
    }
}
