import Documents
import DocumentStore
import Selectors

/// Queries on two fields with an index, compared with raw SQLite with an index on `json_extract` of the same bodies; full scans, compared with raw
/// SQLite's; and what the index costs writes.
struct FindScenario {
    var documents = 100_000
    var queries = 2_000
    var rounds = 5

    private static let limit = 25

    func run(_ scratch: Scratch) async throws -> Report {
        let readings = Readings().make(from: 0, count: documents)
        var (indexed, rawIndexed, scanned, rawScanned, plain, withIndex, examined): ([Double], [Double], [Double], [Double], [Double], [Double], [Double]) =
            ([], [], [], [], [], [], [])
        let definition = try IndexDefinition(["fields": ["site", "value"]])
        for round in 0..<rounds {
            let folder = "\(scratch.path)/find-\(round)"
            try Files.makeFolder(folder)
            defer { Files.remove(folder) }
            plain.append(Double(documents) / (try await Insertion.store(readings, folder: "\(folder)/plain.nightjar")).seconds)

            let database = try Database.open(folder: "\(folder)/indexed.nightjar", name: "gateway")
            defer { database.close() }
            guard let collection = database.collection(.default) else { throw BenchError("no default collection") }
            _ = try await database.write { try $0.createIndex(collection, design: "_design/bench", name: "site", definition) }
            try await database.maintainIndexes()
            let start = Stopwatch()
            try await Insertion.save(readings, in: database)
            withIndex.append(Double(documents) / start.cost.seconds)

            let raw = try RawDocuments(path: "\(folder)/raw.sqlite3", readings)
            defer { raw.close() }
            rawScanned.append(Double(documents) / (try raw.find(site: "plant-7", from: 80, limit: .max)).cost.seconds)
            scanned.append(Double(documents) / (try await scan(database, collection)).seconds)

            try raw.makeIndex()
            var cost = Stopwatch()
            var expected = 0
            for number in 0..<queries { expected += try raw.find(site: site(number), from: from(number), limit: Self.limit).found }
            rawIndexed.append(Double(queries) / cost.cost.seconds)
            cost = Stopwatch()
            var (found, entries) = (0, 0)
            for number in 0..<queries {
                let one = try await find(database, collection, definition, site: site(number), from: from(number))
                found += one.found
                entries += one.entries
            }
            indexed.append(Double(queries) / cost.cost.seconds)
            examined.append(Double(entries) / Double(max(found, 1)))
            guard found == expected else { throw BenchError("the index found \(found) documents, SQLite \(expected)") }
        }
        var report = Report(
            scenario: "find",
            title: "\(documents) documents of 300 bytes, \(queries) queries for \(Self.limit) of them by two fields, and a look at all")
        report.add("raw SQLite, index on json_extract", "queries/s", rawIndexed)
        report.add("nightjar, index", "queries/s", indexed)
        report.add("nightjar / raw SQLite, index", "", zip(indexed, rawIndexed).map { $0 / $1 })
        report.add("entries read for each document found", "", examined)
        report.add("raw SQLite, json_extract of all", "documents/s", rawScanned)
        report.add("nightjar, selector on all", "documents/s", scanned)
        report.add("nightjar / raw SQLite, all", "", zip(scanned, rawScanned).map { $0 / $1 })
        report.add("writes without an index", "documents/s", plain)
        report.add("writes with it", "documents/s", withIndex)
        report.notes.append(machineLoad())
        return report
    }

    private func site(_ number: Int) -> String { "plant-\(number % 50)" }
    private func from(_ number: Int) -> Int { 60 + number * 7 % 60 }

    private func selector(_ site: String, _ from: Int) throws -> Selector {
        try Selector(["site": .string(site), "value": ["$gte": .int(from)]])
    }

    /// Like `_find`, but without HTTP.
    private func find(
        _ database: Database, _ collection: Collection, _ definition: IndexDefinition, site: String, from: Int
    ) async throws -> (found: Int, entries: Int) {
        let selector = try selector(site, from)
        let use = try IndexUse.of(definition, selector, .none, isNamed: false).get()
        let roots = selector.roots
        return try await database.read { transaction in
            guard let index = try transaction.fieldIndexes(collection).first else { throw BenchError("no index") }
            let entries = try transaction.entries(of: index, in: use.range, isDescending: false, limit: Self.limit)
            var found = 0
            for entry in entries {
                guard let document = try transaction.document(collection, entry.id) else { continue }
                let fields = DocumentFields(document.id, document.revision, isDeleted: false, body: document.body)
                if try fields.document(with: roots).map({ try selector.matches($0) }) ?? false { found += 1 }
            }
            return (found, entries.count)
        }
    }

    private func scan(_ database: Database, _ collection: Collection) async throws -> Cost {
        let selector = try selector("plant-7", 80)
        let start = Stopwatch()
        var since: SequenceNumber = 0
        while true {
            let place = since
            let last = try await database.read { transaction in
                let rows = try transaction.changes(collection, since: place, limit: 500, includeBodies: true)
                for row in rows {
                    let fields = DocumentFields(row.id, row.revision, isDeleted: row.isDeleted, body: row.body ?? [])
                    _ = try fields.document(with: selector.roots).map { try selector.matches($0) }
                }
                return rows.last?.sequence
            }
            guard let last else { return start.cost }
            since = last
        }
    }
}
