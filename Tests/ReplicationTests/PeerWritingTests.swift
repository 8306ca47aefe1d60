import Documents
import DocumentStore
import Environment
import Interfaces
import Replication
import Testing

/// What a client writes with requests, between its login and the store.
@Suite("Writes of CouchDB's clients", .timeLimit(.minutes(5)))
struct PeerWritingTests {
    private func writing(_ database: TestDatabase, isAdmitted: @escaping @Sendable () -> Bool = { true }) throws -> PeerWriting {
        let peer = PassiveConfiguration(listener: "hub", database: database.database, principal: Principal(name: "bob"))
        return PeerWriting(peer, try database.collection(), access: PeerAccess(), remote: "peer", environment: .system) {
            isAdmitted() ? nil : ReplicationError(domain: .http, code: 401, message: "the login is no longer valid")
        }
    }

    private func write(_ id: String, _ body: String) -> PeerWriting.Write {
        PeerWriting.Write(id: doc(id), revision: .edit(of: nil), isDeleted: false, body: Array(body.utf8))
    }

    @Test("a stored document does not name a blob that was collected since the client saw it")
    func collectedBlobs() async throws {
        let database = try TestDatabase("hub")
        let here = try await database.blob([1, 2, 3])
        func naming(_ digest: String) -> String { #"{"f":{"@type":"blob","digest":"\#(digest)"}}"# }
        let gone = BlobDigest.of([4, 5, 6]).text
        let outcomes = try await writing(database).store([write("a", naming(here)), write("b", naming(gone))])
        guard case .stored? = outcomes.first, case .refused(let error)? = outcomes.last else {
            Issue.record("\(outcomes)")
            return
        }
        #expect(error.code == 412 && error.message.contains(gone))
        #expect(try await database.get("b") == nil)
    }

    @Test("a client that has lost access by the time its request is complete writes nothing")
    func endedLogin() async throws {
        let database = try TestDatabase("hub")
        let writing = try writing(database) { false }
        let error = await #expect(throws: ReplicationError.self) { try await writing.store([write("a", "{}")]) }
        #expect(error?.code == 401)
        #expect(try await database.get("a") == nil)
    }

    @Test("if edits made here get versions, so do a client's edits, but revisions made elsewhere do not")
    func versions() async throws {
        let database = try TestDatabase("hub") { $0.versionsEdits = true }
        let collection = try database.collection()
        let writing = try writing(database)
        func revisions(_ id: String) async throws -> RevisionTree {
            try #require(try await database.database.read { try $0.tree(collection, doc(id)) })
        }
        guard case .stored(let first)? = try await writing.store([write("a", "{}")]).first else { throw CancellationError() }
        #expect(try await revisions("a").vector(of: first) != nil)
        let edit = PeerWriting.Write(id: doc("a"), revision: .edit(of: first), isDeleted: false, body: Array("{\"n\":1}".utf8))
        guard case .stored(let second)? = try await writing.store([edit]).first else { throw CancellationError() }
        #expect(try await revisions("a").vector(of: second) != nil)
        let made = PeerWriting.Write(id: doc("b"), revision: .made(rev("2-bb"), history: [rev("1-aa")]), isDeleted: false, body: Array("{}".utf8))
        guard case .stored? = try await writing.store([made]).first else { throw CancellationError() }
        #expect(try await revisions("b").vector(of: rev("2-bb")) == nil)
        // An edit of a revision that came without a version.
        let on = PeerWriting.Write(id: doc("b"), revision: .edit(of: rev("2-bb")), isDeleted: false, body: Array("{\"n\":2}".utf8))
        guard case .stored(let third)? = try await writing.store([on]).first else { throw CancellationError() }
        #expect(try await revisions("b").vector(of: third) != nil)
    }
}
