import Documents
import HTTPServer
import NIOCore
import Synchronization

/// Streams an array as it is produced, one row per line, at the client's pace: an array of any length is sent completely, with little of
/// it in memory.
final class RowWriter: Sendable {
    private let body: ResponseBodyWriter
    private let isFirst = Mutex(true)

    fileprivate init(_ body: ResponseBodyWriter) { self.body = body }

    func write(_ rows: [JSONValue]) async throws {
        var buffer = ByteBuffer()
        for row in rows {
            let wasFirst = isFirst.withLock { isFirst in
                defer { isFirst = false }
                return isFirst
            }
            buffer.writeString(wasFirst ? "[\n" : ",\n")
            buffer.writeBytes(row.serialize())
        }
        if buffer.readableBytes > 0 { try await body.write(buffer) }
    }

    fileprivate func finish() async throws {
        try await body.write(ByteBuffer(string: isFirst.withLock { $0 } ? "[]\n" : "\n]\n"))
    }
}

extension Answer {
    /// An array of everything that `produce` writes.
    static func rows(_ produce: @escaping @Sendable (RowWriter) async throws -> Void) -> HTTPResponse {
        .stream(headers: ["Content-Type": "application/json"]) { body in
            let rows = RowWriter(body)
            try await produce(rows)
            try await rows.finish()
        }
    }
}
