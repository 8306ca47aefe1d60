/// The CouchDB API: ours compared with CouchDB itself, both with default settings and durable, and our memory usage.
struct CouchScenario {
    /// What is measured.
    enum Row: String, CaseIterable, Sendable {
        case bulk, puts, replication, pouchdb, changes, find, listeners, attachment
    }

    var rows = Set(Row.allCases)
    /// The agent's executable.
    var agent: String
    /// Without a peer, only our memory usage is measured.
    var peer: CouchPeer?
    /// A folder in which Node finds `pouchdb` and `pouchdb-adapter-memory`.
    var pouchDB: String?
    var node = "/usr/bin/node"
    /// Number of documents in a database that is read.
    var documents = 100_000
    /// Number of documents in a replication.
    var replicated = 20_000
    var batches = 20
    var puts = 2_000
    var queries = 500
    var listeners = 1_000
    var megabytes = 2_048
    var rounds = 5

    func run(_ scratch: Scratch) async throws -> Report {
        var report = Report(scenario: "couchdb", title: "CouchDB's API, and CouchDB itself in the same run")
        if let peer {
            if rows.contains(.bulk) || rows.contains(.puts) { try await measureWrites(peer, scratch, &report) }
            if rows.contains(.replication) || rows.contains(.pouchdb) { try await measureReplication(peer, scratch, &report) }
            if rows.contains(.changes) || rows.contains(.find) { try await measureReading(peer, scratch, &report) }
            report.notes.append("the peer is CouchDB \(try peer.version())")
        } else {
            report.notes.append("without --peer nothing is compared")
        }
        if rows.contains(.listeners) { try await measureListeners(scratch, &report) }
        if rows.contains(.attachment) { try await measureAttachment(scratch, &report) }
        report.notes.append(machineLoad())
        return report
    }
}

/// The cost of a piece of work.
struct CouchWork {
    var seconds: Double
    /// CPU time of the process that serves the database, if known: more meaningful on a machine that also does other work.
    var processor: Double?

    static func measure(_ database: CouchDatabase, _ body: () throws -> Void) throws -> CouchWork {
        let before = try database.process.map { try processorSeconds(of: $0) }
        let clock = Stopwatch()
        try body()
        let seconds = clock.cost.seconds
        guard let process = database.process, let before else { return CouchWork(seconds: seconds) }
        return CouchWork(seconds: seconds, processor: try processorSeconds(of: process) - before)
    }
}

/// The costs of the same work on both sides, round by round.
struct CouchTimes {
    private var ours: [CouchWork] = []
    private var theirs: [CouchWork] = []

    mutating func add(ours: CouchWork, theirs: CouchWork) {
        self.ours.append(ours)
        self.theirs.append(theirs)
    }

    /// - Parameters:
    ///   - count: how many operations each round performed.
    ///   - bar: how many times as fast as the peer we must be.
    func show(_ what: String, count: Int, _ unit: String, bar: Double, in report: inout Report) {
        report.add("\(what), nightjar", "\(unit)/s", ours.map { Double(count) / $0.seconds })
        report.add("\(what), CouchDB", "\(unit)/s", theirs.map { Double(count) / $0.seconds })
        let processor = zip(ours, theirs).compactMap { ours, theirs in
            ours.processor.flatMap { mine in theirs.processor.map { $0 / max(mine, 0.01) } }
        }
        if !processor.isEmpty { report.add("\(what), processor time, CouchDB / nightjar", "", processor) }
        report.goal("\(what), nightjar / CouchDB", "", zip(ours, theirs).map { $1.seconds / $0.seconds }, .atLeast, bar)
    }
}
