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
        func flag(_ key: String) throws -> Bool { try call.query.flag(key, default: body[key]?.asBool ?? false) }
        let latest = try flag("latest")
        var form = DocumentForm()
        form.withRevisions = try flag("revs")
        let asked = list.map { Self.asked($0, latest: latest) }
        let carries = try flag("attachments")
        let reading = DocumentReading(call: call)
        try await reading.prepare()
        let base = form
        return .pieces(call.database.blobs, packing: call.packing) { writer in
            try await writer.write("{\"results\":[")
            var rest = asked[...]
            var isFirst = true
            while !rest.isEmpty {
                let questions = rest.prefix { if case .document = $0 { true } else { false } }
                guard !questions.isEmpty else {
                    try await write(rest.removeFirst(), call, &isFirst, &writer)
                    continue
                }
                let page = try await reading.page(
                    questions.compactMap { if case .document(let question, _) = $0 { question } else { nil } }[...], withTrees: true)
                for (document, question) in zip(page, questions) {
                    var form = base
                    if case .document(_, let since) = question { form.since = since }
                    form.attachments = carries || !form.since.isEmpty ? .inline : .stubs
                    try await write(document, question, form, &isFirst, &writer)
                }
                rest = rest.dropFirst(page.count)
            }
            try await writer.write("]}\n")
        }
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
        _ document: FoundDocument, _ asked: Asked, _ form: DocumentForm, _ isFirst: inout Bool, _ writer: inout PieceWriter
    ) async throws {
        guard case .document(let question, _) = asked else { return }
        try await begin(document.id.text, &isFirst, &writer)
        var isFirstRevision = true
        if document.isDamaged {
            let revision = if case .named(let revisions, _) = question.wanted { revisions.first?.text } else { String?.none }
            try await writer.write(error(document.id.text, revision ?? "undefined", CouchError.from(.documentDamaged(id: document.id, detail: ""))))
            return try await writer.write("]}")
        }
        for found in document.revisions {
            if !isFirstRevision { try await writer.write(",") }
            isFirstRevision = false
            do {
                let text = try await DocumentText.of(found, form, writer.blobs)
                try await writer.write("{\"ok\":")
                try await writer.write(text.pieces)
                try await writer.write("}")
            } catch let unreadable as UnreadableAttachment {
                // Of this revision alone: those of other documents are to come.
                try await writer.write(error(document.id.text, found.revision.text, unreadable.answer))
            }
        }
        var missing = document.missing.map(\.text)
        if document.revisions.isEmpty, missing.isEmpty, case .leaves = question.wanted { missing = ["undefined"] }
        for revision in missing where document.revisions.isEmpty || !document.missing.isEmpty {
            if !isFirstRevision { try await writer.write(",") }
            isFirstRevision = false
            try await writer.write(error(document.id.text, revision, CouchError.missing()))
        }
        try await writer.write("]}")
    }

    private static func begin(_ id: String, _ isFirst: inout Bool, _ writer: inout PieceWriter) async throws {
        try await writer.write("\(isFirst ? "" : ",")\n{\"id\":\(JSONValue.string(id).text),\"docs\":[")
        isFirst = false
    }

    /// A design document, or what could not be asked for.
    private static func write(_ asked: Asked, _ call: CouchCall, _ isFirst: inout Bool, _ writer: inout PieceWriter) async throws {
        switch asked {
        case .document: return
        case .wrong(let id, let rev, let problem):
            try await begin(id, &isFirst, &writer)
            try await writer.write(error(id, rev, problem))
        case .design(let id, let revision):
            try await begin(id, &isFirst, &writer)
            if let stored = try await DesignDocuments(call: call).get(id), revision == nil || revision == stored.revision {
                try await writer.write("{\"ok\":")
                try await writer.write(DesignDocuments.shown(stored, withRevisions: true))
                try await writer.write("}")
            } else {
                try await writer.write(error(id, revision?.text ?? "undefined", CouchError.missing()))
            }
        }
        try await writer.write("]}")
    }

    private static func error(_ id: String, _ rev: String, _ error: HTTPError) -> [UInt8] {
        var text = JSONWriter()
        text.raw("{\"error\":{\"id\":")
        text.string(id)
        text.raw(",\"rev\":")
        text.string(rev)
        text.raw(",\"error\":")
        text.string(error.word)
        text.raw(",\"reason\":")
        text.string(error.reason)
        text.raw("}}")
        return text.bytes
    }
}
