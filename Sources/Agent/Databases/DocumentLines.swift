import Documents
import DocumentStore
import NIOCore

/// Documents as lines of JSON.
public enum DocumentLines {
    /// The document as one line, its body's line breaks taken out.
    public static func append(_ row: ChangeRow, to buffer: inout ByteBuffer) {
        let json = DocumentAccess.json(id: row.id, revision: row.revision, isDeleted: row.isDeleted, body: row.body ?? [])
        if json.contains(where: { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }) {
            // Outside of strings JSON may have line breaks; inside they are escaped.
            buffer.writeBytes(json.map { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") ? UInt8(ascii: " ") : $0 })
        } else {
            buffer.writeBytes(json)
        }
        buffer.writeInteger(UInt8(ascii: "\n"))
    }

    /// What `doc list` shows of a document.
    public static func summary(_ row: ChangeRow) -> JSONValue {
        JSONOutput.object([
            "id": .string(row.id.text), "rev": .string(row.revision.text), "deleted": .bool(row.isDeleted),
            "sequence": JSONOutput.number(row.sequence),
        ])
    }
}

/// Cuts a stream of bytes into lines.
public struct LineSplitter: Sendable {
    /// `max_import_line`: bytes of one line, the largest document and room for its ids.
    public static let maximumLine = StoreLimits.maxBodyBytes + 4096

    private var bytes: [UInt8] = []
    private var start = 0
    /// Up to here there is no line break; saves looking again.
    private var searched = 0

    public init() {}

    public mutating func append(_ more: some Swift.Collection<UInt8>) throws(AgentError) {
        if start > 1 << 20 {
            bytes.removeFirst(start)
            searched -= start
            start = 0
        }
        guard bytes.count - start + more.count <= Self.maximumLine * 2 else {
            throw AgentError(.invalid, "a line is longer than max_import_line (\(Self.maximumLine) bytes)")
        }
        bytes.append(contentsOf: more)
    }

    /// Up to `limit` lines. Before the end only whole batches are given; nil when there is nothing to give.
    public mutating func take(_ limit: Int, isEnd: Bool) -> [[UInt8]]? {
        var lines: [[UInt8]] = []
        var at = start
        var look = max(searched, start)
        while lines.count < limit, let newline = bytes[look...].firstIndex(of: UInt8(ascii: "\n")) {
            lines.append(Array(bytes[at..<newline]))
            at = newline + 1
            look = at
        }
        if lines.count < limit {
            guard isEnd || bytes.count - start > 8 << 20 else { return nil }
            if isEnd, at < bytes.count {
                lines.append(Array(bytes[at...]))
                at = bytes.count
            }
        }
        start = at
        searched = at
        return lines.isEmpty ? nil : lines
    }
}

extension DocumentAccess.ImportCounts {
    public var json: JSONValue {
        JSONOutput.object([
            "lines": JSONOutput.number(lines), "saved": JSONOutput.number(saved), "unchanged": JSONOutput.number(unchanged),
            "conflicts": JSONOutput.number(conflicts), "failed": JSONOutput.number(failed),
            "problems": .array(problems.map { .string($0) }),
        ])
    }
}
