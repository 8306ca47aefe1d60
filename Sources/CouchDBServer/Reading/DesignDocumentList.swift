import Documents
import HTTPServer

/// `_design_docs`: like `_all_docs`, but for design documents, of which there are few.
struct DesignDocumentList: Sendable {
    private let call: CouchCall
    private let entries: [DesignDocuments.Entry]

    init(_ call: CouchCall) async throws {
        self.call = call
        entries = try await DesignDocuments(call: call).all()
    }

    static func answer(_ call: CouchCall) async throws -> HTTPResponse {
        var query = call.query
        if call.request.method == "POST" { query = CouchQuery(body: try await call.jsonObject(isOptional: true), over: query) }
        return try await answer(call, AllDocuments(call, query))
    }

    static func answer(_ call: CouchCall, _ asked: AllDocuments) async throws -> HTTPResponse {
        let list = try await Self(call)
        return .pieces(call.database.blobs, keeping: call.answer) { writer in
            try await list.write(asked, &writer)
            try await writer.write("\n")
        }
    }

    /// `_design_docs/queries`: several requests in one.
    static func queries(_ call: CouchCall) async throws -> HTTPResponse {
        let asked = try await AllDocuments.several(call)
        let list = try await Self(call)
        return .pieces(call.database.blobs, keeping: call.answer) { writer in
            try await writer.write("{\"results\":[")
            for (index, each) in asked.enumerated() {
                if index > 0 { try await writer.write(",") }
                try await list.write(each, &writer)
            }
            try await writer.write("]}\n")
        }
    }

    static func isID(_ key: JSONValue) -> Bool { key.asString?.utf8.starts(with: "_design/".utf8) ?? false }

    func write(_ asked: AllDocuments, _ writer: inout PieceWriter) async throws {
        try await writer.write("{\"total_rows\":\(entries.count),\"offset\":0,\"rows\":[")
        let places = asked.isDescending ? entries.reversed() : entries
        if let keys = asked.keys {
            // Keys that cannot be the id of a design document have no row.
            let wanted = (asked.isDescending ? keys.reversed() : keys).filter(Self.isID)
            for (index, key) in wanted.dropFirst(asked.skip).prefix(asked.limit).enumerated() {
                if index > 0 { try await writer.write(",") }
                if let entry = places.first(where: { JSONValue.string($0.id) == key }) {
                    try await write(entry, asked, &writer)
                } else {
                    try await writer.write("{\"key\":\(key.text),\"error\":\"not_found\"}")
                }
            }
        } else if !asked.isEmpty {
            let shown = places.filter { asked.place($0.id, after: nil) == .inside }.dropFirst(asked.skip).prefix(asked.limit)
            for (index, entry) in shown.enumerated() {
                if index > 0 { try await writer.write(",") }
                try await write(entry, asked, &writer)
            }
        }
        try await writer.write("]}")
    }

    private func write(_ entry: DesignDocuments.Entry, _ asked: AllDocuments, _ writer: inout PieceWriter) async throws {
        var text = JSONWriter()
        text.raw("{\"id\":")
        text.string(entry.id)
        text.raw(",\"key\":")
        text.string(entry.id)
        // One at a time: each may be large, and is held until the client has received it.
        let stored = asked.includesDocuments ? try await DesignDocuments(call: call).get(entry.id) : nil
        text.text(",\"value\":{\"rev\":\"\((stored?.revision ?? entry.revision).text)\"}")
        try await writer.write(text.bytes)
        if asked.includesDocuments {
            try await writer.write(",\"doc\":")
            if let stored, !stored.isDeleted {
                try await writer.write([.bytes(DesignDocuments.shown(stored, withRevisions: false))])
            } else {
                try await writer.write("null")
            }
        }
        try await writer.write("}")
    }
}
