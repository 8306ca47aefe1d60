import Testing

@testable import Documents

/// Ancestors as one text.
struct RevisionHistoryTests {
    private func parse(_ text: String, limit: Int = 1_000) throws(RevisionHistoryError) -> RevisionHistory {
        let bytes = Array(text.utf8)
        return try bytes.withUnsafeBytes { raw in
            Result { () throws(RevisionHistoryError) in try RevisionHistory(parsing: raw, limit: limit) }
        }.get()
    }

    @Test func whatAPeerSendsIsReadInOrder() throws {
        let ids = try ["3-cc", "2-bb", "1-aa"].map { try RevisionID($0) }
        // The documentation allows blanks behind a comma; peers leave out nothing and repeat no comma, but it does no harm.
        for text in ["3-cc,2-bb,1-aa", "3-cc, 2-bb,  1-aa", ",3-cc,,2-bb,1-aa,"] {
            let history = try parse(text)
            #expect(Array(history) == ids, "\(text)")
            #expect(history.count == 3 && history == RevisionHistory(ids) && history.description == "3-cc,2-bb,1-aa")
            #expect(history.first?.generation == 3 && history.contains(ids[2]) && !history.isEmpty)
        }
        #expect(try parse("").isEmpty && RevisionHistory().first == nil)
    }

    @Test func whatIsNoIDIsRefused() {
        for text in ["3-cc,2-b", "3-cc,x", "3-cc, ", "3-CC", "0-aa", "9007199254740992-aa", "3-cc 2-bb"] {
            #expect(performing: { _ = try parse(text) }, throws: { if case .badID = $0 as? RevisionHistoryError { true } else { false } })
        }
        #expect(throws: RevisionHistoryError.tooLong(limit: 2)) { try parse("3-cc,2-bb,1-aa", limit: 2) }
    }

    /// As values they took 180 bytes each.
    @Test func aThousandAncestorsHoldNoMoreThanTheirText() throws {
        let text = (1...1_000).reversed().map { "\($0)-" + String(repeating: "ab", count: 40) }.joined(separator: ",")
        let history = try parse(text)
        #expect(history.count == 1_000)
        #expect((text.utf8.count...text.utf8.count + 1_024).contains(history.heldBytes))
        var (fromText, fromValues) = (RevisionTree(), RevisionTree())
        try fromText.insert(RevisionID("1001-aa"), history: history)
        try fromValues.insert(RevisionID("1001-aa"), history: Array(history))
        #expect(fromText == fromValues && fromText.count == 1_001)
    }
}
