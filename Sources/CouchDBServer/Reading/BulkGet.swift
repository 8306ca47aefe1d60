import Documents
import DocumentStore
import HTTPServer
import Interfaces

/// `_bulk_get`: many revisions of many documents in one answer.
enum BulkGet {
    private enum Asked: Sendable {
        case document(DocumentReading.Question, since: [RevisionID])
        case design(String, RevisionID?)
        case wrong(id: String, rev: String, HTTPError)
    }

    static func answer(_ call: CouchCall) async throws -> HTTPResponse {
        let body = try await call.jsonObject()
        guard let list = body["docs"]?.asArray else { throw CouchError.badRequest("Missing JSON list of 'docs'.") }
        func flag(_ key: String, default other: Bool = false) throws -> Bool { try call.query.flag(key, default: body[key]?.asBool ?? other) }
        let latest = try flag("latest")
        var form = DocumentForm()
        form.withRevisions = try flag("revs")
        let asked = list.map { Self.asked($0, latest: latest) }
        let media = media(call.request)
        let parts = media.map { _ in MixedParts(call) }
        // A multipart response includes attachments unless the client already has them, or does not want any.
        let carries = try flag("attachments", default: parts != nil)
        let carried: DocumentForm.Attachments = parts == nil ? .inline : .follow
        let reading = DocumentReading(call: call)
        try await reading.prepare()
        let base = form
        let type = media.flatMap { parts?.type($0) } ?? "application/json"
        return .pieces(type: type, call.database.blobs, packing: parts == nil ? call.packing : nil, keeping: call.answer) { writer in
            var output = Output(parts)
            try await output.begin(&writer)
            var rest = asked[...]
            while !rest.isEmpty {
                // No more than a page has: without memory for one, a page has one document, and there may be 100,000 questions.
                let questions = rest.prefix(CouchLimits.pageRows).prefix { if case .document = $0 { true } else { false } }
                guard !questions.isEmpty else {
                    try await write(rest.removeFirst(), call, &output, &writer)
                    continue
                }
                let page = try await reading.page(
                    questions.compactMap { if case .document(let question, _) = $0 { question } else { nil } }[...], withTrees: true)
                for (document, question) in zip(page, questions) {
                    var form = base
                    if case .document(_, let since) = question { form.since = since }
                    form.attachments = carries || !form.since.isEmpty ? carried : .stubs
                    try await write(document, question, form, &output, &writer)
                }
                rest = rest.dropFirst(page.count)
            }
            try await output.end(&writer)
        }
    }

    /// The multipart type of the response, for a client that accepts one and not JSON; nil for all others.
    private static func media(_ request: HTTPRequest) -> String? {
        func takes(_ types: String...) -> Bool { types.contains { Multipart.isAccepted(request, $0) } }
        if takes("application/json", "application/*", "*/*") { return nil }
        return takes("multipart/mixed", "multipart/*") ? "multipart/mixed" : takes("multipart/related") ? "multipart/related" : nil
    }

    private static func asked(_ item: JSONValue, latest: Bool) -> Asked {
        let text = item["id"]?.asString ?? ""
        let rev = item["rev"]?.asString
        do throws(HTTPError) {
            guard !text.utf8.isEmpty else { throw CouchError.badRequest("document id missed") }
            var revision: RevisionID?
            if let rev {
                guard case .known(let known) = try NamedRevision(rev) else { throw CouchError.missing() }
                revision = known
            }
            let since = (item["atts_since"]?.asArray ?? []).compactMap { $0.asString.flatMap { try? RevisionID(known: $0) } }
            switch try CouchID(text) {
            case .document(let id):
                return .document(
                    DocumentReading.Question(id: id, wanted: revision.map { .named([$0], latest: latest) } ?? .leaves), since: since)
            case .design(let id): return .design(id, revision)
            case .local: throw CouchError.missing()
            }
        } catch { return .wrong(id: text, rev: rev ?? "undefined", error) }
    }

