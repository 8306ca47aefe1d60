import Documents

/// The schemas of requests and answers.
enum Schemas {
    private static let boolean: Set<String> = [
        "revs", "revs_info", "conflicts", "deleted_conflicts", "meta", "latest", "attachments", "local_seq", "include_docs", "descending", "inclusive_end",
        "update_seq", "new_edits",
    ]
    private static let whole: Set<String> = ["limit", "skip", "count", "seq_interval", "timeout"]

    /// The schema of a query parameter.
    static func parameter(_ name: String) -> JSONValue {
        if boolean.contains(name) { return ["type": "boolean"] }
        if whole.contains(name) { return ["type": "integer", "minimum": 0] }
        switch name {
        case "feed": return ["type": "string", "enum": ["normal", "longpoll", "continuous", "eventsource"]]
        case "style": return ["type": "string", "enum": ["main_only", "all_docs"]]
        case "batch": return ["type": "string", "enum": ["ok"]]
        case "rev": return ["type": "string", "pattern": "^[0-9]+-[0-9a-f]+$"]
        case "heartbeat": return ["type": ["integer", "boolean"]]
        default: return ["type": "string"]
        }
    }

    private static func object(_ properties: JSONValue, required: [String] = []) -> JSONValue {
        ["type": "object", "properties": properties, "required": .array(required.map { .string($0) })]
    }

    private static let texts: JSONValue = ["type": "array", "items": ["type": "string"]]

    static let all: JSONValue = [
        "AnyJSON": [:],
        "Object": ["type": "object"],
        "Objects": ["type": "array", "items": ["type": "object"]],
        "Strings": texts,
        "Integer": ["type": "integer"],
        "Problem": object(["error": ["type": "string"], "reason": ["type": "string"]], required: ["error", "reason"]),
        "Saved": object(["ok": ["type": "boolean"], "id": ["type": "string"], "rev": ["type": "string"]]),
        "Document": object([
            "_id": ["type": "string"], "_rev": ["type": "string"], "_deleted": ["type": "boolean"],
            "_attachments": ["type": "object"],
            "_revisions": object(["start": ["type": "integer"], "ids": texts]),
        ]),
        "BulkDocuments": object(
            ["docs": ["type": "array", "items": ["$ref": "#/components/schemas/Document"]], "new_edits": ["type": "boolean"]], required: ["docs"]),
        "BulkGet": object(
            ["docs": ["type": "array", "items": object(["id": ["type": "string"], "rev": ["type": "string"], "atts_since": texts], required: ["id"])]],
            required: ["docs"]),
        "Revisions": ["type": "object", "description": "Revisions by the ids of their documents.", "additionalProperties": texts],
        "ChangesQuestion": object(["doc_ids": texts, "selector": ["type": "object"], "channels": ["type": "string"]]),
        "Changes": [
            "type": "object", "description": "With feed=continuous one row a line, and at the end last_seq.",
            "properties": ["results": ["type": "array", "items": ["type": "object"]], "last_seq": [:], "pending": ["type": "integer"]],
        ],
        "DatabaseNames": object(["keys": texts], required: ["keys"]),
        "Queries": object(["queries": ["type": "array", "items": ["type": "object"]]], required: ["queries"]),
        "Query": object(
            [
                "selector": ["type": "object"], "fields": texts, "sort": ["type": "array"], "limit": ["type": "integer", "minimum": 0],
                "skip": ["type": "integer", "minimum": 0], "bookmark": ["type": "string"], "use_index": ["type": ["string", "array"]],
                "execution_stats": ["type": "boolean"],
            ], required: ["selector"]),
        "Index": object(
            [
                "index": object(["fields": ["type": "array"], "partial_filter_selector": ["type": "object"]], required: ["fields"]),
                "name": ["type": "string"], "ddoc": ["type": "string"], "type": ["type": "string", "enum": ["json"]],
            ], required: ["index"]),
        "IndexNames": object(["docids": texts], required: ["docids"]),
        "Login": object(["name": ["type": "string"], "password": ["type": "string"]], required: ["name", "password"]),
    ]
}
