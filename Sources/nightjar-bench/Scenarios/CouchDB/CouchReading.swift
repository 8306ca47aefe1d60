import Documents

/// Reading from a database with many documents: a filtered feed, and queries with an index.
extension CouchScenario {
    private static let plugin = "return { push_filter = function(doc) return doc.seq % 100 == 0 end }\n"
    private static let design = "{\"filters\":{\"hundredth\":\"function(doc, req) { return doc.seq % 100 === 0; }\"}}"
    private static let limit = 25

    func measureReading(_ peer: CouchPeer, _ scratch: Scratch, _ report: inout Report) async throws {
        let readings = Readings().make(from: 0, count: documents)
        let agent = try CouchAgent(agent, folder: "\(scratch.path)/reading", plugins: ["hundredth.lua": Self.plugin])
        try agent.database.load(readings)
        var (feeds, finds) = (CouchTimes(), CouchTimes())
        try await peer.withDatabase("reading") { theirs in
            try theirs.load(readings)
            try peer.request("PUT", "/\(theirs.name)/_design/bench", Self.design, expecting: [201, 202])
            if rows.contains(.find) {
                try Self.makeIndex(agent.database, HTTPConnection(agent.database.address))
                try Self.makeIndex(theirs, HTTPConnection(peer.address))
            }
            for _ in 0..<rounds {
                if rows.contains(.changes) {
                    feeds.add(ours: try feed(agent.database, filter: "hundredth"), theirs: try feed(theirs, filter: "bench/hundredth"))
                }
                if rows.contains(.find) { finds.add(ours: try find(in: agent.database), theirs: try find(in: theirs)) }
            }
        }
        try agent.stop()
        if rows.contains(.changes) { feeds.show("_changes through a filter", count: documents, "documents", bar: 50, in: &report) }
        if rows.contains(.find) { finds.show("_find for \(Self.limit) by an indexed field", count: queries, "queries", bar: 5, in: &report) }
    }

    private func feed(_ database: CouchDatabase, filter: String) throws -> CouchWork {
        let connection = try database.connect()
        var answer: [UInt8] = []
        let work = try CouchWork.measure(database) {
            // Heartbeats are needed, or CouchDB times out after a minute.
            answer = try connection.request("GET", "/\(database.name)/_changes?filter=\(filter)&heartbeat=10000", expecting: [200]).body
        }
        let found = try JSONValue(parsing: answer)["results"]?.asArray?.count
        guard found == documents / 100 else { throw BenchError("\(database.url): the feed has \(found ?? 0) rows, not \(documents / 100)") }
        return work
    }

    /// The first query waits until CouchDB has built its index.
    private static func makeIndex(_ database: CouchDatabase, _ administrator: HTTPConnection) throws {
        let definition = "{\"ddoc\":\"bench-index\",\"name\":\"value\",\"index\":{\"fields\":[\"value\"]}}"
        try administrator.request("POST", "/\(database.name)/_index", Array(definition.utf8), expecting: [200, 201])
        let connection = try database.connect()
        let deadline = monotonicSeconds() + 600
        while try connection.request("POST", "/\(database.name)/_find", query(from: 60)).status != 200 {
            guard monotonicSeconds() < deadline else { throw BenchError("\(database.url): no index within ten minutes") }
        }
    }

    private static func query(from: Int) -> [UInt8] {
        Array("{\"selector\":{\"value\":{\"$gte\":\(from),\"$lt\":\(from + 1)}},\"limit\":\(limit)}".utf8)
    }

    private func find(in database: CouchDatabase) throws -> CouchWork {
        let connection = try database.connect()
        return try CouchWork.measure(database) {
            for number in 0..<queries {
                let answer = try connection.request("POST", "/\(database.name)/_find", Self.query(from: 60 + number * 7 % 60), expecting: [200])
                let value = try JSONValue(parsing: answer.body)
                let found = value["docs"]?.asArray?.count
                guard found == Self.limit, value["warning"] == nil else {
                    throw BenchError("\(database.url): a query finds \(found ?? 0) documents, not \(Self.limit): \(answer.text.suffix(200))")
                }
            }
        }
    }
}
