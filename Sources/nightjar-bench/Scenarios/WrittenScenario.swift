import DocumentStore

/// How many bytes are written to disk for each document that is saved durably: writes wear out flash storage.
struct WrittenScenario {
    var documents = 20_000
    var rounds = 3

    private static let size = 1_024
    private static let batch = 100

    func run(_ scratch: Scratch) async throws -> Report {
        let readings = Readings(size: Self.size, hasRandomIDs: true).make(from: 0, count: documents)
        var written: [Double] = []
        for round in 0..<rounds {
            let folder = "\(scratch.path)/written-\(round).nightjar"
            let database = try Database.open(folder: folder, name: "written")
            let before = try writtenBytes()
            try await Insertion.save(readings, in: database, batch: Self.batch)
            written.append((try writtenBytes() - before) / Double(documents))
            database.close()
            Files.remove(folder)
        }
        var report = Report(scenario: "written", title: "\(documents) documents of \(Self.size) bytes with random ids, durable batches of \(Self.batch)")
        report.goal("written to the disk for each", "bytes", written, .atMost, 4_096)
        report.notes.append("write_bytes of /proc/self/io; the end of the log goes into the database later, and a file system in memory has none")
        return report
    }
}
