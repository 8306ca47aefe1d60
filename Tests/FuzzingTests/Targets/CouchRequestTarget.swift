import Documents
import Encodings
import NIOCore
import NIOPosix

@testable import CouchDBServer
@testable import HTTPServer

extension FuzzTarget {
    /// What clients of CouchDB's API send: queries, JSON bodies, multipart bodies, forms, ranges. The reader that goes by bytes agrees with the one that
    /// makes values, and parts are the same however the body is cut.
    static let couchRequests = FuzzTarget("couch-requests", longestInput: 4_096) { bytes in
        guard let kind = bytes.first else { return }
        let rest = Array(bytes.dropFirst())
        switch kind {
        case UInt8(ascii: "q"): try query(rest)
        case UInt8(ascii: "j"): try body(rest)
        case UInt8(ascii: "m"): try multipart(rest)
        case UInt8(ascii: "r"): try range(rest)
        case UInt8(ascii: "f"): try form(rest)
        default: return
        }
    }

    private static func query(_ bytes: [UInt8]) throws {
        guard let query = try? CouchQuery(String(decoding: bytes, as: UTF8.self)) else { return }
        let written = query.pairs.map { "\(PercentEncoding.encode($0.key))=\(PercentEncoding.encode($0.value))" }.joined(separator: "&")
        let again = try CouchQuery(written)
        try hold(again.pairs.map(\.key) == query.pairs.map(\.key) && again.pairs.map(\.value) == query.pairs.map(\.value), "a query reads differently when written again")
        for (key, value) in query.pairs {
            try hold(query.text(key) != nil, "a key that is there is not found")
            _ = try? query.flag(key)
            if let number = try? query.number(key) { try hold(number >= 0, "a negative number") }
            if let json = try? query.json(key), query.text(key) == value { try hold(try JSONValue(parsing: value) == json, "another value") }
            _ = try? query.revisions(key)
            _ = try? query.revision(key)
            _ = try? DocumentRoutes.form(query)
        }
    }

    private static func body(_ bytes: [UInt8]) throws {
        let value = try? JSONValue(parsing: bytes)
        let parts = try? JSONParts(checking: bytes)
        try hold((value != nil) == (parts != nil), "the checked text and the value disagree on what is JSON")
        guard let value, let parts else { return }
        try agree(parts, parts.root, value, depth: 0)
        try hold(JSONTreeSize.values(in: bytes[...]) >= count(value), "more values than memory is asked for")
        guard let document = try? IncomingDocument(parts, parts.root) else { return }
        guard let object = try? JSONValue(parsing: document.body).asObject else { throw FuzzFinding(description: "the body of a document is no object") }
        let own = (value.asObject?.members ?? []).filter { $0.key.utf8.first != UInt8(ascii: "_") }
        try hold(object == JSONObject(own), "the body of a document has other members than were sent")
        try hold(document.id == value["_id"]?.asString, "another id")
        try hold(document.isDeleted == (value["_deleted"]?.asBool ?? false), "another _deleted")
        if let first = document.history.first, let revision = document.revision { try hold(first == revision, "_rev is not the first of _revisions") }
        for (newer, older) in zip(document.history, document.history.dropFirst()) {
            try hold(newer.generation == older.generation + 1, "a history with a hole")
        }
        if let id = document.id { _ = try? CouchID(id) }
    }

    private static func agree(_ parts: JSONParts, _ range: Range<Int>, _ value: JSONValue, depth: Int) throws {
        try hold(parts.isObject(range) == (value.asObject != nil) && parts.isArray(range) == (value.asArray != nil), "another kind of value")
        try hold(parts.string(range) == value.asString, "another text")
        try hold(parts.flag(range) == value.asBool && parts.isNull(range) == value.isNull, "another scalar")
        if let found = parts.value(range) { try hold(found == value, "another value") } else { throw FuzzFinding(description: "a part that is no JSON") }
        guard depth < 20 else { return }
        let members = parts.members(of: range)
        try hold(members.map(\.key) == (value.asObject?.members ?? []).map(\.key), "other keys")
        for (member, expected) in zip(members, value.asObject?.members ?? []) { try agree(parts, member.value, expected.value, depth: depth + 1) }
        let elements = parts.elements(of: range) ?? []
        try hold(elements.count == (value.asArray ?? []).count, "other elements")
        for (element, expected) in zip(elements, value.asArray ?? []) { try agree(parts, element, expected, depth: depth + 1) }
    }

