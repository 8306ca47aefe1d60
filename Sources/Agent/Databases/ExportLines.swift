import Documents
import DocumentStore
import NIOCore
import Synchronization

extension DocumentAccess {
    /// Exports every document of the collection as a line, in the order of their last change, and reports unreadable parts, which do not end the
    /// export.
    ///
    /// - Parameter namesCollection: whether each line names its collection.
    package func export(
        includesDeleted: Bool, namesCollection: Bool = false, _ write: (ByteBuffer) async throws -> Void, unreadable: (UnreadablePart) async throws -> Void
    ) async throws {
        var since: SequenceNumber? = 0
        while let start = since {
            let (page, times) = try await database.read { [collection] transaction -> (SalvagedPage, [DocumentID: Int64]) in
                let page = try transaction.salvage(collection, since: start, limit: 500, includeDeleted: includesDeleted)
                // Few databases have documents that expire.
                guard try transaction.nextPurgeTime() != nil else { return (page, [:]) }
                var times: [DocumentID: Int64] = [:]
                for row in page.rows { times[row.id] = try transaction.purgeTime(collection, row.id) }
                return (page, times)
            }
            since = page.next
            var buffer = ByteBuffer()
            for row in page.rows { DocumentLines.append(row, purgeTime: times[row.id], collection: namesCollection ? collection.name : nil, to: &buffer) }
            if buffer.readableBytes > 0 { try await write(buffer) }
            for part in page.unreadable { try await unreadable(part) }
        }
    }
}

extension UnreadablePart {
    /// For people.
    package var text: String {
        let count = sequences.upperBound - sequences.lowerBound + 1
        let place = count == 1 ? "at sequence \(sequences.lowerBound)" : "at sequences \(sequences.lowerBound) to \(sequences.upperBound)"
        let what = id.map { "document \(JSONValue.string($0).text)" } ?? (count == 1 ? "a document" : "up to \(count) documents")
        return "\(what) \(place) cannot be read: \(detail)"
    }

    var json: JSONValue {
        JSONOutput.object([
            "sequences": .array([JSONOutput.number(sequences.lowerBound), JSONOutput.number(sequences.upperBound)]), "id": id.map { .string($0) } ?? .null,
            "reason": .string(detail), "message": .string(text),
        ])
    }
}

/// The export of a running agent: lines of documents; if some could not be read, lines that name those; and a last line that marks the end of an
/// incomplete export.
package enum ExportLines {
    /// A line that names an unreadable part.
    static func unreadable(_ part: UnreadablePart) -> ByteBuffer { line(JSONOutput.object(["_unreadable": part.json])) }

    /// The last line of an incomplete export.
    static func end(unreadable: Int) -> ByteBuffer {
        line(JSONOutput.object(["_end": JSONOutput.object(["unreadable": JSONOutput.number(unreadable)])]))
    }

    private static func line(_ value: JSONValue) -> ByteBuffer { ByteBuffer(bytes: value.serialize() + [UInt8(ascii: "\n")]) }

    /// Separates document lines from message lines.
    package final class Sorter: Sendable {
        private struct State {
            /// The beginning of a line, until enough of it has arrived to tell its kind.
            var held: [UInt8] = []
            var isAtStart = true
            var isDocument = true
            var other: [UInt8] = []
        }

        private let state = Mutex(State())

        package init() {}

        /// - Returns: the documents in the piece, and the messages of other lines that are complete; nil marks the end of the export.
        package func take(_ piece: ByteBuffer) -> (documents: ByteBuffer, messages: [String?]) {
            state.withLock { state in
                let bytes = state.held + Array(piece.readableBytesView)
                state.held = []
                var documents = ByteBuffer()
                var messages: [String?] = []
                var at = 0
                while at < bytes.count {
                    if state.isAtStart {
                        // Only a document begins with `{"_id":`.
                        guard bytes.count - at >= 4 else {
                            state.held = Array(bytes[at...])
                            break
                        }
                        (state.isAtStart, state.isDocument) = (false, bytes[at + 3] == UInt8(ascii: "i"))
                    }
                    let end = bytes[at...].firstIndex(of: UInt8(ascii: "\n"))
                    let part = bytes[at..<(end.map { $0 + 1 } ?? bytes.count)]
                    if state.isDocument {
                        documents.writeBytes(part)
                    } else {
                        state.other += part
                        if end != nil {
                            messages.append(Self.message(state.other))
                            state.other = []
                        }
                    }
                    state.isAtStart = end != nil
                    at = part.endIndex
                }
                return (documents, messages)
            }
        }

        private static func message(_ line: [UInt8]) -> String? {
            guard let value = try? JSONValue(parsing: line) else { return "the export has a line that is not JSON" }
            if value["_end"] != nil { return nil }
            return value["_unreadable"]?["message"]?.asString ?? "the export has a line that is not a document: \(value.text.prefix(200))"
        }
    }
}
