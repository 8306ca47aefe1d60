import Documents
import Encodings
import HTTPServer
import NIOCore
import NIOPosix
import Synchronization
import Testing
import Transport

/// A stand-in for CouchDB on a real socket: it has the requests of the replication protocol, and the answers that come when things go wrong.
final class CouchServer: Sendable {
    /// Answers in place of the server; nil lets the request through.
    typealias Trouble = @Sendable (_ request: HTTPRequest, _ body: [UInt8]) -> HTTPResponse?

    struct State {
        var tree = CouchTree()
        var exists = true
        var trouble: Trouble = { _, _ in nil }
        /// Changes the text of documents before it is sent.
        var rewrite: @Sendable (String) -> String = { $0 }
        var requests: [String] = []
        /// For how many milliseconds a request with this number waits before it is looked at.
        var delay: @Sendable (_ number: Int) -> Int = { _ in 0 }
        /// The addresses and ports of the clients.
        var callers: Set<String> = []
        /// The bearer token that is valid at the moment; nil lets everybody in.
        var token: String?
        /// The API key for which `/identity/token` gives tokens, and how often it has given one.
        var apiKey: String?
        var tokensGiven = 0
        var waiting: [CheckedContinuation<Void, Never>] = []
        var hasBulkGet = true
        /// Whether a row lists its leaves by generation, so that tombstones may come before the winner.
        var isPouchDB = false
        /// Name, password and the cookie that is valid at the moment; nil lets everybody in.
        var account: (name: String, password: String)?
        var cookie = ""
        var logins = 0
    }

    let state = Mutex(State())
    private let listener = Mutex<HTTPListener?>(nil)

    /// Runs a test with a server.
    static func with(_ body: (CouchServer, _ target: String) async throws -> Void) async throws {
        let server = CouchServer()
        let listener = try await HTTPListener.bind(
            [.init(try SocketAddress(ipAddress: "127.0.0.1", port: 0))], .init(), group: loops, logger: quietLogger()
        ) { try await server.answer($0) }
        let port = try #require(listener.boundAddresses.first?.port)
        func stop() async {
            server.change { _ in }
            await listener.stopAccepting()
            await listener.drain(within: .milliseconds(10))
        }
        do { try await body(server, "http://127.0.0.1:\(port)/db") } catch {
            await stop()
            throw error
        }
        await stop()
    }

    /// Changes the database, and wakes those who wait for a change.
    @discardableResult
    func change<T>(_ body: (inout CouchTree) throws -> T) rethrows -> T {
        let (result, waiting) = try state.withLock { state in
            let result = try body(&state.tree)
            defer { state.waiting = [] }
            return (result, state.waiting)
        }
        for each in waiting { each.resume() }
        return result
    }

    var tree: CouchTree { state.withLock { $0.tree } }
    /// How often a request was made, such as `POST /_bulk_docs`.
    func count(_ request: String) -> Int { state.withLock { $0.requests.count { $0 == request } } }
    func rewrite(_ rewrite: @escaping @Sendable (String) -> String) { state.withLock { $0.rewrite = rewrite } }
    func trouble(_ trouble: @escaping Trouble) { state.withLock { $0.trouble = trouble } }

    private static func text(_ value: JSONValue) -> String { value.text }

    // MARK: - Requests

