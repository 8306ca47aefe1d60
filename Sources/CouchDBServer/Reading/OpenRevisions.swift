import Documents
import DocumentStore
import HTTPServer
import Interfaces

/// `GET /DATABASE/DOCUMENT?open_revs=[…]`: several revisions of a document, as a JSON array or as multipart/mixed.
enum OpenRevisions {
    /// Includes revisions that cannot exist here.
    private static func wanted(_ query: CouchQuery) throws(HTTPError) -> (WantedRevisions, elsewhere: [String]) {
        if query.text("open_revs") == "all" { return (.leaves, []) }
        let named = try query.revisions("open_revs") ?? []
        let elsewhere = named.compactMap { if case .elsewhere(let text) = $0 { text } else { String?.none } }
        return (.named(named.compactMap(\.known), latest: try query.flag("latest")), elsewhere)
    }

    /// Clients that accept anything get multipart, as from CouchDB.
    private static func isMultipart(_ request: HTTPRequest) -> Bool {
        let accepted = request.headers.list("Accept")
        return accepted.isEmpty || ["multipart/mixed", "multipart/*", "*/*"].contains { Multipart.isAccepted(request, $0) }
    }

    static func answer(_ call: CouchCall, _ id: DocumentID) async throws -> HTTPResponse {
        let (wanted, elsewhere) = try wanted(call.query)
        var form = try DocumentRoutes.form(call.query)
        let document = try await DocumentReading(call: call).one(id, wanted, withTree: true)
        if case .leaves = wanted, document.revisions.isEmpty { throw CouchError.missing() }
        let inParts = isMultipart(call.request)
        // With multipart, attachments are included unless the client has them.
        if inParts { form.attachments = .follow }
        var (revisions, missing) = ([FoundRevision](), document.missing.map(\.text) + elsewhere)
        for found in document.revisions {
            // A revision whose bytes are damaged counts as missing: a replicator skips it and goes on with other documents.
            if try await DocumentText.canBeGiven(found, form, call.database.blobs) { revisions.append(found) } else { missing.append(found.revision.text) }
        }
        let (shown, given, missingRevisions) = (form, revisions, missing)
        guard inParts else {
            return .pieces(call.database.blobs, keeping: call.answer) { writer in
                try await writer.write("[")
                var isFirst = true
                for revision in given {
                    let text = try await DocumentText.of(revision, shown, writer.blobs)
                    try await writer.write(isFirst ? "{\"ok\":" : ",{\"ok\":")
                    isFirst = false
                    try await writer.write(text.pieces)
                    try await writer.write("}")
                }
                for revision in missingRevisions {
                    try await writer.write("\(isFirst ? "" : ",")\(Self.missing(revision))")
                    isFirst = false
                }
                try await writer.write("]\n")
            }
        }
        let parts = MixedParts(call)
        return .pieces(type: parts.type(), call.database.blobs, keeping: call.answer) { writer in
            for revision in given {
                let text = try await DocumentText.of(revision, shown, writer.blobs)
                try await parts.write(text, &writer)
            }
            for revision in missingRevisions { try await parts.write(error: Array(Self.missing(revision).utf8), &writer) }
            try await parts.end(&writer)
        }
    }

    private static func missing(_ revision: String) -> String { "{\"missing\":\(JSONValue.string(revision).text)}" }

    /// A design document has a single revision.
    static func answer(_ call: CouchCall, design stored: DesignDocuments.Stored, _ id: String) async throws -> HTTPResponse {
        let (wanted, elsewhere) = try wanted(call.query)
        var missing = elsewhere
        var isWanted = true
        if case .named(let revisions, let latest) = wanted {
            isWanted = revisions.contains { $0 == stored.revision || latest && stored.history.contains($0) }
            missing += revisions.filter { $0 != stored.revision && !(latest && stored.history.contains($0)) }.map(\.text)
        }
        let text = isWanted ? DesignDocuments.shown(stored, withRevisions: true) : nil
        let (wantedText, missingRevisions) = (text, missing)
        guard isMultipart(call.request) else {
            var out = JSONWriter()
            out.raw("[")
            if let text {
                out.raw("{\"ok\":")
                out.append(text)
                out.raw(missing.isEmpty ? "}" : "},")
            }
            out.list(missing) { $0.text(Self.missing($1)) }
            out.raw("]")
            return .couch(out, call.database.blobs, keeping: call.answer)
        }
        let parts = MixedParts(call)
        return .pieces(type: parts.type(), call.database.blobs, keeping: call.answer) { writer in
            if let wantedText { try await parts.write([.bytes(wantedText)], &writer) }
            for revision in missingRevisions { try await parts.write(error: Array(Self.missing(revision).utf8), &writer) }
            try await parts.end(&writer)
        }
    }
}
