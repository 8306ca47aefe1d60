import Documents
import Interfaces
import Replication
import Testing

@testable import Agent

/// What peers of a listener pushed that is too large, as long as somebody should be told of it.
@Suite struct TooLargePushesTests {
    private let refusal = ReplicationError(domain: .http, code: 413, message: "limits: { max_blob_bytes } is 10")

    private func events(_ numbers: Range<Int>, _ error: ReplicationError?, _ direction: Direction = .pull) throws -> [DocumentEvent] {
        try numbers.map { try DocumentEvent(id: DocumentID("doc-\($0)"), collection: .default, direction: direction, error: error) }
    }

    @Test("a document is reported until it is accepted, or for a day after it was last pushed; other refusals are not")
    func told() throws {
        var pushes = TooLargePushes()
        pushes.note(try events(0..<3, refusal), peer: "ada", database: "main", now: 1_000)
        pushes.note(try events(3..<4, ReplicationError(domain: .http, code: 409, message: "conflict")), peer: "ada", database: "main", now: 1_000)
        pushes.note(try events(4..<5, refusal, .push), peer: "ada", database: "main", now: 1_000)
        pushes.note(try events(1..<2, refusal), peer: "ben", database: "main", now: 2_000)
        pushes.note(try events(2..<3, nil), peer: "ben", database: "other", now: 2_000)
        #expect(pushes.current(now: 2_000).map(\.key.id.text) == ["doc-0", "doc-1", "doc-2"])
        #expect(pushes.current(now: 2_000)[1].refusal.since == 1_000 && pushes.current(now: 2_000)[1].refusal.peer == "ben")
        pushes.note(try events(2..<3, nil), peer: "ben", database: "main", now: 3_000)
        #expect(pushes.current(now: 3_000).map(\.key.id.text) == ["doc-0", "doc-1"])
        #expect(pushes.current(now: 1_000 + TooLargePushes.seconds).map(\.key.id.text) == ["doc-1"])
        #expect(pushes.current(now: 2_000 + TooLargePushes.seconds).isEmpty)
    }

    @Test("one peer that pushes many does not keep those out that come later")
    func bounded() throws {
        var pushes = TooLargePushes()
        pushes.note(try events(0..<TooLargePushes.limit + 500, refusal), peer: "mallory", database: "main", now: 1)
        #expect(pushes.current(now: 1).count == TooLargePushes.limit)
        pushes.note(try events(90_000..<90_001, refusal), peer: "ada", database: "main", now: 2)
        let now = pushes.current(now: 2)
        #expect(now.count == TooLargePushes.limit && now.contains { $0.refusal.peer == "ada" })
    }
}
