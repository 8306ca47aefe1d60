import Documents
import Interfaces
import Replication
import Testing

@testable import Agent

/// What a plugin is told of a replicator.
@Suite struct ObservingTests {
    private func events(_ numbers: Range<Int>) throws -> [DocumentEvent] {
        try numbers.map { try DocumentEvent(id: DocumentID("doc-\($0)"), collection: .default, direction: .push) }
    }

    @Test("documents wait in their order, as many as there is room for; the others are counted")
    func room() throws {
        let unreported = UnreportedDocuments()
        unreported.add(try events(0..<UnreportedDocuments.most - 10))
        unreported.add(try events(UnreportedDocuments.most - 10..<UnreportedDocuments.most + 5))
        unreported.add(try events(0..<3))
        #expect(unreported.count == UnreportedDocuments.most)
        let first = unreported.take(100)
        #expect(first.events.map(\.id.text) == (0..<100).map { "doc-\($0)" } && first.missed == 8)
        let rest = unreported.take(.max)
        #expect(rest.events.last?.id.text == "doc-\(UnreportedDocuments.most - 1)" && rest.missed == 0)
        #expect(unreported.count == 0 && unreported.take(1).events.isEmpty)
    }

    @Test("events that the observer has not taken by the end are counted, and none comes after that")
    func end() throws {
        let unreported = UnreportedDocuments()
        unreported.add(try events(0..<UnreportedDocuments.most + 2))
        #expect(unreported.take(100).missed == 2)
        unreported.add(try events(0..<103))
        #expect(unreported.close() == UnreportedDocuments.most + 3)
        unreported.add(try events(0..<1))
        #expect(unreported.count == 0 && unreported.take(1).events.isEmpty && unreported.close() == 0)
    }

    @Test("what does not exist is left out")
    func texts() throws {
        let error = ReplicationError(domain: .http, code: 403, message: "no")
        let event = DocumentEvent(id: try DocumentID("a"), collection: .default, direction: .push, isDeleted: true, error: error)
        let documents = try JSONValue(parsing: ReplicatorNotification.documents([event, DocumentEvent(id: try DocumentID("b"), collection: .default, direction: .pull)]))
        let first = try #require(documents.asArray?.first)
        #expect(first["id"] == "a" && first["collection"] == "_default._default" && first["is_push"] == true)
        #expect(first["flags"]?["deleted"] == true && first["flags"]?["access_removed"] == false)
        #expect(first["error"]?["code"]?.asInt64 == 403 && first["error"]?["public_code"]?.asInt64 == 10403 && first["error"]?["is_transient"] == false)
        let second = try #require(documents.asArray?.last)
        #expect(second["is_push"] == false)
        #expect(second.asObject?.members.map(\.key) == ["id", "collection", "is_push", "flags"])
        let status = try JSONValue(parsing: ReplicatorNotification.status(ReplicatorStatus(activity: .idle, since: 5)))
        #expect(status["activity"] == "idle" && status["since"]?.asInt64 == 5)
        #expect(status.asObject?.members.map(\.key).contains { ["error", "last_success_at", "next_retry_at"].contains($0) } == false)
    }
}
