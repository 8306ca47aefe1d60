import Environment
import Synchronization

/// Durable writes: many documents in one request, and one document in each of many requests.
extension CouchScenario {
    private static let batchSize = 500
    private static let connections = 8

    func measureWrites(_ peer: CouchPeer, _ scratch: Scratch, _ report: inout Report) async throws {
        let batched = rows.contains(.bulk) ? batches * Self.batchSize : 0
        let single = rows.contains(.puts) ? puts / Self.connections * Self.connections : 0
        let readings = Readings().make(from: 0, count: batched + single)
        let bodies = stride(from: 0, to: batched, by: Self.batchSize).map { CouchDatabase.bulk(readings[$0..<$0 + Self.batchSize]) }
        let singles = Array(readings[batched...])
        var (bulk, put) = (CouchTimes(), CouchTimes())
        for round in 0..<rounds {
            let agent = try CouchAgent(agent, folder: "\(scratch.path)/writes-\(round)")
            let ours = try Self.write(bodies, singles, to: agent.database)
            try agent.stop()
            let theirs = try await peer.withDatabase("writes-\(round)") { try Self.write(bodies, singles, to: $0) }
            bulk.add(ours: ours.bulk, theirs: theirs.bulk)
            put.add(ours: ours.puts, theirs: theirs.puts)
        }
        if batched > 0 { bulk.show("_bulk_docs of \(Self.batchSize)", count: batched, "documents", bar: 5, in: &report) }
        if single > 0 { put.show("PUT over \(Self.connections) connections", count: single, "documents", bar: 5, in: &report) }
    }

    private static func write(_ bodies: [[UInt8]], _ singles: [Reading], to database: CouchDatabase) throws -> (bulk: CouchWork, puts: CouchWork) {
        let connection = try database.connect()
        let bulk = try CouchWork.measure(database) {
            for body in bodies { try connection.request("POST", "/\(database.name)/_bulk_docs", body, expecting: [201]) }
        }
        let puts = try CouchWork.measure(database) { try put(singles, to: database) }
        let expected = bodies.count * batchSize + singles.count
        guard try database.count() == expected else { throw BenchError("\(database.url) does not hold \(expected) documents") }
        return (bulk, puts)
    }

    /// Each connection has its own thread and a share of the documents.
    private static func put(_ readings: [Reading], to database: CouchDatabase) throws {
        let failure = Mutex<(any Error)?>(nil)
        let threads = try (0..<connections).map { number in
            try Thread(name: "put \(number)") {
                do {
                    let connection = try database.connect()
                    for place in stride(from: number, to: readings.count, by: connections) {
                        try connection.request("PUT", "/\(database.name)/\(readings[place].id)", readings[place].body, expecting: [201, 202])
                    }
                } catch { failure.withLock { $0 = error } }
            }
        }
        for thread in threads { thread.join() }
        if let error = failure.withLock({ $0 }) { throw error }
    }
}
