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
                while let batch = splitter.take(500, isEnd: false) { try await importLines(batch, counts: &counts) }
            }
            while let batch = splitter.take(500, isEnd: true) { try await importLines(batch, counts: &counts) }
            return counts
        } catch let error as HTTPError {
            throw HTTPError(error.status, Self.cutShort(counts, error.reason))
        } catch let error as StoreError {
            throw AgentError(error.kind, Self.cutShort(counts, "\(error)"))
        }
    }

    private static func cutShort(_ counts: ImportCounts, _ why: String) -> String {
        let done = "\(counts.saved) saved, \(counts.unchanged) unchanged, \(Plural.count(counts.conflicts, "conflict")), \(counts.failed) failed"
        let again = counts.source == nil ? "" : ", or import the whole file again: what is stored stays as it is"
        return "\(why); the import ended after line \(counts.lines): \(done); go on with line \(counts.lines + 1)\(again)"
    }
}
