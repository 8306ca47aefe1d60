import Documents
import HTTPServer

/// `_design_docs`: what `_all_docs` is of documents. There are few of them.
struct DesignDocumentList {
    private typealias Entry = (id: String, stored: DesignDocuments.Stored)

    private let entries: [Entry]

    private init(_ call: CouchCall) async throws { entries = try await DesignDocuments(call: call).all() }

    static func answer(_ call: CouchCall) async throws -> HTTPResponse {
        var query = call.query
        if call.request.method == "POST" { query = CouchQuery(body: try await call.jsonObject(isOptional: true), over: query) }
        let asked = try AllDocuments(call, query)
        var text = JSONWriter()
        try await Self(call).write(asked, to: &text)
        return .couch(200, text)
    }

    /// `_design_docs/queries`: several at once.
    static func queries(_ call: CouchCall) async throws -> HTTPResponse {
        let asked = try await AllDocuments.several(call)
        let list = try await Self(call)
        var text = JSONWriter()
        text.raw("{\"results\":[")
        text.list(asked) { list.write($1, to: &$0) }
        text.raw("]}")
        return .couch(200, text)
    }

    private func write(_ asked: AllDocuments, to text: inout JSONWriter) {
        text.text("{\"total_rows\":\(entries.count),\"offset\":0,\"rows\":[")
        let places = asked.isDescending ? entries.reversed() : entries
        if let keys = asked.keys {
            let wanted = asked.isDescending ? keys.reversed() : keys
            text.list(wanted.dropFirst(asked.skip).prefix(asked.limit)) { text, key in
                if let entry = places.first(where: { JSONValue.string($0.id) == key }) {
                    write(entry, asked, to: &text)
                } else {
                    text.text("{\"key\":\(key.text),\"error\":\"not_found\"}")
                }
            }
        } else if !asked.isEmpty {
            let shown = places.filter { asked.place($0.id, after: nil) == .inside }.dropFirst(asked.skip).prefix(asked.limit)
            text.list(shown) { write($1, asked, to: &$0) }
        }
        text.raw("]}")
    }

    private func write(_ entry: Entry, _ asked: AllDocuments, to text: inout JSONWriter) {
        text.raw("{\"id\":")
        text.string(entry.id)
        text.raw(",\"key\":")
        text.string(entry.id)
        text.text(",\"value\":{\"rev\":\"\(entry.stored.revision.text)\"}")
        if asked.includesDocuments {
            text.raw(",\"doc\":")
            text.append(DesignDocuments.shown(entry.stored, withRevisions: false))
        }
        text.raw("}")
    }
}
