import Documents
import DocumentStore
import Encodings
import HTTPServer
import NIOCore

extension DocumentAccess {
    /// Imports JSON Lines as they arrive, in batches. The counts of a failed batch are not reported: its transaction was rolled back.
    ///
    /// - Parameter lines: the number of lines of the same import that were stored earlier.
    /// - Throws: what ended it early, together with what was stored until then and how to continue.
    package func importAll(source: String?, after lines: Int = 0, _ next: () async throws -> ByteBuffer?) async throws -> ImportCounts {
        var counts = ImportCounts(source: source, after: lines)
        var splitter = LineSplitter()
        do {
            while let piece = try await next() {
                splitter.append(piece.readableBytesView)
                while let batch = splitter.take(500, isEnd: false) { try await importBatch(batch, counts: &counts) }
            }
            while let batch = splitter.take(500, isEnd: true) { try await importBatch(batch, counts: &counts) }
            return counts
        } catch let error as HTTPError {
            throw HTTPError(error.status, Self.cutShort(counts, error.reason))
        } catch let error as StoreError {
            throw AgentError(error.kind, Self.cutShort(counts, "\(error)"))
        }
    }

    /// Imports a batch; where the room ends in it, what comes before is stored.
    private func importBatch(_ batch: [ImportedLine], counts: inout ImportCounts) async throws {
        let before = counts.lines
        do { try await importLines(batch, counts: &counts) } catch let error as StoreError {
            guard case .diskFull = error else { throw error }
            let left = batch.dropFirst(counts.lines - before)
            guard left.count > 1 else { throw error }
            let half = left.startIndex + left.count / 2
            try await importBatch(Array(left[..<half]), counts: &counts)
            try await importBatch(Array(left[half...]), counts: &counts)
        }
    }

    private static func cutShort(_ counts: ImportCounts, _ why: String) -> String {
        let done = "\(counts.saved) saved, \(counts.unchanged) unchanged, \(Plural.count(counts.conflicts, "conflict")), \(counts.failed) failed"
        let again = counts.source == nil ? "" : ", or import the whole file again: what is stored stays as it is"
        return "\(why); the import ended after line \(counts.lines): \(done); go on with line \(counts.lines + 1)\(again)"
    }
}
