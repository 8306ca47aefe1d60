import Documents
import DocumentStore
import Environment
import Glibc
import Logging
import NIOCore
import NIOPosix
import TestSupport
import Testing
import Transport

@testable import Replication

/// Event loops for all tests in this target.
let loops = MultiThreadedEventLoopGroup(numberOfThreads: 2)

/// Returns once every loop has done what it was told to do before this.
func loopsTakeATurn() async throws {
    for loop in loops.makeIterator() { try await loop.submit {}.get() }
}

func quietLogger() -> Logger { Logger(label: "test") { _ in SwiftLogNoOpLogHandler() } }

func doc(_ id: String) -> DocumentID { DocumentID(stored: id) }
func rev(_ text: String) -> RevisionID { RevisionID(stored: text) }
func text(_ bytes: [UInt8]?) -> String? { bytes.map { String(decoding: $0, as: UTF8.self) } }

/// A database in a folder of its own, removed with it.
final class TestDatabase: Sendable {
    let database: Database
    private let folder: TemporaryFolder

    init(
        _ name: String = "db", collections: [String] = [], environment: Environment = .system, _ change: (inout DatabaseOptions) -> Void = { _ in }
    ) throws {
        folder = try TemporaryFolder()
        var options = DatabaseOptions()
        options.durability = .process
        change(&options)
        database = try Database.open(folder: folder.path("\(name).nightjar"), name: name, options: options, environment: environment)
        for collection in collections { _ = try database.createCollection(CollectionName(parsing: collection)) }
    }

    deinit {
        database.close()
    }

    var blobsFolder: String { folder.path("\(database.name).nightjar/blobs") }
    func blobPath(_ digest: String) throws -> String { "\(blobsFolder)/\(try BlobDigest(digest).hex)" }

    /// Changes four bytes of the blob's file, as a failing disk might.
    func alter(_ digest: String, at offset: Int = 1_000) throws {
        let file = open(try blobPath(digest), O_WRONLY)
        try #require(file >= 0)
        defer { close(file) }
        try #require(pwrite(file, [1, 2, 3, 4] as [UInt8], 4, off_t(offset)) == 4)
    }

    func collection(_ name: String = "_default") throws -> Collection {
        try #require(database.collection(CollectionName(parsing: name)))
    }

    @discardableResult
    func put(_ id: String, _ body: String, deleted: Bool = false, in name: String = "_default") async throws -> RevisionID {
        let collection = try collection(name)
        return try await database.write { transaction in
            let parent = try transaction.document(collection, doc(id))?.revision
            return try transaction.save(collection, id: doc(id), body: Array(body.utf8), deleted: deleted, parent: parent).revision
        }
    }

    func fill(_ ids: some Sequence<Int>, prefix: String = "doc-", in name: String = "_default") async throws {
        let collection = try collection(name)
        let ids = Array(ids)
        try await database.write { transaction in
            for id in ids {
                _ = try transaction.save(
                    collection, id: doc("\(prefix)\(id)"), body: Array("{\"n\":\(id),\"from\":\"\(prefix)\"}".utf8), deleted: false, parent: nil)
            }
        }
    }

    /// A revision made elsewhere.
    @discardableResult
    func insert(
        _ id: String, _ revision: String, _ history: [String] = [], body: String = "{}", deleted: Bool = false,
        in name: String = "_default"
    ) async throws -> InsertOutcome {
        let collection = try collection(name)
        return try await database.write {
            try $0.insert(
                IncomingRevision(
                    id: doc(id), revision: rev(revision), history: RevisionHistory(history.map(rev)), isDeleted: deleted, body: Array(body.utf8),
                    remote: nil),
                into: collection, conflicts: .store)
        }
    }

    func get(_ id: String, in name: String = "_default") async throws -> StoredDocument? {
        let collection = try collection(name)
        return try await database.read { try $0.document(collection, doc(id)) }
    }

    func body(_ id: String, in name: String = "_default") async throws -> String? {
        try await get(id, in: name).flatMap { $0.isDeleted ? nil : text($0.body) }
    }

    /// Everything that replicas must agree on.
    func contents(in name: String = "_default") async throws -> [String] {
        let collection = try collection(name)
        return try await database.read { transaction in
            var lines: [String] = []
            var since: UInt64 = 0
            while true {
                let rows = try transaction.changes(collection, since: since, limit: 1_000, includeBodies: true)
                guard let last = rows.last else { break }
                since = last.sequence
                lines += rows.map { "\($0.id) \($0.revision) \($0.isDeleted) \(String(decoding: $0.body ?? [], as: UTF8.self))" }
            }
            return lines.sorted()
        }
    }

    func count(in name: String = "_default") async throws -> Int {
        let wanted = try CollectionName(parsing: name)
        let statistics = try await database.statistics()
        return try #require(statistics.first { $0.name == wanted }).documents
    }

    func blob(_ bytes: [UInt8]) async throws -> String {
        try await database.blobs.perform { try $0.install(bytes) }.text
    }

    /// Waits until a condition on the collection holds; checks again whenever the store says that it has changed.
    func wait(in name: String = "_default", until holds: @Sendable @escaping (TestDatabase) async throws -> Bool) async throws {
        for await _ in database.changeSignal(try collection(name)) {
            if try await holds(self) { return }
        }
    }
}

extension Replicator {
    /// Runs to its end.
    ///
    /// - Parameter isWanted: picks the error to look for among those that it reports about documents.
    /// - Returns: how it ended, and the message of the first such error; nil if there is none.
    func run(looksFor isWanted: (DocumentEvent) -> Bool) async -> (ReplicatorStatus, words: String?) {
        let events = documentEvents()
        let status = await run()
        var failed: UInt64 = 0
        guard status.counts.failed > 0 else { return (status, nil) }
        for await batch in events {
            if let found = batch.first(where: isWanted) { return (status, found.error?.message) }
            failed += UInt64(batch.count { $0.error != nil })
            // No further error is to come.
            if failed >= status.counts.failed { break }
        }
        return (status, nil)
    }
}
