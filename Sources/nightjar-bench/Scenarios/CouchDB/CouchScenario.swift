/// CouchDB's API: ours against CouchDB itself, both with their defaults and durable, and what our side holds in memory.
struct CouchScenario {
    /// What is measured.
    enum Row: String, CaseIterable, Sendable {
        case bulk, puts, replication, pouchdb, changes, find, listeners, attachment
    }

    var rows = Set(Row.allCases)
    /// The agent's executable.
    var agent: String
    /// Without one only our memory is measured.
    var peer: CouchPeer?
    /// A folder in which Node finds `pouchdb` and `pouchdb-adapter-memory`.
    var pouchDB: String?
    var node = "/usr/bin/node"
    /// Of a database that is looked at.
    var documents = 100_000
    /// Of a replication.
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

/// What both sides took for the same work, round by round.
struct CouchTimes {
    private(set) var ours: [Double] = []
    private(set) var theirs: [Double] = []

    mutating func add(ours: Double, theirs: Double) {
        self.ours.append(ours)
        self.theirs.append(theirs)
    }

    /// - Parameters:
    ///   - count: of what was done in each round.
    ///   - bar: how many times as fast we are to be.
    func show(_ what: String, count: Int, _ unit: String, bar: Double, in report: inout Report) {
        report.add("\(what), nightjar", "\(unit)/s", ours.map { Double(count) / $0 })
        report.add("\(what), CouchDB", "\(unit)/s", theirs.map { Double(count) / $0 })
        report.goal("\(what), nightjar / CouchDB", "", zip(ours, theirs).map { $1 / $0 }, .atLeast, bar)
    }
}
