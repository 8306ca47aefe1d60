import Documents
import DocumentStore
import Encodings
import HTTPServer
import NIOCore
import Selectors

/// Sends an answer in pieces, at the client's pace; small pieces are combined.
struct PieceWriter {
    let writer: ResponseBodyWriter
    let blobs: BlobStore
    private var gathered = ByteBuffer()
    private let gzip: Gzip?
    private let answer: AnswerMemory.Answer?

    /// - Parameter answer: is told what the client has taken.
    init(_ writer: ResponseBodyWriter, _ blobs: BlobStore, gzip: Gzip? = nil, paying answer: AnswerMemory.Answer? = nil) {
        (self.writer, self.blobs, self.gzip, self.answer) = (writer, blobs, gzip, answer)
    }

    mutating func write(_ bytes: some Sequence<UInt8>) async throws {
        gathered.writeBytes(bytes)
        if gathered.readableBytes >= 32 << 10 { try await flush() }
    }

    mutating func write(_ text: String) async throws { try await write(text.utf8) }

    mutating func write(_ pieces: [BodyPiece]) async throws {
        for piece in pieces {
            switch piece {
            case .bytes(let bytes): try await write(sliced: bytes)
            case .base64(let digest):
                try await forEachPiece(of: digest) { writer, bytes in try await writer.write(Base64.encode(bytes).utf8) }
            case .blob(let digest):
                try await forEachPiece(of: digest) { writer, bytes in try await writer.write(bytes) }
            }
        }
    }

    /// In slices, so that no more is copied at a time than a connection buffers.
    private mutating func write(sliced bytes: [UInt8]) async throws {
        var at = 0
        while at < bytes.count {
            let end = min(at + CouchLimits.sliceBytes, bytes.count)
            try await write(bytes[at..<end])
            at = end
        }
    }

    /// After the answer has begun, ends a list and its enclosing object with an error.
    mutating func write(inPlaceOfTheRest error: SelectorError) async throws { try await write("\n],\n\(Self.members(error))}\n") }

    /// The members by which CouchDB reports an error.
    static func members(_ error: SelectorError) -> String {
        "\"error\":\(JSONValue.string(error.word).text),\"reason\":\(JSONValue.string(error.reason).text)"
    }

    /// Sends what has been collected.
    mutating func flush() async throws {
        guard gathered.readableBytes > 0 else { return }
        let piece = gathered
        gathered = ByteBuffer()
        if let gzip {
            try await writer.write(ByteBuffer(bytes: gzip.pack(Array(piece.readableBytesView))))
        } else {
            try await writer.write(piece)
        }
        // Writing waits for a client whose connection's buffers are full.
        answer?.notePaid(piece.readableBytes)
    }

    /// Ends the answer.
    mutating func finish() async throws {
        try await flush()
        if let gzip { try await writer.write(ByteBuffer(bytes: gzip.pack([], isLast: true))) }
    }

    /// If a blob was altered or removed after it was verified, the answer is cut short, which tells the client that it is incomplete.
    mutating func forEachPiece(
        of digest: BlobDigest, from start: UInt64 = 0, count: UInt64 = .max, _ body: (inout PieceWriter, [UInt8]) async throws -> Void
    ) async throws {
        let reader = try await blobs.perform { try $0.reader(digest) }
        var at = start
        let end = count > reader.size - min(start, reader.size) ? reader.size : start + count
        while at < end {
            let (offset, wanted) = (at, Int(min(UInt64(CouchLimits.pieceBytes), end - at)))
            let bytes = try await blobs.perform { _ in try reader.read(offset: offset, count: wanted) }
            guard !bytes.isEmpty else { return }
            at += UInt64(bytes.count)
            try await body(&self, bytes)
        }
    }
}

extension HTTPResponse {
    /// An answer that is written piece by piece.
    ///
    /// - Parameters:
    ///   - packing: nil to send it uncompressed.
    ///   - answer: memory held for it. It counts until the client's socket has taken everything.
    static func pieces(
        status: Int = 200, type: String = "application/json", headers: HeaderList = [:], length: Int? = nil, _ blobs: BlobStore, packing: AnswerMemory? = nil,
        keeping answer: AnswerMemory.Answer? = nil,
        _ produce: @escaping @Sendable (inout PieceWriter) async throws -> Void
    ) -> HTTPResponse {
        var headers = headers
        headers.set("Content-Type", type)
        // Without memory for compression, the answer is sent uncompressed.
        let packer = packing?.packer()
        if packer != nil { headers.set("Content-Encoding", "gzip") }
        if packing != nil { headers.add("Vary", "Accept-Encoding") }
        return .stream(status: status, headers: headers, length: length) { writer in
            var pieces = PieceWriter(writer, blobs, gzip: packer, paying: answer)
            try await produce(&pieces)
            try await pieces.finish()
            withExtendedLifetime(answer) {}
        }
    }

    /// A small JSON answer.
    static func couch(_ status: Int = 200, _ text: JSONWriter, headers: HeaderList = [:]) -> HTTPResponse {
        .json(status: status, ByteBuffer(bytes: text.bytes + [0x0A]), headers: headers)
    }

    /// A JSON answer that may be large, whose memory counts until the client has received it.
    static func couch(_ text: JSONWriter, headers: HeaderList = [:], _ blobs: BlobStore, keeping answer: AnswerMemory.Answer) -> HTTPResponse {
        let bytes = text.bytes
        guard bytes.count > CouchLimits.smallAnswer else { return .couch(200, text, headers: headers) }
        answer.hold(bytes.count)
        return .pieces(headers: headers, length: bytes.count + 1, blobs, keeping: answer) { writer in
            try await writer.write([.bytes(bytes)])
            try await writer.write("\n")
        }
    }

    static func couch(_ status: Int = 200, _ value: JSONValue, headers: HeaderList = [:]) -> HTTPResponse {
        .json(status: status, ByteBuffer(bytes: value.serialize() + [0x0A]), headers: headers)
    }
}
