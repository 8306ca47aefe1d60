import Documents
import DocumentStore
import Glibc
import NIOCore

/// Documents as lines of JSON.
public enum DocumentLines {
    /// The document as one line, its body's line breaks taken out.
    public static func append(_ row: ChangeRow, to buffer: inout ByteBuffer) {
        var json = DocumentAccess.json(id: row.id, revision: row.revision, isDeleted: row.isDeleted, body: row.body ?? [])
        json.withUnsafeMutableBytes { bytes in
            guard let base = bytes.baseAddress else { return }
            // Outside of strings JSON may have line breaks; inside they are escaped.
            for lineBreak in [UInt8(ascii: "\n"), UInt8(ascii: "\r")] {
                var at = 0
                while at < bytes.count, let found = memchr(base + at, Int32(lineBreak), bytes.count - at) {
                    found.storeBytes(of: UInt8(ascii: " "), as: UInt8.self)
                    at = base.distance(to: found) + 1
                }
            }
        }
        buffer.writeBytes(json)
        buffer.writeInteger(UInt8(ascii: "\n"))
    }

    /// How many lines end in the buffer.
    public static func count(_ buffer: ByteBuffer) -> Int {
        buffer.withUnsafeReadableBytes { bytes in
            guard let base = bytes.baseAddress else { return 0 }
            var count = 0
            var at = 0
            while at < bytes.count, let found = memchr(base + at, Int32(UInt8(ascii: "\n")), bytes.count - at) {
                count += 1
                at = base.distance(to: UnsafeRawPointer(found)) + 1
            }
            return count
        }
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
    /// With more than this waiting, lines are given although they do not fill a batch.
    static let batchBytes = 8 << 20

    private var bytes: [UInt8] = []
    /// Where the first line begins that has not been given.
    private var start = 0
    /// Where its line break is, and the following ones. Each byte is looked at once.
    private var breaks: [Int] = []
    private var nextBreak = 0

    public init() {}

    public mutating func append(_ more: some Swift.Collection<UInt8>) throws(AgentError) {
        if start > 1 << 20, start > bytes.count / 2 {
            bytes.removeFirst(start)
            breaks = breaks[nextBreak...].map { $0 - start }
            nextBreak = 0
            start = 0
        }
        let old = bytes.count
        bytes.append(contentsOf: more)
        bytes.withUnsafeBytes { buffer in
            guard let base = buffer.baseAddress else { return }
            var at = old
            while at < buffer.count, let found = memchr(base + at, Int32(UInt8(ascii: "\n")), buffer.count - at) {
                at = base.distance(to: UnsafeRawPointer(found))
                breaks.append(at)
                at += 1
            }
        }
        let open = bytes.count - (nextBreak < breaks.count ? breaks[breaks.count - 1] + 1 : start)
        guard open <= Self.maximumLine else {
            throw AgentError(.invalid, "a line is longer than max_import_line (\(Self.maximumLine) bytes)")
        }
    }

    /// Up to `limit` lines. Before the end only whole batches are given; nil when there is nothing to give.
    public mutating func take(_ limit: Int, isEnd: Bool) -> [[UInt8]]? {
        guard isEnd || breaks.count - nextBreak >= limit || bytes.count - start > Self.batchBytes else { return nil }
        var lines: [[UInt8]] = []
        while lines.count < limit, nextBreak < breaks.count {
            lines.append(Array(bytes[start..<breaks[nextBreak]]))
            start = breaks[nextBreak] + 1
            nextBreak += 1
        }
        if isEnd, lines.count < limit, start < bytes.count {
            lines.append(Array(bytes[start...]))
            start = bytes.count
        }
        return lines.isEmpty ? nil : lines
    }

    /// Every line that is complete.
    package mutating func takeAll() -> [[UInt8]] {
        let count = breaks.count - nextBreak
        var lines: [[UInt8]] = []
        lines.reserveCapacity(count)
        while nextBreak < breaks.count {
            lines.append(Array(bytes[start..<breaks[nextBreak]]))
            start = breaks[nextBreak] + 1
            nextBreak += 1
        }
        return lines
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

    /// As the admin API answers it.
    package init(_ json: JSONValue) {
        func count(_ key: String) -> Int { json[key]?.asInt64.flatMap { Int(exactly: $0) } ?? 0 }
        lines = count("lines")
        saved = count("saved")
        unchanged = count("unchanged")
        conflicts = count("conflicts")
        failed = count("failed")
        problems = json["problems"]?.asArray?.compactMap(\.asString) ?? []
    }
}
