extension Explanation {
    /// The word in `error` of answers over HTTP, on the admin port and the listeners.
    static let ofAnswers = [
        Explanation("bad_request", "400: the request makes no sense; reason says what is wrong.", "Correct the request."),
        Explanation("configuration", "400: the configuration is wrong.", "reason has file, line and column: nightjar check."),
        Explanation("query_parse_error", "400: a parameter behind ? is wrong.", "Correct it; JSON values need quotes inside the URL."),
        Explanation("illegal_docid", "400: no document can have this id.", "1 to 240 bytes that do not begin with an underscore."),
        Explanation("doc_validation", "400: the document cannot be stored; reason says why.", "Correct the document: top-level keys with _ are reserved."),
        Explanation("unauthorized", "401: a login is needed, or this one is wrong.", "Check the name and password, or admin.token."),
        Explanation("forbidden", "403: who asks may not do this; a plugin, the user's rights or the token's role say so.", "reason says which. Use another login, or change what decides."),
        Explanation("not_found", "404: there is no such document, database or path.", "Check the name. What a user may not see does not exist for that user."),
        Explanation("method_not_allowed", "405: the path is there, and not for this method.", "The header Allow says for which."),
        Explanation("timeout", "408: the request did not come in time.", "Look at the line between."),
        Explanation("conflict", "409: somebody else changed the document first.", "Read it again, and send the change with its present _rev."),
        Explanation("missing_stub", "412: an attachment that the document names only is not here.", "Send the attachment with the document."),
        Explanation("file_exists", "412: the database is there already.", "Use it."),
        Explanation("too_large", "413: the body is larger than the limit that reason names.", "Send less at once, or raise the limit."),
        Explanation("document_too_large", "413: the document, or a blob of it, is larger than the limit.", "Store what is large as a blob, or raise max_document_bytes of the database; limits: { max_blob_bytes } is for blobs."),
        Explanation("bad_content_type", "415: the body's type is not the one expected.", "Send Content-Type: application/json."),
        Explanation("requested_range_not_satisfiable", "416: the attachment is shorter than the range asked for.", "Ask for its length first: HEAD."),
        Explanation("upgrade_required", "426: this path speaks WebSocket only.", "Point a replicator at it, and an HTTP client at /DB."),
        Explanation("too_many_requests", "429: too many wrong logins.", "Wait for as long as Retry-After says."),
        Explanation("headers_too_large", "431: the header is longer than header_bytes (16 KiB).", "Look at the client's cookies."),
        Explanation("failed", "500: the agent could not do it; reason says why.", "Do what reason says."),
        Explanation("internal_server_error", "500: something failed here that the one who asks is not told.", "The agent's log has it."),
        Explanation("not_implemented", "501: this part of CouchDB's API is not served.", "examples/guides/couchdb.md says what is."),
        Explanation("service_unavailable", "503: not now: no memory in the budget, too many connections, or the database cannot be used.", "Try again after Retry-After."),
        Explanation("filter_failed", "503: the filter that the request names fails on the next document of the feed.", "Mend the plugin: the agent's log says what fails."),
        Explanation(
            "insufficient_storage", "507: there is no room for it on the disk, or the database has reached its quota.",
            "Make room on the gateway, or raise the database's quota there: nightjar status says how much of it is used."),
        Explanation("error", "Another error; reason says which.", "Do what reason says."),
    ]
}
