import Documents
import DocumentStore
import Environment
import HTTPServer
import Interfaces
import Synchronization
import Testing
import Transport

@testable import Replication

/// Answers that have more in them than what was asked for.
@Suite(.timeLimit(.minutes(5)))
struct CouchForeignEntryTests {
    private static let limit = 8 << 20

    /// What a peer adds to each answer that has the document `mine`, alone or with others.
    enum Addition: CaseIterable {
        /// A document that is larger than the memory for one answer allows, and many that are small.
        case largeBefore, largeBehind, manyBefore
        /// A document that nobody can read.
        case tooDeep
        /// No document at all.
        case padding

        var isReadable: Bool { self == .largeBehind || self == .tooDeep }

        func added(to entries: String, isBulk: Bool) -> String {
            let text = String(repeating: "y", count: 4 << 20)
            func foreign(_ id: String, _ members: String) -> String {
                let document = "{\"ok\":{\"_id\":\"\(id)\",\"_rev\":\"1-aa\",\(members)}}"
                return isBulk ? "{\"id\":\"\(id)\",\"docs\":[\(document)]}" : document
            }
            let all: String =
                switch self {
                case .largeBefore: "\(foreign("other", "\"a\":\"\(text)\"")),\(entries)"
                case .largeBehind: "\(entries),\(foreign("other", "\"a\":\"\(text)\""))"
                case .manyBefore: (0..<400).map { foreign("other-\($0)", "\"a\":\"\(text.prefix(10_000))\"") }.joined(separator: ",") + ",\(entries)"
                case .tooDeep: "\(foreign("other", "\"a\":\(String(repeating: "[", count: 200))\(String(repeating: "]", count: 200))")),\(entries)"
                case .padding: entries
                }
            let padding = self == .padding ? "\"y\":\"\(text)\"," : ""
            return isBulk ? "{\(padding)\"results\":[\(all)]}" : self == .padding ? String(repeating: " ", count: 4 << 20) + "[\(all)]" : "[\(all)]"
        }
    }

    private func lie(_ addition: Addition, _ server: CouchServer, hasBulkGet: Bool) {
        server.trouble { [tree = server.tree] request, body in
            func document(_ id: String?, _ revision: String?) -> String? {
                guard let id, let revision, let found = tree.json(id, revision) else { return nil }
                return "{\"ok\":\(found.text)}"
            }
            if request.path == "/db/_bulk_get", hasBulkGet, String(decoding: body, as: UTF8.self).contains("\"mine\"") {
                let entries = ((try? JSONValue(parsing: body))?["docs"]?.asArray ?? []).compactMap { wanted -> String? in
                    let id = wanted["id"]?.asString
                    return document(id, wanted["rev"]?.asString).map { "{\"id\":\"\(id ?? "")\",\"docs\":[\($0)]}" }
                }
                return .json(addition.added(to: entries.joined(separator: ","), isBulk: true))
            }
            if request.path == "/db/mine", let found = document("mine", tree.documents["mine"]?.leaves.first) {
                return .json(addition.added(to: found, isBulk: false))
            }
            return nil
        }
    }

    @Test("what a peer adds to an answer about a document never makes that document count as too large", arguments: Addition.allCases, [true, false])
    func added(_ addition: Addition, hasBulkGet: Bool) async throws {
        let database = try TestDatabase()
        try await CouchServer.with { server, target in
            server.state.withLock { $0.hasBulkGet = hasBulkGet }
            server.change { tree in for id in ["first", "mine", "last"] { tree.edit(id, "{\"text\":\"\(String(repeating: "x", count: 200_000))\"}") } }
            lie(addition, server, hasBulkGet: hasBulkGet)
            func pull() async throws -> (status: ReplicatorStatus, words: String?, replicator: Replicator) {
                let replicator = Replicator(
                    configuration: ReplicatorConfiguration(database, to: target, .pull) { $0.retry.maximumAttempts = 1 }, connector: try DatabaseClient(target),
                    environment: .system, memory: MemoryBudget(limit: Self.limit), logger: quietLogger())
                let (status, words) = await replicator.run { $0.error != nil }
                return (status, words, replicator)
            }
            let first = try await pull()
            for (id, isHere) in [("first", true), ("last", true), ("other", false), ("other-7", false)] {
                #expect(try await (database.body(id) != nil) == isHere, "\(id): \(first.status)")
            }
            #expect(try await first.replicator.tooLarge() == Replicator.TooLarge())
            if addition.isReadable {
                #expect(first.status.counts.pulled == 3 && first.status.counts.failed == 0, "\(first.status) \(first.words ?? "")")
            } else {
                // The peer fails, and says with which document.
                let waiting = first.replicator.waiting.find(.default, doc("mine"), .pull)
                #expect(waiting?.error.isTransient == true && waiting?.error.message.contains("asked for document mine alone") == true, "\(String(describing: waiting))")
            }
            server.trouble { _, _ in nil }
            let second = try await pull()
            #expect(second.status.error == nil && second.status.counts.failed == 0, "\(second.status)")
            #expect(try await database.body("mine") != nil)
        }
    }
}