    private func answer(_ request: HTTPRequest) async throws -> HTTPResponse {
        let body = [UInt8](try await request.body.collect().readableBytesView)
        let parts = try RequestTarget.components(request.path)
        let name = parts.count < 2 ? "" : parts[1].utf8.first == UInt8(ascii: "_") ? "/" + parts[1] : "/doc"
        let delay = state.withLock { state in
            state.requests.append("\(request.method) \(parts.first == "db" ? name : request.path)")
            return state.delay(state.requests.count)
        }
        if delay > 0 { try await Task.sleep(for: .milliseconds(delay)) }
        let (trouble, refusal) = state.withLock { state in
            state.callers.insert(request.connection.remoteAddress)
            return (state.trouble, parts.first == "_session" || parts.first == "identity" ? nil : Self.refusal(request, state))
        }
        if let refusal { return refusal }
        if let answer = trouble(request, body) { return answer }
        if parts == ["identity", "token"] { return giveToken(String(decoding: body, as: UTF8.self)) }
        if parts == ["_session"] { return logIn(String(decoding: body, as: UTF8.self)) }
        guard parts.first == "db" else { return .error(status: 404, error: "not_found", reason: "no_db_file") }
        if parts.count == 1 {
            let exists = state.withLock { state in
                if request.method == "PUT" { state.exists = true }
                return state.exists
            }
            if request.method == "PUT" { return .json(status: 201, "{\"ok\":true}") }
            return exists ? .json("{\"db_name\":\"db\",\"update_seq\":\"1\"}") : .error(status: 404, error: "not_found", reason: "Database does not exist.")
        }
        let json = try? JSONValue(parsing: body)
        switch parts[1] {
        case "_changes": return try await changes(request, json)
        case "_bulk_get": return bulkGet(json)
        case "_revs_diff": return difference(json)
        case "_bulk_docs": return bulkDocs(json)
        case "_all_docs": return allDocuments(json)
        case "_ensure_full_commit": return .json(status: 201, "{\"ok\":true,\"instance_start_time\":\"0\"}")
        case "_local": return local(request.method, parts.dropFirst(2).joined(separator: "/"), json)
        default: return try document(request, parts, body)
        }
    }

    /// Answers as IBM Cloud's IAM does.
    private func giveToken(_ form: String) -> HTTPResponse {
        state.withLock { state in
            guard let key = state.apiKey, form == "grant_type=urn%3Aibm%3Aparams%3Aoauth%3Agrant-type%3Aapikey&apikey=\(key)" else {
                let reason = "{\"errorCode\":\"BXNIM0415E\",\"errorMessage\":\"Provided API key could not be found. (\(form))\"}"
                return .json(status: 400, reason)
            }
            state.tokensGiven += 1
            state.token = "iam-\(state.tokensGiven)"
            return .json("{\"access_token\":\"iam-\(state.tokensGiven)\",\"token_type\":\"Bearer\",\"expires_in\":3600}")
        }
    }

    private static func refusal(_ request: HTTPRequest, _ state: State) -> HTTPResponse? {
        if let token = state.token {
            if request.headers.first("Authorization") == "Bearer \(token)" { return nil }
            return .error(status: 401, error: "unauthorized", reason: "Token rejected")
        }
        guard state.apiKey == nil else { return .error(status: 401, error: "unauthorized", reason: "No token") }
        guard let account = state.account else { return nil }
        if !state.cookie.isEmpty, request.headers.first("Cookie") == "AuthSession=\(state.cookie)" { return nil }
        let basic = "Basic " + Base64.encode(Array("\(account.name):\(account.password)".utf8))
        if request.headers.first("Authorization") == basic { return nil }
        return .error(status: 401, error: "unauthorized", reason: "You are not authorized to access this db.")
    }

    private func logIn(_ form: String) -> HTTPResponse {
        state.withLock { state in
            guard let account = state.account, form == "name=\(account.name)&password=\(account.password)" else {
                return .error(status: 401, error: "unauthorized", reason: "Name or password is incorrect.")
            }
            state.logins += 1
            state.cookie = "s\(state.logins)"
            return .json("{\"ok\":true}", headers: ["Set-Cookie": "AuthSession=\(state.cookie); Version=1; Path=/; HttpOnly"])
        }
    }

