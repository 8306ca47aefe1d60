import Documents

/// The `_attachments` that peers want which did not say that they understand inline blobs (Sync Gateway).
enum LegacyAttachments {
    /// The body with a complete `_attachments`: an entry for each inline blob, named by its place.
    static func added(to body: [UInt8], generation: UInt64) -> [UInt8] {
        guard case .object(var object)? = try? JSONValue(parsing: body) else { return body }
        var entries: [JSONObject.Member] = []
        collect(.object(object), at: "", generation, into: &entries)
        guard !entries.isEmpty else { return body }
        if case .object(let existing)? = object["_attachments"] {
            entries += existing.members.filter { !$0.key.utf8.starts(with: "blob_".utf8) }
        }
        object["_attachments"] = .object(JSONObject(entries))
        return JSONValue.object(object).serialize()
    }

    private static func collect(
        _ value: JSONValue, at path: String, _ generation: UInt64, into entries: inout [JSONObject.Member]
    ) {
        switch value {
        case .object(let object):
            if case .string("blob")? = object["@type"], object["digest"] != nil {
                var stub = object
                stub["@type"] = nil
                stub["stub"] = .bool(true)
                stub["revpos"] = .number(JSONNumber(generation))
                entries.append(JSONObject.Member(key: "blob_" + path, value: .object(stub)))
                return
            }
            for member in object.members where path != "" || member.key != "_attachments" {
                collect(member.value, at: path + "/" + escape(member.key), generation, into: &entries)
            }
        case .array(let items):
            for (index, child) in items.enumerated() { collect(child, at: path + "/\(index)", generation, into: &entries) }
        default: break
        }
    }

    /// JSON pointer escapes (RFC 6901).
    private static func escape(_ key: String) -> String {
        var escaped = ""
        for scalar in key.unicodeScalars {
            switch scalar {
            case "~": escaped += "~0"
            case "/": escaped += "~1"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}
