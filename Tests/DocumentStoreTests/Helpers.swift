import DocumentStore
import Documents
import Glibc
import SQLite
import TestSupport
import Testing

/// A database in a folder of its own, and a few words less for each test.
struct Store {
    let folder: String
    let database: Database
    var c: Collection { get throws { try #require(database.collection(.default)) } }

    init(_ options: DatabaseOptions = .init()) throws {
        folder = try temporaryFolder() + "/test.nightjar"
        database = try Database.open(folder: folder, name: "test", options: options)
    }

    /// Opens what an earlier one left.
    init(folder: String) throws {
        self.folder = folder
        database = try Database.open(folder: folder, name: "test")
    }

    /// Closes the database and changes its file by hand.
    func alter(_ sql: String, _ bytes: [UInt8]? = nil) throws {
        database.close()
        let connection = try Connection(path: folder + "/db.sqlite3", mode: .readWrite)
        defer { connection.close() }
        let statement = try connection.prepare(sql)
        if let bytes { statement.bind(1, bytes) }
        try statement.runOnce()
    }

    func save(_ id: String, _ body: String, deleted: Bool = false, parent: RevisionID? = nil) async throws -> SavedRevision {
        let c = try c
        return try await database.write { try $0.save(c, id: doc(id), body: Array(body.utf8), deleted: deleted, parent: parent) }
    }

    func insert(
        _ id: String, _ revision: String, _ history: [String] = [], body: String = "{}", deleted: Bool = false,
        remote: RemoteID? = nil, _ conflicts: ConflictHandling = .store, peerHad: PeerRevision? = nil,
        offeredBefore: [String] = []
    ) async throws -> InsertOutcome {
        let c = try c
        var incoming = IncomingRevision(
            id: doc(id), revision: rev(revision), history: RevisionHistory(history.map(rev)), isDeleted: deleted, body: Array(body.utf8),
            remote: remote)
        incoming.offeredBefore = offeredBefore.map(rev)
        if let peerHad {
            incoming.peerHad = peerHad
        } else if let remote {
            let offer = RevisionOffer(id: incoming.id, revision: incoming.revision)
            let needs = try await database.read { try $0.missing(c, [offer], from: remote) }
            if case .need(_, let known)? = needs.first { incoming.peerHad = known }
        }
        return try await database.write { [incoming] in try $0.insert(incoming, into: c, conflicts: conflicts) }
    }

    func get(_ id: String) async throws -> StoredDocument? {
        let c = try c
        return try await database.read { try $0.document(c, doc(id)) }
    }

    func conflict(_ id: String) async throws -> Conflict? {
        let c = try c
        return try await database.read { try $0.conflict(c, doc(id)) }
    }

    func resolve(_ id: String, _ resolution: Resolution) async throws -> SavedRevision {
        let conflict = try #require(try await conflict(id))
        let c = try c
        return try await database.write {
            try $0.resolveConflict(
                c, id: doc(id), expectedLocal: conflict.local.revision, expectedRemote: conflict.remote.revision,
                resolution: resolution)
        }
    }

    func remote(_ key: String = "wss://peer/db") async throws -> RemoteID {
        try await database.write { try $0.remoteID(for: key) }
    }

    func statistics() async throws -> CollectionStatistics {
        try #require(try await database.statistics().first)
    }
}

func doc(_ id: String) -> DocumentID { DocumentID(stored: id) }
func rev(_ text: String) -> RevisionID { RevisionID(stored: text) }
func text(_ body: [UInt8]?) -> String? { body.map { String(decoding: $0, as: UTF8.self) } }

func temporaryFolder() throws -> String { try TemporaryFolder.untilTheEnd() }

func writeFile(_ path: String, _ bytes: [UInt8]) throws {
    let descriptor = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0o600)
    try #require(descriptor >= 0)
    defer { close(descriptor) }
    try #require(write(descriptor, bytes, bytes.count) == bytes.count)
}

func readFile(_ path: String) throws -> [UInt8] {
    let descriptor = open(path, O_RDONLY)
    try #require(descriptor >= 0)
    defer { close(descriptor) }
    var all: [UInt8] = []
    var part = [UInt8](repeating: 0, count: 65536)
    while true {
        let count = read(descriptor, &part, part.count)
        if count <= 0 { return all }
        all += part[..<count]
    }
}