    private func changes(_ request: HTTPRequest, _ json: JSONValue?) async throws -> HTTPResponse {
        let since = Int(try request.queryValue("since")?.prefix { $0 != "-" } ?? "0") ?? 0
        let limit = Int(try request.queryValue("limit") ?? "") ?? .max
        let ids = json?["doc_ids"]?.asArray?.compactMap(\.asString)
        while try request.queryValue("feed") == "longpoll", tree.sequence <= since {
            await withCheckedContinuation { continuation in
                let goesOn = state.withLock { state in
                    if state.tree.sequence > since { return true }
                    state.waiting.append(continuation)
                    return false
                }
                if goesOn { continuation.resume() }
            }
            if tree.sequence <= since { break }
        }
        let (tree, isPouchDB) = (tree, state.withLock { $0.isPouchDB })
        let filter = try request.queryValue("filter")
        let minimum = try request.queryValue("minimum").flatMap { Int($0) }
        /// `_selector` supports only equality, and `readings/above` compares `n` with the query's `minimum`.
        func isWanted(_ id: String, _ document: CouchTree.Document) -> Bool {
            let body = document.leaves.first.flatMap { document.revisions[$0]?.body }
            switch filter {
            case "_selector": return json?["selector"]?.asObject?.members.allSatisfy { body?[$0.key] == $0.value } ?? false
            case "readings/above": return minimum.map { minimum in body?["n"]?.asInt64.map { $0 >= minimum } ?? false } ?? false
            default: return ids?.contains(id) ?? true
            }
        }
        let all = tree.documents.filter { $0.value.sequence > since && isWanted($0.key, $0.value) }.sorted { $0.value.sequence < $1.value.sequence }
        let rows = all.prefix(limit).map { id, document -> JSONValue in
            var row = JSONObject()
            row["seq"] = .string("\(document.sequence)-g1AAA_x-")
            row["id"] = .string(id)
            let leaves = isPouchDB ? document.leaves.sorted { CouchTree.generation($0) > CouchTree.generation($1) } : document.leaves
            row["changes"] = .array(leaves.map { ["rev": .string($0)] })
            if let winner = document.leaves.first, document.revisions[winner]?.isDeleted == true { row["deleted"] = true }
            return .object(row)
        }
        let last = all.count > limit ? rows.last?["seq"] ?? "0" : .string("\(tree.sequence)-g1AAA_x-")
        return .json(Self.text(["results": .array(rows), "last_seq": last, "pending": .int(max(0, all.count - limit))]))
    }

    private func bulkGet(_ json: JSONValue?) -> HTTPResponse {
        let tree = tree
        guard state.withLock({ $0.hasBulkGet }) else { return .error(status: 404, error: "not_found", reason: "missing") }
        let results = (json?["docs"]?.asArray ?? []).map { wanted -> JSONValue in
            let (id, revision) = (wanted["id"]?.asString ?? "", wanted["rev"]?.asString ?? "")
            return ["id": .string(id), "docs": .array(Self.latest(id, revision, tree))]
        }
        return .json(state.withLock { $0.rewrite }(Self.text(["results": .array(results)])))
    }

    private static func latest(_ id: String, _ revision: String, _ tree: CouchTree) -> [JSONValue] {
        let leaves = tree.documents[id]?.leaves(from: revision) ?? []
        let found = leaves.compactMap { tree.json(id, $0) }.map { found -> JSONValue in ["ok": found] }
        guard found.isEmpty else { return found }
        return [["error": ["id": .string(id), "rev": .string(revision), "error": "not_found", "reason": "missing"]]]
    }

    private func difference(_ json: JSONValue?) -> HTTPResponse {
        let tree = tree
        var answer = JSONObject()
        for member in json?.asObject?.members ?? [] {
            let document = tree.documents[member.key]
            let missing = (member.value.asArray ?? []).filter { document?.revisions[$0.asString ?? ""] == nil }
            guard !missing.isEmpty else { continue }
            let generation = missing.compactMap(\.asString).map(CouchTree.generation).max() ?? 0
            let ancestors = document?.leaves.filter { CouchTree.generation($0) < generation } ?? []
            var entry = JSONObject()
            entry["missing"] = .array(missing)
            if !ancestors.isEmpty { entry["possible_ancestors"] = .array(ancestors.map { .string($0) }) }
            answer[member.key] = .object(entry)
        }
        return .json(JSONValue.object(answer).text)
    }

    private func bulkDocs(_ json: JSONValue?) -> HTTPResponse {
        guard json?["new_edits"]?.asBool == false else { return .error(status: 400, error: "bad_request", reason: "the tests only replicate") }
        let errors = change { tree in
            (json?["docs"]?.asArray ?? []).compactMap { document -> JSONValue? in
                guard let object = document.asObject, let (error, reason) = tree.replicate(object) else { return .none }
                return ["id": object["_id"] ?? "", "error": .string(error), "reason": .string(reason)]
            }
        }
        return .json(status: 201, JSONValue.array(errors).text)
    }

