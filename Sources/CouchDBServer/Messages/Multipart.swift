import Documents
import DocumentStore
import Encodings
import HTTPServer
import NIOCore

/// Multipart bodies (RFC 2046) as CouchDB writes and reads them.
enum Multipart {
    /// Whether a client explicitly accepts an answer of this type.
    static func isAccepted(_ request: HTTPRequest, _ type: String) -> Bool {
        request.headers.list("Accept").contains { Substring($0).utf8.prefix { $0 != UInt8(ascii: ";") && $0 != 0x20 }.elementsEqual(type.utf8) }
    }

    /// The boundary of a body of this type; nil for any other.
    static func boundary(_ request: HTTPRequest, _ type: String) -> [UInt8]? { boundary(of: request.headers.first("Content-Type") ?? "", type) }

    static func boundary(of field: String, _ type: String) -> [UInt8]? {
        let parts = field.utf8.split(separator: UInt8(ascii: ";")).map { HeaderList.trim($0) }
        guard let media = parts.first, HeaderList.sameName(String(Substring(media)), type) else { return nil }
        for part in parts.dropFirst() {
            guard let sign = part.firstIndex(of: UInt8(ascii: "=")), HeaderList.sameName(String(Substring(part[..<sign])), "boundary") else { continue }
            var value = part[part.index(after: sign)...]
            if value.first == UInt8(ascii: "\""), value.last == UInt8(ascii: "\""), value.count >= 2 { value = value.dropFirst().dropLast() }
            return value.isEmpty || value.count > 200 ? nil : Array(value)
        }
        return nil
    }

    /// A document followed by the bytes of its attachments.
    static func related(_ text: DocumentText, boundary: String, _ call: CouchCall, headers: HeaderList) -> HTTPResponse {
        .pieces(type: "multipart/related; boundary=\"\(boundary)\"", headers: headers, call.database.blobs, keeping: call.answer) { writer in
            try await write(text, boundary, &writer)
        }
    }

    static func write(_ text: DocumentText, _ boundary: String, _ writer: inout PieceWriter) async throws {
        try await writer.write("--\(boundary)\r\nContent-Type: application/json\r\n\r\n")
        try await writer.write(text.pieces)
        for entry in text.following {
            guard let digest = entry.blob else { continue }
            // The blob's size counts, whatever length the document claims.
            let size = try await writer.blobs.perform { try $0.reader(digest).size }
            try await writer.write(
                "\r\n--\(boundary)\r\nContent-Disposition: attachment; filename=\"\(fileName(entry.name))\"\r\n"
                    + "Content-Type: \(fieldText(entry.contentType))\r\nContent-Length: \(size)\r\n\r\n")
            try await writer.write([.blob(digest)])
        }
        try await writer.write("\r\n--\(boundary)--")
    }

    /// A name must not be able to end the header field that contains it.
    private static func fileName(_ name: String) -> String {
        var out = ""
        for scalar in name.unicodeScalars where scalar.value >= 0x20 && scalar.value != 0x7F {
            if scalar == "\"" || scalar == "\\" { out += "\\" }
            out.unicodeScalars.append(scalar)
        }
        return out
    }

    static func fieldText(_ text: String) -> String {
        HeaderList.isSendable("Content-Type", text) && !text.utf8.isEmpty ? text : "application/octet-stream"
    }
}

/// A multipart body: each part is a document, alone or followed by its attachments, or an error for a document that is not available.
struct MixedParts: Sendable {
    private let outer: String
    private let inner: String

    init(_ call: CouchCall) {
        func boundary() -> String { Hex.encode(call.host.environment.random.bytes(16)) }
        (outer, inner) = (boundary(), boundary())
    }

    func type(_ media: String = "multipart/mixed") -> String { "\(media); boundary=\"\(outer)\"" }

    /// - Parameter fields: additional header fields for the part of a document with attachments, each ending with a line break.
    func write(_ text: DocumentText, fields: String = "", _ writer: inout PieceWriter) async throws {
        guard !text.following.isEmpty else { return try await write(text.pieces, &writer) }
        try await writer.write("--\(outer)\r\n\(fields)Content-Type: multipart/related; boundary=\"\(inner)\"\r\n\r\n")
        try await Multipart.write(text, inner, &writer)
        try await writer.write("\r\n")
    }

