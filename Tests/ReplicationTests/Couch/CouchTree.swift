import Digests
import Documents
import Encodings

/// A CouchDB database as far as the tests need one: it has real revision trees and keeps every branch, and has no views.
struct CouchTree: Sendable {
    struct Attachment: Sendable {
        var type: String
        var bytes: [UInt8]
        var revpos: Int
    }

    struct Revision: Sendable {
        var parent: String?
        var isDeleted = false
        /// Nil for an ancestor of which only the id has arrived.
        var body: JSONObject?
        var attachments: [String: Attachment] = [:]
    }

    struct Document: Sendable {
        var revisions: [String: Revision] = [:]
        var sequence = 0

        /// The leaves, the winner first.
        var leaves: [String] {
            let parents = Set(revisions.values.compactMap(\.parent))
            return revisions.keys.filter { !parents.contains($0) }.sorted { one, other in
                let (a, b) = (revisions[one]?.isDeleted == true, revisions[other]?.isDeleted == true)
                if a != b { return b }
                let (x, y) = (CouchTree.generation(one), CouchTree.generation(other))
                return x != y ? x > y : one > other
            }
        }

        /// The leaves that descend from this revision; itself, if it is one.
        func leaves(from revision: String) -> [String] {
            guard revisions[revision] != nil else { return [] }
            return revisions.values.contains { $0.parent == revision } ? leaves.filter { path($0).contains(revision) } : [revision]
        }

        func path(_ revision: String) -> [String] {
            var path = [revision]
            while let last = path.last, let parent = revisions[last]?.parent { path.append(parent) }
            return path
        }
    }

    var documents: [String: Document] = [:]
    var local: [String: JSONObject] = [:]
    var sequence = 0

    static func generation(_ revision: String) -> Int { Int(revision.prefix { $0 != "-" }) ?? 0 }

    static func hash(_ text: String) -> String { String(Hex.encode(SHA1.hash(Array(text.utf8))).prefix(32)) }

    /// Edits the winner, or the revision that is named.
    @discardableResult
    mutating func edit(_ id: String, _ body: String, on parent: String? = nil, isDeleted: Bool = false, attachments: [String: Attachment]? = nil) -> String {
        var document = documents[id] ?? Document()
        let parent = parent ?? document.leaves.first
        let number = (parent.map(Self.generation) ?? 0) + 1
        let name = "\(number)-\(Self.hash("\(parent ?? "")\(body)\(isDeleted)"))"
        let kept = attachments ?? parent.flatMap { document.revisions[$0]?.attachments } ?? [:]
        document.revisions[name] = Revision(
            parent: parent, isDeleted: isDeleted, body: (try? JSONValue(parsing: body))?.asObject ?? JSONObject(), attachments: kept)
        sequence += 1
        document.sequence = sequence
        documents[id] = document
        return name
    }

    /// Stores a revision with its history, as `new_edits=false` does. Returns an error's name and reason, or nil.
    mutating func replicate(_ object: JSONObject, parts: [[UInt8]] = []) -> (String, String)? {
        guard let id = object["_id"]?.asString, let start = object["_revisions"]?["start"]?.asInt64, let ids = object["_revisions"]?["ids"]?.asArray
        else { return ("bad_request", "_id and _revisions are needed") }
        let path = ids.enumerated().map { "\(Int(start) - $0)-\($1.asString ?? "")" }
        guard path.first == object["_rev"]?.asString else { return ("bad_request", "_rev and _revisions differ") }
        var document = documents[id] ?? Document()
        var leaf = Revision(parent: path.dropFirst().first, isDeleted: object["_deleted"]?.asBool ?? false)
        leaf.body = JSONObject(object.members.filter { $0.key.utf8.first != UInt8(ascii: "_") })
        var rest = parts[...]
        for entry in object["_attachments"]?.asObject?.members ?? [] {
            let bytes: [UInt8]
            if let data = entry.value["data"]?.asString.flatMap({ Base64.decode($0) }) {
                bytes = data
            } else if entry.value["follows"]?.asBool == true, let part = rest.popFirst() {
                bytes = part
            } else {
                return ("missing_stub", "attachment \(entry.key) has no data")
            }
            leaf.attachments[entry.key] = Attachment(
                type: entry.value["content_type"]?.asString ?? "", bytes: bytes, revpos: Int(entry.value["revpos"]?.asInt64 ?? start))
        }
        if document.revisions[path[0]]?.body != nil { return nil }
        document.revisions[path[0]] = leaf
        for (index, ancestor) in path.enumerated().dropFirst() {
            if document.revisions[ancestor] == nil { document.revisions[ancestor] = Revision(parent: nil) }
            if index + 1 < path.count { document.revisions[ancestor]?.parent = path[index + 1] }
        }
        sequence += 1
        document.sequence = sequence
        documents[id] = document
        return nil
    }

    func json(_ id: String, _ name: String, stubs: Bool = true) -> JSONValue? {
        guard let document = documents[id], let revision = document.revisions[name], let body = revision.body else { return nil }
        let path = document.path(name)
        var object = JSONObject()
        object["_id"] = .string(id)
        object["_rev"] = .string(name)
        object["_revisions"] = ["start": .int(Self.generation(name)), "ids": .array(path.map { .string(String($0.drop { $0 != "-" }.dropFirst())) })]
        if revision.isDeleted { object["_deleted"] = true }
        if !revision.attachments.isEmpty {
            object["_attachments"] = .object(
                JSONObject(
                    revision.attachments.sorted { $0.key < $1.key }.map { name, attachment in
                        .init(
                            key: name,
                            value: [
                                "content_type": .string(attachment.type), "revpos": .int(attachment.revpos), "stub": true,
                                "digest": .string("md5-" + Base64.encode(MD5.hash(attachment.bytes))), "length": .int(attachment.bytes.count),
                            ])
                    }))
        }
        object.members += body.members
        return .object(object)
    }

    /// What peers have to agree on: the winner of each document.
    var contents: [String] {
        documents.compactMap { id, document -> String? in
            guard let winner = document.leaves.first, let revision = document.revisions[winner], let body = revision.body else { return nil }
            return "\(id) \(winner) \(revision.isDeleted) \(JSONValue.object(body).text)"
        }.sorted()
    }
}
