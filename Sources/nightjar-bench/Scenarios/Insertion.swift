import Documents
import DocumentStore

/// Writes documents in batches of 500, each batch a durable transaction: through the store, and with SQLite alone.
enum Insertion {
    static let batch = 500
    /// As long as the id that the store writes for a first revision.
    private static let revision: StaticString = "1-0123456789abcdef0123456789abcdef01234567"

    static func raw(_ readings: [Reading], folder: String) throws -> Cost {
        try Files.makeFolder(folder)
        defer { Files.remove(folder) }
        let raw = try RawSQLite(path: "\(folder)/raw.sqlite3", cacheBytes: DatabaseOptions().writerCacheBytes)
        defer { raw.close() }
        let start = Stopwatch()
        for first in stride(from: 0, to: readings.count, by: batch) {
            try raw.insert(readings[first..<min(first + batch, readings.count)], revision: revision)
        }
        return start.cost
    }

    /// Leaves the closed database in `folder`.
    static func store(_ readings: [Reading], folder: String) async throws -> Cost {
        let database = try Database.open(folder: folder, name: "gateway")
        defer { database.close() }
        let start = Stopwatch()
        try await save(readings, in: database)
        return start.cost
    }

    static func save(_ readings: [Reading], in database: Database, batch: Int = Insertion.batch) async throws {
        guard let collection = database.collection(.default) else { throw BenchError("no default collection") }
        for first in stride(from: 0, to: readings.count, by: batch) {
            let some = readings[first..<min(first + batch, readings.count)]
            try await database.write { transaction in
                for reading in some {
                    try transaction.save(collection, id: try DocumentID(reading.id), body: reading.body, parent: nil)
                }
            }
        }
    }
}