    /// Writes a document that is not followed by attachments.
    func write(_ document: [BodyPiece], _ writer: inout PieceWriter) async throws {
        try await writer.write("--\(outer)\r\nContent-Type: application/json\r\n\r\n")
        try await writer.write(document)
        try await writer.write("\r\n")
    }

    func write(error json: [UInt8], _ writer: inout PieceWriter) async throws {
        try await writer.write("--\(outer)\r\nContent-Type: application/json; error=\"true\"\r\n\r\n")
        try await writer.write(json)
        try await writer.write("\r\n")
    }

    func end(_ writer: inout PieceWriter) async throws { try await writer.write("--\(outer)--") }
}

/// Reads the parts of a multipart body as they come, with no more of it in memory than one read of the socket brings.
struct MultipartReader {
    private var pieces: RequestBody.AsyncIterator
    private let delimiter: [UInt8]
    /// Starts as if a line had ended just before the body.
    private var buffer: [UInt8] = Array("\r\n".utf8)
    private var isAtEnd = false
    private var isAtPartStart = false

    init(_ body: RequestBody, boundary: [UInt8]) {
        pieces = body.makeAsyncIterator()
        delimiter = Array("\r\n--".utf8) + boundary
    }

    /// The header of the next part; nil after the last. Skips what is left of the previous part.
    ///
    /// - Throws: ``HTTPError`` 400.
    mutating func nextPart() async throws -> HeaderList? {
        while try await piece() != nil {}
        guard !isAtEnd else { return nil }
        try await fill(delimiter.count + 2)
        buffer.removeFirst(delimiter.count)
        if buffer.starts(with: Array("--".utf8)) {
            isAtEnd = true
            while try await pieces.next() != nil {}
            return nil
        }
        let end = Array("\r\n\r\n".utf8)
        var found = Self.find(end, in: buffer)
        while found == nil {
            guard buffer.count <= CouchLimits.partHeaderBytes else {
                throw HTTPError(
                    413, "the header of a part has more than couchdb_part_header_bytes (\(CouchLimits.partHeaderBytes)) allows",
                    headers: ["Connection": "close"])
            }
            try await readMore()
            found = Self.find(end, in: buffer)
        }
        let header = Array(buffer[..<(found ?? 0)])
        buffer.removeFirst((found ?? 0) + end.count)
        isAtPartStart = true
        return Self.fields(header)
    }

    /// The next bytes of the part; nil at its end.
    mutating func piece() async throws -> [UInt8]? {
        guard !isAtEnd else { return nil }
        if isAtPartStart {
            // In an empty part, the delimiter's leading line break is the one that ends the header.
            try await fill(delimiter.count - 2)
            if buffer.starts(with: delimiter.dropFirst(2)) { buffer.insert(contentsOf: delimiter.prefix(2), at: 0) }
            isAtPartStart = false
        }
        while true {
            if let at = Self.find(delimiter, in: buffer) {
                guard at > 0 else { return nil }
                return take(at)
            }
            if buffer.count >= delimiter.count { return take(buffer.count - delimiter.count + 1) }
            try await readMore()
        }
    }

    private mutating func take(_ count: Int) -> [UInt8] {
        let taken = Array(buffer[..<count])
        buffer.removeFirst(count)
        return taken
    }

    private mutating func fill(_ count: Int) async throws {
        while buffer.count < count { try await readMore() }
    }

    private mutating func readMore() async throws {
        guard let piece = try await pieces.next() else { throw CouchError.badRequest("the multipart body ends before its last boundary") }
        buffer += Array(piece.readableBytesView)
    }

    private static func find(_ wanted: [UInt8], in bytes: [UInt8]) -> Int? {
        guard bytes.count >= wanted.count, let first = wanted.first else { return nil }
        return bytes.withUnsafeBufferPointer { bytes in
            var at = 0
            let last = bytes.count - wanted.count
            while at <= last {
                if bytes[at] == first {
                    var matched = 1
                    while matched < wanted.count, bytes[at + matched] == wanted[matched] { matched += 1 }
                    if matched == wanted.count { return at }
                }
                at += 1
            }
            return nil
        }
    }

    private static func fields(_ header: [UInt8]) -> HeaderList {
        var fields = HeaderList()
        for line in String(decoding: header, as: UTF8.self).utf8.split(whereSeparator: { $0 == 0x0D || $0 == 0x0A }) {
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { continue }
            fields.add(
                String(Substring(HeaderList.trim(line[..<colon]))), String(Substring(HeaderList.trim(line[line.index(after: colon)...]))))
        }
        return fields
    }
}
