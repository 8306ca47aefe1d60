import Encodings

/// What a body says about one blob.
public struct BlobReference: Sendable, Equatable {
    public let digest: BlobDigest
    /// In bytes, if the body says so.
    public let length: UInt64?
    public let contentType: String?
    /// Of the content, such as `gzip`.
    public let encoding: String?

    public init(digest: BlobDigest, length: UInt64?, contentType: String?, encoding: String? = nil) {
        self.digest = digest
        self.length = length
        self.contentType = contentType
        self.encoding = encoding
    }

    /// From a blob's object or an entry of `_attachments`; nil without a valid digest.
    init?(_ object: JSONObject) {
        guard let text = object["digest"]?.asString, let digest = try? BlobDigest(text) else { return nil }
        self.init(
            digest: digest, length: object["length"]?.asUInt64, contentType: object["content_type"]?.asString,
            encoding: object["encoding"]?.asString)
    }

    /// Whether sending it compressed may pay (Core's rule, replication.md section 10).
    public var isCompressible: Bool {
        guard encoding == nil, let type = contentType?.lowercased() else { return false }
        if ["image/", "audio/", "video/"].contains(where: { type.hasPrefix($0) }) { return false }
        return !["zip", "zlib", "pkcs", "mpeg", "mp4", "crypt", ".rar", "-rar"].contains { type.holds($0) }
    }
}

/// The blobs a body refers to.
public enum BlobReferences {
    /// An inline blob and where it stands.
    public struct Located: Sendable, Equatable {
        /// JSON pointer (RFC 6901) from the body's root.
        public let pointer: String
        public let reference: BlobReference
    }

    /// Inline `{"@type":"blob",…}` objects anywhere, then entries of a top-level `_attachments`; each digest once.
    /// Entries without a valid digest are data like any other and are passed over. `scan`, if the caller has it, saves a pass.
    public static func find(in body: [UInt8], scan: DocumentScan? = nil) throws(JSONError) -> [BlobReference] {
        let found = try JSONScanner.scanDocument(stored: body, known: scan)
        guard found.mayHoldBlobs else { return [] }
        return try body.withRawBytes { (raw) throws(JSONError) in
            // A scan that the caller has says that the text was checked, which a search relies on.
            if scan != nil { try JSONScanner.checkValue(raw, keysMayRepeat: true) }
            return BlobSearch.references(in: raw)
        }
    }

    /// No fewer than there are blobs in a text, whatever is in it: objects with a digest that say that they are blobs, or stand among attachments.
    /// Nothing is made for it.
    public static func most(in text: UnsafeBufferPointer<UInt8>) -> Int {
        var (digests, types, attachments, at) = (0, 0, 0, 0)
        while at < text.count {
            guard text[at] == UInt8(ascii: "\"") else {
                at += 1
                continue
            }
            let end = text.endOfJSONString(at)
            let written = UnsafeBufferPointer(rebasing: text[at..<end])
            at = end
            if written.count == 8, written.elementsEqual("\"digest\"".utf8) {
                digests += 1
            } else if written.count == 7, written.elementsEqual("\"@type\"".utf8) {
                types += 1
            } else if written.count == 14, written.elementsEqual("\"_attachments\"".utf8) {
                attachments += 1
            } else if (8...80).contains(written.count), written.contains(UInt8(ascii: "\\")) {
                // It may be any of them: with escapes each letter takes up to six.
                (digests, types, attachments) = (digests + 1, types + 1, attachments + 1)
            }
        }
        return attachments > 0 ? digests : min(digests, types)
    }

    /// The least that a blob takes of a body's text.
    public static let leastBytes = 48

    /// The inline blobs of a body that has been read, with their places.
    public static func inline(in root: JSONValue) -> [Located] {
        var located: [Located] = []
        visit(root, pointer: "", skippingAttachments: true) { pointer, object in
            if let reference = BlobReference(object) { located.append(Located(pointer: pointer, reference: reference)) }
        }
        return located
    }

    /// Calls `found` with every object that says `"@type":"blob"`, and its JSON pointer. The root is never one.
    static func visit(_ value: JSONValue, pointer: String, skippingAttachments: Bool, _ found: (String, JSONObject) -> Void) {
        switch value {
        case .array(let items):
            for (index, item) in items.enumerated() where item.isContainer {
                visit(item, pointer: pointer + "/\(index)", skippingAttachments: false, found)
            }
        case .object(let object):
            if !pointer.isEmpty, object["@type"]?.asString == "blob" { found(pointer, object) }
            for member in object.members where member.value.isContainer {
                if skippingAttachments, member.key == "_attachments" { continue }
                visit(member.value, pointer: pointer + "/" + escapePointer(member.key), skippingAttachments: false, found)
            }
        default: break
        }
    }

    static func escapePointer(_ key: String) -> String {
        guard key.utf8.contains(where: { $0 == 0x7E || $0 == 0x2F }) else { return key }
        var text = ""
        for scalar in key.unicodeScalars {
            switch scalar {
            case "~": text += "~0"
            case "/": text += "~1"
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text
    }
}

extension JSONValue {
    fileprivate var isContainer: Bool {
        switch self {
        case .array, .object: true
        default: false
        }
    }
}
