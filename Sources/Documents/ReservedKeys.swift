/// The top-level keys of a body that start with `_`, which belong to protocols rather than documents (replication.md sections 4 and 10).
public enum ReservedKeys {
    /// The first reserved key, for an error message; nil if there is none.
    public static func first(in body: [UInt8], scan: DocumentScan? = nil) throws(JSONError) -> String? {
        try all(in: body, scan: scan).first
    }

    /// All reserved keys in order.
    public static func all(in body: [UInt8], scan: DocumentScan? = nil) throws(JSONError) -> [String] {
        let found = try JSONScanner.scanDocument(stored: body, known: scan)
        guard found.hasReservedKeys else { return [] }
        let members = try JSONValue(stored: body).asObject?.members ?? []
        return members.map(\.key).filter { $0.utf8.first == 0x5F }
    }

    /// What is wrong with the reserved keys of a body from outside, for an error message; nil if nothing is. Those of peers are known by name, and
    /// those that determine what a document is must have the right type: another reader could interpret them differently.
    public static func problem(in root: JSONObject) -> String? {
        for member in root.members where member.key.utf8.first == 0x5F {
            let expected: String
            switch member.key {
            case "_id", "_rev": if member.value.asString == nil { expected = "a string" } else { continue }
            case "_deleted", "_removed": if member.value.asBool == nil { expected = "true or false" } else { continue }
            case "_attachments": if member.value.asObject == nil { expected = "an object" } else { continue }
            case "_exp": if DocumentExpiry(member.value) == nil { expected = DocumentExpiry.expected } else { continue }
            case "_cv", "_vv", "_revisions", "_purged": continue
            // Sync Gateway's own keys.
            case let key where key.utf8.starts(with: "_sync".utf8): continue
            default: return "\(quoted(member.key.utf8)) is not a valid key for a document: top-level keys that begin with _ are reserved"
            }
            return "\(member.key) must be \(expected)"
        }
        return nil
    }

    /// What is wrong with the `_attachments` of a document saved here, for an error message; nil if nothing is. Their bytes are blobs, so each entry
    /// names a digest; an entry whose digest is not a `sha1-` is kept unchanged, although its bytes exist nowhere.
    public static func attachmentsProblem(in root: JSONObject) -> String? {
        guard let value = root["_attachments"] else { return nil }
        guard case .object(let attachments) = value else { return "_attachments must be an object with an entry for each attachment" }
        for entry in attachments.members {
            let digest = entry.value["digest"]?.asString ?? ""
            guard digest.utf8.isEmpty || digest.utf8.starts(with: "sha1-".utf8) && (try? BlobDigest(digest)) == nil else { continue }
            return "the entry \(quoted(entry.key.utf8)) of _attachments needs a digest, sha1- and the base64 of 20 bytes: "
                + "store its bytes as a blob, and name the blob's digest"
        }
        return nil
    }

    /// A peer's body without its reserved keys; the body itself if it has none. Genuine entries of `_attachments` stay. Entries that mirror an inline
    /// blob (`blob_/pointer`, and `blob_<digit>…` of 2.0) are removed; if such an entry names a different digest than the blob at its pointer, its
    /// digest, length and type are first copied into the blob.
    public static func strip(from body: [UInt8], scan: DocumentScan? = nil) throws(JSONError) -> [UInt8] {
        let found = try JSONScanner.scanDocument(stored: body, known: scan)
        guard found.hasReservedKeys else { return body }
        guard case .object(var root) = try JSONValue(stored: body) else { return body }
        var kept: JSONValue?
        if case .object(let attachments)? = root["_attachments"] {
            var genuine: [JSONObject.Member] = []
            for entry in attachments.members {
                if let pointer = LegacyAttachments.pointer(ofKey: entry.key) {
                    if let object = entry.value.asObject { correctBlob(at: pointer, in: &root, by: object) }
                } else if !LegacyAttachments.isMirror(entry.key) {
                    genuine.append(entry)
                }
            }
            if !genuine.isEmpty { kept = .object(JSONObject(genuine)) }
        }
        root.members.removeAll { $0.key.utf8.first == 0x5F }
        if let kept { root.members.append(JSONObject.Member(key: "_attachments", value: kept)) }
        return JSONValue.object(root).serialize()
    }

