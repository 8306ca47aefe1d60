import BLIP
import Documents
import DocumentStore
import Environment
import Interfaces
import Replication
import Synchronization
import Testing

/// Revision ids are digests: without a limit, a peer could guess the content of a hidden document and have each guess confirmed.
@Suite("Guesses at hidden documents", .timeLimit(.minutes(5)))
struct HiddenGuessTests {
    enum Bound: CaseIterable, Sendable { case channels, pushFilter }

    private final class Told: Sendable {
        private let list = Mutex<[String]>([])
        var names: [String] { list.withLock { $0 } }
        func note(_ name: String) { list.withLock { $0.append(name) } }
    }

    private static let secret = #"{"in":["red"],"pin":4711}"#

    /// Ann sees what is red, Ben does not.
    private func configuration(_ database: TestDatabase, _ bound: Bound, _ conflicts: HiddenConflicts, _ user: String = "ben") -> PassiveConfiguration {
        var configuration = PassiveConfiguration(listener: "hub", database: database.database, principal: Principal(name: user))
        configuration.hiddenConflicts = conflicts
        switch bound {
        case .channels:
            configuration.principal = Principal(name: user, channels: ["blue"])
            configuration.syncFunction = TestSync()
        case .pushFilter: configuration.pushFilter = TestFilter { document, _ in (text(document.body) ?? "").contains("red") ? .reject : .pass }
        }
        return configuration
    }

    private func send(_ peer: Peer, _ revision: String, _ history: String = "", _ body: String) async -> String {
        let properties = [("collection", "0"), ("id", "secret"), ("rev", revision)] + (history.isEmpty ? [] : [("history", history)])
        guard let reply = await peer.ask("rev", properties, body) else { return "none" }
        return reply.error.map { "\($0.code)" } ?? "taken"
    }

    private func wrong(_ number: Int) -> String { "1-" + String(repeating: "0", count: 32 - "\(number)".utf8.count) + "\(number)" }

    @Test("after a hundred wrong guesses, a right one gets the same answer for an hour, but only for that login", arguments: Bound.allCases)
    func bounded(bound: Bound) async throws {
        let database = try TestDatabase("hub")
        try await database.put("secret", Self.secret)
        let right = try #require(try await database.get("secret")).revision.text
        let (time, told) = (JumpingTime(), Told())
        let conflicts = HiddenConflicts(time) { told.note($0) }
        let ben = try await Peer(Hub(configuration(database, bound, conflicts), owner: database))
        await ben.begin()
        for number in 0..<HiddenConflicts.limit { #expect(await send(ben, wrong(number), "", Self.secret) == "409") }
        #expect(told.names == ["user ben"] && conflicts.exhausted == ["user ben"])
        // The right id is accepted neither as a repetition nor as the replaced revision, not even on another connection.
        let again = try await Peer(Hub(configuration(database, bound, conflicts), owner: database))
        await again.begin()
        #expect(await send(again, right, "", Self.secret) == "409")
        #expect(await send(again, "2-bb", right, #"{"in":["blue"]}"#) == "409")
        #expect(try await database.body("secret") == Self.secret)
        // Another login that repeats the write is told that it is stored.
        let carol = try await Peer(Hub(configuration(database, bound, conflicts, "carol"), owner: database))
        await carol.begin()
        #expect(await send(carol, right, "", Self.secret) == "taken")
        try await time.sleep(seconds: Int(HiddenConflicts.seconds))
        #expect(conflicts.exhausted.isEmpty)
        #expect(await send(again, right, "", Self.secret) == "taken")
    }

    @Test("edits made by requests count as well, and visible documents can still be edited", arguments: Bound.allCases)
    func requests(bound: Bound) async throws {
        let database = try TestDatabase("hub")
        try await database.put("secret", Self.secret)
        let right = try #require(try await database.get("secret")).revision
        let conflicts = HiddenConflicts(JumpingTime())
        let writing = PeerWriting(
            configuration(database, bound, conflicts), try database.collection(), access: PeerAccess(), remote: "10.0.0.1:5", environment: .system
        ) { nil }
        func write(_ id: String, _ revision: PeerWriting.Write.Revision) -> PeerWriting.Write {
            PeerWriting.Write(id: doc(id), revision: revision, isDeleted: false, body: Array(#"{"in":["blue"],"n":1}"#.utf8))
        }
        for number in 0..<HiddenConflicts.limit {
            guard case .conflict? = try await writing.store([write("secret", .edit(of: rev(wrong(number))))]).first else {
                Issue.record("the edit was not refused as a conflict")
                return
            }
        }
        #expect(conflicts.exhausted == ["user ben"])
        for revision in [PeerWriting.Write.Revision.edit(of: right), .made(right, history: []), .made(rev("2-bb"), history: [right])] {
            guard case .conflict? = try await writing.store([write("secret", revision)]).first else {
                Issue.record("\(revision)")
                return
            }
        }
        #expect(try await database.body("secret") == Self.secret)
        guard case .stored? = try await writing.store([write("mine", .edit(of: nil))]).first else {
            Issue.record("a new document was refused")
            return
        }
    }

    @Test("a right id counts as a repetition only with the body that it was made from", arguments: Bound.allCases)
    func body(bound: Bound) async throws {
        let database = try TestDatabase("hub")
        try await database.put("secret", Self.secret)
        let right = try #require(try await database.get("secret")).revision.text
        let conflicts = HiddenConflicts(JumpingTime())
        let ben = try await Peer(Hub(configuration(database, bound, conflicts), owner: database))
        await ben.begin()
        #expect(await send(ben, right, "", #"{"in":["blue"]}"#) == "409")
        #expect(await send(ben, right, "", Self.secret) == "taken")
    }
}
