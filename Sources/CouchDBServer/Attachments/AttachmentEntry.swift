import Digests
import Documents
import DocumentStore
import Encodings

/// An entry of a document's `_attachments`.
///
/// Attachments are stored as blobs, which the store and Couchbase Lite identify by SHA-1. CouchDB clients identify attachments by MD5: if
/// the bytes came from such a client, the MD5 is stored in the entry (`md5`) and shown as the digest; otherwise the `sha1-` digest is
/// shown.
struct AttachmentEntry: Sendable {
    var name: String
    var members: JSONObject

    static let md5Key = "md5"

    var blob: BlobDigest? { members["digest"]?.asString.flatMap { try? BlobDigest($0) } }
    var contentType: String { members["content_type"]?.asString ?? "application/octet-stream" }
    /// Bytes, according to the document. Other software may have written anything here, including a length that differs from the blob's.
    var length: UInt64? { members["length"]?.asUInt64 }
    var revisionPosition: UInt64 { members["revpos"]?.asUInt64 ?? 1 }
    /// The digest that CouchDB clients see.
    var shownDigest: String { md5 ?? blob?.text ?? members["digest"]?.asString ?? "" }
    /// Nil if it is not in the form of an MD5 digest: a peer may have written it.
    private var md5: String? {
        guard let text = members[Self.md5Key]?.asString, text.utf8.starts(with: "md5-".utf8), let bytes = Base64.decode(text.dropFirst(4)),
            bytes.count == MD5.byteCount, text.utf8.elementsEqual("md5-\(Base64.encode(bytes))".utf8)
        else { return nil }
        return text
    }

    /// A new entry whose bytes have been stored.
    init(name: String, contentType: String, length: UInt64, digest: BlobDigest, md5: [UInt8], revisionPosition: UInt64) {
        self.name = name
        members = JSONObject([
            JSONObject.Member(key: "content_type", value: .string(contentType)),
            JSONObject.Member(key: "digest", value: .string(digest.text)),
            JSONObject.Member(key: Self.md5Key, value: .string("md5-" + Base64.encode(md5))),
            JSONObject.Member(key: "length", value: .int(length)),
            JSONObject.Member(key: "revpos", value: .int(revisionPosition)),
            JSONObject.Member(key: "stub", value: .bool(true)),
        ])
    }

    init(name: String, members: JSONObject) { (self.name, self.members) = (name, members) }

    static func all(_ value: JSONValue?) -> [AttachmentEntry] {
        (value?.asObject?.members ?? []).compactMap { member in
            member.value.asObject.map { AttachmentEntry(name: member.key, members: $0) }
        }
    }

    /// The attachments of a revision: its `_attachments`, and its inline blobs under the names that Couchbase's servers give them.
    static func all(of found: FoundRevision) -> [AttachmentEntry] {
        let parts = JSONParts(checked: mirrored(found))
        return all(parts.member("_attachments", of: parts.root).flatMap { parts.value($0) })
    }

    /// The body, with added entries for inline blobs.
    static func mirrored(_ found: FoundRevision) -> [UInt8] {
        guard found.hasBlobs else { return found.body }
        return (try? LegacyAttachments.add(to: found.body, generation: found.revision.generation)) ?? found.body
    }

    /// In the form that clients see.
    ///
    /// - Parameter mark: `stub` or `follows`; nil if the bytes are included.
    /// - Parameter size: the blob's; nil if it is missing.
    func shown(generation: UInt64, _ mark: String?, size: UInt64?) -> JSONObject {
        var shown = JSONObject([
            JSONObject.Member(key: "content_type", value: .string(contentType)),
            JSONObject.Member(key: "revpos", value: .int(members["revpos"]?.asUInt64 ?? generation)),
            JSONObject.Member(key: "digest", value: .string(shownDigest)),
        ])
        if let mark {
            // If the blob is missing, the document's own number is the best available.
            if let length = size ?? length { shown["length"] = .int(length) }
            shown[mark] = .bool(true)
        }
        if let encoding = members["encoding"] { shown["encoding"] = encoding }
        return shown
    }
}