    private static func correctBlob(at pointer: [String], in root: inout JSONObject, by entry: JSONObject) {
        guard let claimed = entry["digest"]?.asString, (try? BlobDigest(claimed)) != nil else { return }
        var value = JSONValue.object(root)
        value.change(at: pointer[...]) { blob in
            guard case .object(var object) = blob, object["@type"]?.asString == "blob",
                let own = object["digest"]?.asString, !own.sameBytes(as: claimed)
            else { return }
            for key in ["digest", "length", "content_type"] {
                if let new = entry[key] { object[key] = new }
            }
            blob = .object(object)
        }
        if case .object(let changed) = value { root = changed }
    }
}

/// The form of blobs for peers that do not support inline blobs (replication.md section 10).
public enum LegacyAttachments {
    static let prefix = "blob_"

    /// Adds a top-level `_attachments` that mirrors each inline blob, as a stub of the given generation; 0: without one. Other entries of
    /// `_attachments` stay. Returns the body itself if it has no inline blob.
    /// - Parameter whereListed: only if there are `_attachments` already: then Couchbase Lite wants all blobs in it, otherwise none.
    public static func add(
        to body: [UInt8], generation: UInt64, whereListed: Bool = false, scan: DocumentScan? = nil
    ) throws(JSONError) -> [UInt8] {
        let found = try JSONScanner.scanDocument(stored: body, known: scan)
        guard found.mayHoldBlobs, case .object(var root) = try JSONValue(stored: body) else { return body }
        if whereListed, root["_attachments"] == nil { return body }
        var entries: [JSONObject.Member] = []
        BlobReferences.visit(.object(root), pointer: "", skippingAttachments: true) { pointer, blob in
            guard BlobReference(blob) != nil else { return }
            var entry = blob
            entry["@type"] = nil
            entry["stub"] = true
            if generation > 0 { entry["revpos"] = .int(generation) }
            entries.append(JSONObject.Member(key: prefix + pointer, value: .object(entry)))
        }
        guard !entries.isEmpty else { return body }
        let others = root["_attachments"]?.asObject?.members.filter { !isMirror($0.key) } ?? []
        root["_attachments"] = .object(JSONObject(others + entries))
        return JSONValue.object(root).serialize()
    }

    /// The form in which `_attachments` are saved here: adds missing `stub` and `revpos` members, which Sync Gateway requires.
    public static func complete(_ attachments: JSONObject, generation: UInt64) -> JSONObject {
        JSONObject(
            attachments.members.map { member in
                guard var entry = member.value.asObject, BlobReference(entry) != nil else { return member }
                if entry["stub"] == nil { entry["stub"] = true }
                if entry["revpos"] == nil { entry["revpos"] = .int(generation) }
                return JSONObject.Member(key: member.key, value: .object(entry))
            })
    }

    /// Whether a key of `_attachments` mirrors an inline blob.
    static func isMirror(_ key: String) -> Bool {
        guard key.utf8.starts(with: prefix.utf8), let next = key.utf8.dropFirst(prefix.utf8.count).first else { return false }
        return next == 0x2F || isDigit(next)
    }

    /// The path of keys to the blob that an entry `blob_/a/b` mirrors; nil for other entries.
    static func pointer(ofKey key: String) -> [String]? {
        guard isMirror(key) else { return nil }
        let path = key.dropFirst(prefix.count)
        guard path.utf8.first == 0x2F else { return nil }
        return path.dropFirst().split(separator: "/", omittingEmptySubsequences: false).map { unescape($0) }
    }

    private static func unescape(_ part: Substring) -> String {
        guard part.utf8.contains(0x7E) else { return String(part) }
        var text = String.UnicodeScalarView()
        var scalars = part.unicodeScalars.makeIterator()
        while let scalar = scalars.next() {
            guard scalar == "~" else {
                text.append(scalar)
                continue
            }
            switch scalars.next() {
            case "0"?: text.append("~")
            case "1"?: text.append("/")
            case let other?:
                text.append("~")
                text.append(other)
            case nil: text.append("~")
            }
        }
        return String(text)
    }
}

extension JSONValue {
    /// Calls `change` with the value at a path of keys and indexes, if it exists.
    fileprivate mutating func change(at path: ArraySlice<String>, _ change: (inout JSONValue) -> Void) {
        guard let key = path.first else {
            change(&self)
            return
        }
        switch self {
        case .object(var object):
            guard let index = object.members.lastIndex(where: { $0.key.sameBytes(as: key) }) else { return }
            object.members[index].value.change(at: path.dropFirst(), change)
            self = .object(object)
        case .array(var items):
            guard let index = Int(key), items.indices.contains(index) else { return }
            items[index].change(at: path.dropFirst(), change)
            self = .array(items)
        default: return
        }
    }
}
