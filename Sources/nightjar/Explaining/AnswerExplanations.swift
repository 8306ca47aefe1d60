extension Explanation {
    /// The word in `error` of HTTP answers, on the admin port and the listeners.
    static let ofAnswers = [
        Explanation("bad_request", "400: the request makes no sense; reason says what is wrong.", "Correct the request."),
        Explanation("configuration", "400: the configuration is invalid.", "reason has file, line and column: nightjar check."),
        Explanation("query_parse_error", "400: a parameter after ? is wrong.", "Correct it; JSON values need quotes inside the URL."),
        Explanation("illegal_docid", "400: this is not a valid document id.", "1 to 240 bytes that do not begin with an underscore."),
        Explanation("doc_validation", "400: the document cannot be stored; reason says why.", "Correct the document: top-level keys with _ are reserved."),
        Explanation("unauthorized", "401: a login is needed, or this one is wrong.", "Check the name and password, or admin.token."),
        Explanation("forbidden", "403: the client may not do this, because of a plugin, the user's rights or the token's role.", "reason says which. Use another "
            + "login, or change that rule."),
        Explanation("not_found", "404: there is no such document, database or path.", "Check the name. What a user may not see does not exist for that user."),
        Explanation("method_not_allowed", "405: the path exists, but not for this method.", "The header Allow lists its methods."),
        Explanation("timeout", "408: the request did not arrive in time.", "Check the line in between."),
        Explanation("conflict", "409: somebody else changed the document first.", "Read it again, and send the change with its current _rev."),
        Explanation("gone", "410: the path belongs to a feature that CouchDB has dropped, such as temporary views.", "Use POST /DATABASE/_find with a selector instead."),
        Explanation("missing_stub", "412: an attachment that the document only names, without sending it, is not here.", "Send the attachment with the document."),
        Explanation("file_exists", "412: the database already exists.", "Use the existing one."),
        Explanation("too_large", "413: the body is larger than the limit that reason names.", "Send less at once, or raise the limit."),
        Explanation("document_too_large", "413: the document, or a blob of it, is larger than the limit.", "Store what is large as a blob, or raise max_document_bytes of the database; limits: { max_blob_bytes } is for blobs."),
        Explanation("bad_content_type", "415: the body's type is not the one expected.", "Send Content-Type: application/json."),
        Explanation("requested_range_not_satisfiable", "416: the attachment is shorter than the range asked for.", "Ask for its length first: HEAD."),
        Explanation("upgrade_required", "426: this path supports only WebSocket.", "Point a replicator at it, and an HTTP client at /DB."),
        Explanation("too_many_requests", "429: too many failed logins.", "Wait for as long as Retry-After says."),
        Explanation("headers_too_large", "431: the header is longer than header_bytes (16 KiB).", "Check the client's cookies."),
        Explanation("failed", "500: the agent could not do it; reason says why.", "Do what reason says."),
        Explanation("internal_server_error", "500: something failed here; the client is not told what.", "The agent's log says what."),
        Explanation("not_implemented", "501: this part of CouchDB's API is not supported.", "examples/guides/couchdb.md says what is."),
        Explanation("service_unavailable", "503: not at the moment: no memory in the budget, too many connections, or the database cannot be used.", "Try again "
            + "after Retry-After."),
        Explanation("filter_failed", "503: the filter that the request names fails on the next document of the feed.", "Fix the plugin: the agent's log says what fails."),
        Explanation(
            "insufficient_storage", "507: there is no room for it on the disk, or the database has reached its quota.",
            "Make room on the gateway, or raise the database's quota there: nightjar status says how much of it is used."),
        Explanation("error", "Another error; reason says which.", "Do what reason says."),
    ]
}