    private static func count(_ value: JSONValue) -> Int {
        1 + (value.asArray ?? value.asObject?.members.map(\.value) ?? []).reduce(0) { $0 + count($1) }
    }

    // MARK: - Multipart

    /// The boundary, a line's end, and the body.
    private static func multipart(_ bytes: [UInt8]) throws {
        let field = Array(bytes.prefix { $0 != 0x0A })
        let body = Array(bytes.dropFirst(field.count + 1))
        guard let boundary = Multipart.boundary(of: String(decoding: field, as: UTF8.self), "multipart/related") else { return }
        try MultiThreadedEventLoopGroup.singleton.next().makeFutureWithTask {
            let whole = await parts(of: body, cut: max(body.count, 1), boundary)
            let held = whole.parts.reduce(0) { $0 + $1.body.count }
            try hold(held <= body.count, "\(held) bytes of parts from \(body.count)")
            for size in [1, 3, 64] where body.count / size < 1_500 {
                let cut = await parts(of: body, cut: size, boundary)
                try hold(cut == whole, "other parts when cut into \(size) bytes:\n\(cut)\ninstead of\n\(whole)")
            }
        }.wait()
    }

    private struct Part: Equatable, Sendable {
        var header: [String]
        var body: [UInt8]
    }

    private struct Parts: Equatable, Sendable {
        var parts: [Part] = []
        var status = 200
    }

    private static func parts(of body: [UInt8], cut size: Int, _ boundary: [UInt8]) async -> Parts {
        var reader = MultipartReader(request(body, cut: size).body, boundary: boundary)
        var found = Parts()
        do {
            while let header = try await reader.nextPart() {
                found.parts.append(Part(header: header.map { "\($0.name): \($0.value)" }, body: []))
                while let piece = try await reader.piece() { found.parts[found.parts.count - 1].body += piece }
            }
        } catch {
            // What came of the part that was not complete depends on the cuts.
            found.status = (error as? HTTPError)?.status ?? 0
            if !found.parts.isEmpty { found.parts[found.parts.count - 1].body = [] }
        }
        return found
    }

    /// A request whose whole body has come.
    private static func request(_ body: [UInt8], cut size: Int, headers: HeaderList = [:]) -> HTTPRequest {
        let pipe = BodyPipe(demand: { _ in })
        for start in stride(from: 0, to: body.count, by: size) { pipe.push(ByteBuffer(bytes: body[start..<min(start + size, body.count)])) }
        pipe.end(.success(()))
        return HTTPRequest(
            method: "POST", uri: "/_session", headers: headers, body: RequestBody(pipe: pipe, declaredLength: nil, limit: .unlimited),
            connection: ConnectionInfo(remoteAddress: "", origin: "", drain: DrainSignal()))
    }

    // MARK: - Small things

    private static func range(_ bytes: [UInt8]) throws {
        for size: UInt64 in [0, 1, 10, .max] {
            guard case .part(let from, let count) = ByteRange(String(decoding: bytes, as: UTF8.self), size: size) else { continue }
            try hold(count > 0 && from < size && count <= size - from, "bytes \(from) and \(count) more of \(size)")
        }
    }

    private static func form(_ bytes: [UInt8]) throws {
        let media = ["application/json", "application/x-www-form-urlencoded"][Int(bytes.first ?? 0) % 2]
        let body = Array(bytes.dropFirst())
        try MultiThreadedEventLoopGroup.singleton.next().makeFutureWithTask {
            guard let login = try? await CouchLogin.credentials(request(body, cut: 100, headers: ["Content-Type": media])) else { return }
            try hold(login.name.utf8.count + login.password.utf8.count <= 3 * body.count, "a login that is longer than what was sent")
        }.wait()
    }
}