    private static func write(
        _ document: FoundDocument, _ asked: Asked, _ form: DocumentForm, _ output: inout Output, _ writer: inout PieceWriter
    ) async throws {
        guard case .document(let question, _) = asked else { return }
        let id = document.id.text
        try await output.begin(id, &writer)
        if document.isDamaged {
            let revision = if case .named(let revisions, _) = question.wanted { revisions.first?.text } else { String?.none }
            try await output.write(id, revision ?? "undefined", CouchError.from(.documentDamaged(id: document.id, detail: "")), &writer)
            return try await output.endDocument(&writer)
        }
        for found in document.revisions {
            do {
                let text = try await DocumentText.of(found, form, writer.blobs)
                try await output.write(text, of: found, &writer)
            } catch let unreadable as UnreadableAttachment {
                // The error concerns only this revision; other revisions and documents follow.
                try await output.write(id, found.revision.text, unreadable.answer, &writer)
            }
        }
        var missing = document.missing.map(\.text)
        if document.revisions.isEmpty, missing.isEmpty, case .leaves = question.wanted { missing = ["undefined"] }
        for revision in missing where document.revisions.isEmpty || !document.missing.isEmpty {
            try await output.write(id, revision, CouchError.missing(), &writer)
        }
        try await output.endDocument(&writer)
    }

    /// A design document, or what could not be asked for.
    private static func write(_ asked: Asked, _ call: CouchCall, _ output: inout Output, _ writer: inout PieceWriter) async throws {
        switch asked {
        case .document: return
        case .wrong(let id, let rev, let problem):
            try await output.begin(id, &writer)
            try await output.write(id, rev, problem, &writer)
        case .design(let id, let revision):
            try await output.begin(id, &writer)
            if let stored = try await DesignDocuments(call: call).get(id), revision == nil || revision == stored.revision {
                try await output.write([.bytes(DesignDocuments.shown(stored, withRevisions: true))], &writer)
            } else {
                try await output.write(id, revision?.text ?? "undefined", CouchError.missing(), &writer)
            }
        }
        try await output.endDocument(&writer)
    }

    /// How revisions are written to the response: as JSON grouped by document, or one part each.
    private struct Output {
        private let parts: MixedParts?
        private var isFirst = true
        /// Of the current document.
        private var isFirstRevision = true

        init(_ parts: MixedParts?) { self.parts = parts }

        func begin(_ writer: inout PieceWriter) async throws {
            if parts == nil { try await writer.write("{\"results\":[") }
        }

        mutating func begin(_ id: String, _ writer: inout PieceWriter) async throws {
            if parts == nil { try await writer.write("\(isFirst ? "" : ",")\n{\"id\":\(JSONValue.string(id).text),\"docs\":[") }
            (isFirst, isFirstRevision) = (false, true)
        }

        mutating func write(_ text: DocumentText, of found: FoundRevision, _ writer: inout PieceWriter) async throws {
            guard let parts else { return try await write(text.pieces, &writer) }
            // Ids contain no control characters, which could end the header field.
            try await parts.write(text, fields: "X-Doc-Id: \(found.id.text)\r\nX-Rev-Id: \(found.revision.text)\r\n", &writer)
        }

        mutating func write(_ document: [BodyPiece], _ writer: inout PieceWriter) async throws {
            if let parts { return try await parts.write(document, &writer) }
            try await writer.write("\(comma()){\"ok\":")
            try await writer.write(document)
            try await writer.write("}")
        }

        mutating func write(_ id: String, _ rev: String, _ error: HTTPError, _ writer: inout PieceWriter) async throws {
            var text = JSONWriter()
            text.raw("{\"id\":")
            text.string(id)
            text.raw(",\"rev\":")
            text.string(rev)
            text.raw(",\"error\":")
            text.string(error.word)
            text.raw(",\"reason\":")
            text.string(error.reason)
            text.raw("}")
            if let parts { return try await parts.write(error: text.bytes, &writer) }
            try await writer.write("\(comma()){\"error\":")
            try await writer.write(text.bytes)
            try await writer.write("}")
        }

        private mutating func comma() -> String {
            defer { isFirstRevision = false }
            return isFirstRevision ? "" : ","
        }

        func endDocument(_ writer: inout PieceWriter) async throws {
            if parts == nil { try await writer.write("]}") }
        }

        func end(_ writer: inout PieceWriter) async throws {
            if let parts { try await parts.end(&writer) } else { try await writer.write("]}\n") }
        }
    }
}
