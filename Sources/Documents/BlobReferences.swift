import Encodings

/// What a body says about one blob.
public struct BlobReference: Sendable, Equatable {
    public let digest: BlobDigest
    /// The blob's size in bytes, if the body says so; for gzip, that of the unpacked content.
    public let length: UInt64?
    /// The size that the blob must have; nil if the body does not say.
    public private(set) var claimedSize: UInt64?
    /// The body gives a number that is no size, or gives this blob several sizes.
    public private(set) var hasFalseLength = false
    public let contentType: String?
    /// The encoding of the content, such as `gzip`.
    public let encoding: String?

    public init(digest: BlobDigest, length: UInt64?, contentType: String?, encoding: String? = nil) {
        self.digest = digest
        self.length = length
        self.contentType = contentType
        self.encoding = encoding
        claimedSize = encoding == "gzip" ? nil : length
    }

    /// Reads a blob's object or an entry of `_attachments`; nil without a valid digest.
    init?(_ object: JSONObject) {
        guard let text = object["digest"]?.asString, let digest = try? BlobDigest(text) else { return nil }
        self.init(digest, length: object["length"], contentType: object["content_type"], encoding: object["encoding"])
    }

    init(_ digest: BlobDigest, length: JSONValue?, contentType: JSONValue?, encoding: JSONValue?) {
        self.init(digest: digest, length: length?.asUInt64, contentType: contentType?.asString, encoding: encoding?.asString)
        if case .number? = length, self.length == nil { hasFalseLength = true }
    }

    /// Includes what another object says about the same blob.
    mutating func add(_ other: BlobReference) {
        if other.hasFalseLength || other.claimedSize != nil && claimedSize != nil && other.claimedSize != claimedSize { hasFalseLength = true }
        claimedSize = claimedSize ?? other.claimedSize
    }

    /// Why the body is refused for what it says about this blob's length, whatever the blob contains; nil if that may be true.
    package var falseLengthReason: String? {
        hasFalseLength ? "the document gives the blob \(digest) a length that no blob has, or several lengths" : nil
    }

    /// Why the body is refused if the blob has this size; nil if it says so, or says nothing.
    package func wrongLengthReason(size: UInt64) -> String? {
        guard let claimedSize, claimedSize != size else { return nil }
        return Self.wrongLengthReason(digest, "\(size) bytes", claimed: claimedSize)
    }

    /// - Parameter size: in words: of a blob that is still arriving, only a minimum is known.
    package static func wrongLengthReason(_ digest: BlobDigest, _ size: String, claimed: UInt64) -> String {
        "the blob \(digest) has \(size), and its document says \(claimed)"
    }

    /// Whether compressing it for transfer is likely to pay off (Core's rule, replication.md section 10).
    public var isCompressible: Bool {
        guard encoding == nil, let type = contentType?.lowercased() else { return false }
        if ["image/", "audio/", "video/"].contains(where: { type.hasPrefix($0) }) { return false }
        return !["zip", "zlib", "pkcs", "mpeg", "mp4", "crypt", ".rar", "-rar"].contains { type.holds($0) }
    }
}

/// The blobs a body refers to.
public enum BlobReferences {
    /// An inline blob and its position.
    public struct Located: Sendable, Equatable {
        /// JSON pointer (RFC 6901) from the body's root.
        public let pointer: String
        public let reference: BlobReference
    }

    /// Inline `{"@type":"blob",…}` objects anywhere, then entries of a top-level `_attachments`; each digest once. Entries without a valid digest are
    /// ordinary data and are skipped. Passing a known `scan` saves a pass.
    public static func find(in body: [UInt8], scan: DocumentScan? = nil) throws(JSONError) -> [BlobReference] {
        let found = try JSONScanner.scanDocument(stored: body, known: scan)
        guard found.mayHoldBlobs else { return [] }
        return try body.withRawBytes { (raw) throws(JSONError) in
            // A scan from the caller means that the text was checked, and the search relies on that.
            if scan != nil { try JSONScanner.checkValue(raw, keysMayRepeat: true) }
            return BlobSearch.references(in: raw)
        }
    }

    /// An upper bound of the number of blobs in any text: objects with a digest that declare themselves blobs, or are among attachments. Allocates
    /// nothing.
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
                // It may be any of them: escaped, each letter takes up to six bytes.
                (digests, types, attachments) = (digests + 1, types + 1, attachments + 1)
            }
        }
        return attachments > 0 ? digests : min(digests, types)
    }

    /// The minimum number of bytes that a blob takes in a body's text.
    public static let leastBytes = 48

    /// The inline blobs of a parsed body, with their positions.
    public static func inline(in root: JSONValue) -> [Located] {
        var located: [Located] = []
        visit(root, pointer: "", skippingAttachments: true) { pointer, object in
            if let reference = BlobReference(object) { located.append(Located(pointer: pointer, reference: reference)) }
        }
        return located
    }

    /// Calls `found` with every object that contains `"@type":"blob"`, and its JSON pointer. The root never counts as one.
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
