import Documents
import DocumentStore

extension DocumentAccess {
    /// `max_found`: the most rows that one request may ask for.
    static let maximumFound = 1_000
    /// `max_find_scan`: documents that one request examines; the next request continues after them.
    static let maximumScan = 50_000

    /// Documents whose ids begin with a prefix, in the order of their last change.
    ///
    /// - Returns: `next` is where the following request continues; nil at the end.
    func find(
        prefix: String, since: SequenceNumber, limit: Int, includesDeleted: Bool
    ) async throws -> (rows: [ChangeRow], next: SequenceNumber?) {
        var (rows, since, looked): ([ChangeRow], SequenceNumber, Int) = ([], since, 0)
        while looked < Self.maximumScan {
            let page = try await page(since: since, limit: 1_000, includesDeleted: includesDeleted, includesBodies: false)
            if page.isEmpty { return (rows, nil) }
            for row in page {
                since = row.sequence
                looked += 1
                guard row.id.text.utf8.starts(with: prefix.utf8) else { continue }
                rows.append(row)
                if rows.count >= limit { return (rows, since) }
            }
        }
        return (rows, since)
    }
}