    private func allDocuments(_ json: JSONValue?) -> HTTPResponse {
        let tree = tree
        let rows = (json?["keys"]?.asArray ?? []).map { key -> JSONValue in
            guard let document = tree.documents[key.asString ?? ""], let winner = document.leaves.first else { return ["key": key, "error": "not_found"] }
            var value: JSONObject = JSONObject([.init(key: "rev", value: .string(winner))])
            if document.revisions[winner]?.isDeleted == true { value["deleted"] = true }
            return ["id": key, "key": key, "value": .object(value)]
        }
        return .json(Self.text(["total_rows": 0, "offset": 0, "rows": .array(rows)]))
    }

    private func local(_ method: String, _ id: String, _ json: JSONValue?) -> HTTPResponse {
        state.withLock { state in
            let old = state.tree.local[id]
            guard method == "PUT" else {
                return old.map { .json(JSONValue.object($0).text) } ?? .error(status: 404, error: "not_found", reason: "missing")
            }
            // As in CouchDB since 2.0, which does not compare the revision with the one that it has.
            guard var object = json?.asObject else { return .error(status: 400, error: "bad_request", reason: "Document must be a JSON object") }
            let revision = "0-\((Int(object["_rev"]?.asString?.dropFirst(2) ?? "0") ?? 0) + 1)"
            object["_rev"] = .string(revision)
            state.tree.local[id] = object
            return .json(status: 201, Self.text(["ok": true, "id": .string("_local/\(id)"), "rev": .string(revision)]))
        }
    }

    private func document(_ request: HTTPRequest, _ parts: [String], _ body: [UInt8]) throws -> HTTPResponse {
        let (id, tree) = (parts[1], tree)
        if request.method == "PUT" {
            guard let type = request.headers.first("Content-Type"), let boundary = type.components(behind: "boundary=\""),
                let (json, attachments) = Multipart.read(body, boundary: String(boundary.dropLast())), let object = try JSONValue(parsing: json).asObject
            else { return .error(status: 400, error: "bad_request", reason: "no multipart/related") }
            if let (error, reason) = change({ $0.replicate(object, parts: attachments) }) { return .error(status: 412, error: error, reason: reason) }
            return .json(status: 201, "{\"ok\":true}")
        }
        if parts.count > 2 {
            let revision = try request.queryValue("rev") ?? ""
            guard let found = tree.documents[id]?.revisions[revision]?.attachments[parts.dropFirst(2).joined(separator: "/")] else {
                return .error(status: 404, error: "not_found", reason: "Document is missing attachment")
            }
            return HTTPResponse(status: 200, headers: ["Content-Type": found.type], body: .buffer(ByteBuffer(bytes: found.bytes)))
        }
        let open = try JSONValue(parsing: try request.queryValue("open_revs") ?? "[]").asArray ?? []
        return .json(state.withLock { $0.rewrite }(JSONValue.array(open.flatMap { Self.latest(id, $0.asString ?? "", tree) }).text))
    }
}

/// Takes a multipart body apart by the lengths that its parts state.
enum Multipart {
    static func read(_ body: [UInt8], boundary: String) -> (json: [UInt8], parts: [[UInt8]])? {
        let mark = Array("--\(boundary)".utf8)
        var pieces: [[UInt8]] = []
        var from = 0
        while let start = find(mark, in: body, from: from), let head = find(Array("\r\n\r\n".utf8), in: body, from: start) {
            guard let end = find(Array("\r\n".utf8) + mark, in: body, from: head) else { break }
            pieces.append(Array(body[(head + 4)..<end]))
            from = end + 2
        }
        guard let json = pieces.first else { return nil }
        return (json, Array(pieces.dropFirst()))
    }

    private static func find(_ needle: [UInt8], in bytes: [UInt8], from: Int) -> Int? {
        guard bytes.count >= needle.count + from else { return nil }
        return (from...(bytes.count - needle.count)).first { bytes[$0] == needle[0] && bytes[$0..<($0 + needle.count)].elementsEqual(needle) }
    }
}

extension String {
    func components(behind mark: String) -> String? {
        guard let range = ranges(of: mark).first else { return nil }
        return String(self[range.upperBound...])
    }
}
