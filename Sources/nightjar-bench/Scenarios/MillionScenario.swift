import DocumentStore

/// Whether the store stays fast as it grows.
struct MillionScenario {
    var documents = 1_000_000
    var rounds = 1
    var hasRandomIDs = false

    private static let parts = 10

    func run(_ scratch: Scratch) async throws -> Report {
        let generator = Readings(hasRandomIDs: hasRandomIDs)
        let part = documents / Self.parts
        var first: [Double] = []
        var last: [Double] = []
        var middle: [[Double]] = []
        var sizes: [Double] = []
        for round in 0..<rounds {
            let folder = "\(scratch.path)/million-\(round).nightjar"
            let database = try Database.open(folder: folder, name: "million")
            var rates: [Double] = []
            for number in 0..<Self.parts {
                let readings = generator.make(from: number * part, count: part)
                let start = Stopwatch()
                try await Insertion.save(readings, in: database)
                rates.append(Double(part) / start.cost.seconds)
            }
            sizes.append(Double(database.sizeBytes()) / 1_048_576)
            database.close()
            Files.remove(folder)
            first.append(rates[0])
            last.append(rates[Self.parts - 1])
            middle.append(rates)
        }
        let name = hasRandomIDs ? "random" : "ascending"
        var report = Report(
            scenario: hasRandomIDs ? "million, random ids" : "million", title: "\(documents) documents of 300 bytes with \(name) ids, durable batches of \(Insertion.batch)")
        for number in 0..<Self.parts { report.add("part \(number + 1) of \(Self.parts)", "documents/s", middle.map { $0[number] }) }
        report.add("database file", "MB", sizes)
        report.goal("last tenth / first tenth", "", zip(first, last).map { $1 / $0 }, .atLeast, 0.8)
        report.notes.append(machineLoad())
        return report
    }
}
