import Documents
import DocumentStore
import Glibc
import NIOCore

/// Documents as JSON Lines.
package enum DocumentLines {
    /// Appends the document as one line; line breaks in its body are removed.
    package static func append(_ row: ChangeRow, purgeTime: Int64? = nil, collection: CollectionName? = nil, to buffer: inout ByteBuffer) {
        var json = DocumentAccess.json(
            id: row.id, revision: row.revision, isDeleted: row.isDeleted, body: row.body ?? [], purgeTime: purgeTime, collection: collection)
        json.withUnsafeMutableBytes { bytes in
            guard let base = bytes.baseAddress else { return }
            // JSON may contain line breaks only outside of strings; inside they are escaped.
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

    /// The number of line ends in the buffer.
    package static func count(_ buffer: ByteBuffer) -> Int {
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
    package static func summary(_ row: ChangeRow) -> JSONValue {
        JSONOutput.object([
            "id": .string(row.id.text), "rev": .string(row.revision.text), "deleted": .bool(row.isDeleted),
            "sequence": JSONOutput.number(row.sequence),
        ])
    }
}

/// One line of an import.
package enum ImportedLine: Sendable, Equatable {
    case text([UInt8])
    /// The line was longer than ``LineSplitter/maximumLine``; its bytes were discarded.
    case tooLong
}

/// Splits a stream of bytes into lines. A line that is too long is discarded; the others are not affected.
package struct LineSplitter: Sendable {
    /// `max_import_line`: bytes in one line; enough for the largest document and its metadata.
    package static let maximumLine = StoreLimits.maxBodyBytes + 4096
    /// With more bytes waiting than this, lines are returned even if they do not fill a batch.
    static let batchBytes = 8 << 20

    private struct End {
        /// The position of the line break.
        var at: Int
        var isTooLong: Bool
    }

    private var bytes: [UInt8] = []
    /// Where the first line begins that has not been returned.
    private var start = 0
    /// The ends of complete lines. Each byte is examined only once.
    private var ends: [End] = []
    private var nextEnd = 0
    /// The incomplete line is already too long.
    private var isSkipping = false

    package init() {}

    package mutating func append(_ more: some Swift.Collection<UInt8>) {
        if start > 1 << 20, start > bytes.count / 2 {
            bytes.removeFirst(start)
            ends = ends[nextEnd...].map { End(at: $0.at - start, isTooLong: $0.isTooLong) }
            nextEnd = 0
            start = 0
        }
        var old = bytes.count
        bytes.append(contentsOf: more)
        if isSkipping {
            let lineBreak = bytes[old...].firstIndex(of: UInt8(ascii: "\n"))
            bytes.removeSubrange(old..<(lineBreak ?? bytes.count))
            guard lineBreak != nil else { return }
            isSkipping = false
            ends.append(End(at: old, isTooLong: true))
            old += 1
        }
        bytes.withUnsafeBytes { buffer in
            guard let base = buffer.baseAddress else { return }
            var at = old
            while at < buffer.count, let found = memchr(base + at, Int32(UInt8(ascii: "\n")), buffer.count - at) {
                at = base.distance(to: found)
                ends.append(End(at: at, isTooLong: false))
                at += 1
            }
        }
        let open = nextEnd < ends.count ? ends[ends.count - 1].at + 1 : start
        guard bytes.count - open > Self.maximumLine else { return }
        bytes.removeSubrange(open...)
        isSkipping = true
    }

    /// Up to `limit` lines. Before the end of the stream, only full batches are returned; nil if there is nothing to return.
    package mutating func take(_ limit: Int, isEnd: Bool) -> [ImportedLine]? {
        guard isEnd || ends.count - nextEnd >= limit || bytes.count - start > Self.batchBytes else { return nil }
        var lines: [ImportedLine] = []
        while lines.count < limit, nextEnd < ends.count { lines.append(next()) }
        guard isEnd, lines.count < limit else { return lines.isEmpty ? nil : lines }
        if isSkipping {
            isSkipping = false
            lines.append(.tooLong)
        } else if start < bytes.count {
            lines.append(.text(Array(bytes[start...])))
            start = bytes.count
        }
        return lines.isEmpty ? nil : lines
    }

    /// All complete lines.
    ///
    /// - Throws: ``AgentError`` if one was too long.
    package mutating func takeAll() throws(AgentError) -> [[UInt8]] {
        var lines: [[UInt8]] = []
        lines.reserveCapacity(ends.count - nextEnd)
        while nextEnd < ends.count {
            guard case .text(let line) = next() else { throw Self.tooLong }
            lines.append(line)
        }
        guard !isSkipping else { throw Self.tooLong }
        return lines
    }

    package static var tooLong: AgentError { AgentError(.tooLarge, "it is longer than max_import_line (\(maximumLine) bytes)") }

    private mutating func next() -> ImportedLine {
        let end = ends[nextEnd]
        let line: ImportedLine = end.isTooLong ? .tooLong : .text(Array(bytes[start..<end.at]))
        start = end.at + 1
        nextEnd += 1
        return line
    }
}

extension DocumentAccess.ImportCounts {
    package var json: JSONValue {
        JSONOutput.object([
            "lines": JSONOutput.number(lines), "saved": JSONOutput.number(saved), "unchanged": JSONOutput.number(unchanged),
            "conflicts": JSONOutput.number(conflicts), "failed": JSONOutput.number(failed),
            "problems": .array(problems.map { .string($0) }), "more_problems": JSONOutput.number(moreProblems),
        ])
    }

    /// Adds the counts of a later part of the same import.
    package mutating func add(_ part: Self) {
        lines = part.lines
        saved += part.saved
        unchanged += part.unchanged
        conflicts += part.conflicts
        failed += part.failed
        problems += part.problems.prefix(max(0, Self.problemsKept - problems.count))
    }

    /// Counts the next line as too long.
    package mutating func failLongLine() {
        lines += 1
        failed += 1
        note(lines, "\(LineSplitter.tooLong)")
    }

    /// Reads the admin API's answer.
    package init(_ json: JSONValue) {
        self.init()
        func count(_ key: String) -> Int { json[key]?.asInt64.flatMap { Int(exactly: $0) } ?? 0 }
        lines = count("lines")
        saved = count("saved")
        unchanged = count("unchanged")
        conflicts = count("conflicts")
        failed = count("failed")
        problems = json["problems"]?.asArray?.compactMap(\.asString) ?? []
    }
}
