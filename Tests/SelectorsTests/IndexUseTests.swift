import Documents
import Selectors
import Testing

@Suite("An index for a selector")
struct IndexUseTests {
    private func use(_ fields: String, _ selectorText: String, sort: String = "[]", partial: String? = nil, isNamed: Bool = false) throws -> Result<IndexUse, IndexUse.Obstacle> {
        let definition = try IndexDefinition(json("{\"fields\":\(fields)\(partial.map { ",\"partial_filter_selector\":\($0)" } ?? "")}"))
        return IndexUse.of(definition, try selector(selectorText), try SortOrder(json(sort)), isNamed: isNamed)
    }

    @Test("serves where the selector requires all of its fields, and narrows by what is known", arguments: [
        ("[\"a\"]", "{\"a\":1}", "[]", 2), ("[\"a\"]", "{\"a\":{\"$gt\":1}}", "[]", 1), ("[\"a\",\"b\"]", "{\"a\":1,\"b\":{\"$lt\":3}}", "[]", 3),
        ("[\"a\",\"b\"]", "{\"a\":{\"$gt\":1},\"b\":3}", "[]", 1), ("[\"a\"]", "{\"a\":{\"$exists\":true}}", "[]", 0), ("[\"a\"]", "{\"b\":1}", "[\"a\"]", 0),
        ("[\"a\",\"b\"]", "{\"a\":1}", "[\"b\"]", 2), ("[\"a\"]", "{\"$or\":[{\"a\":1},{\"a\":2,\"b\":1}]}", "[]", 0), ("[\"_id\"]", "{}", "[]", 0),
        ("[\"a.b\"]", "{\"a\":{\"b\":{\"$beginsWith\":\"x\"}}}", "[]", 1), ("[\"a\"]", "{\"$not\":{\"a\":{\"$gt\":1}}}", "[]", 1),
        ("[{\"a\":\"desc\"}]", "{\"a\":{\"$gt\":1}}", "[{\"a\":\"desc\"}]", 1),
    ])
    func serves(fields: String, selector: String, sort: String, weight: Int) throws {
        #expect(try use(fields, selector, sort: sort).get().weight == weight)
    }

    @Test("does not serve otherwise", arguments: [
        ("[\"a\"]", "{\"b\":1}", "[]", IndexUse.Obstacle.fieldMismatch), ("[\"a\",\"b\"]", "{\"a\":1}", "[]", .fieldMismatch),
        ("[\"a\"]", "{\"a\":{\"$exists\":false}}", "[]", .fieldMismatch), ("[\"a\"]", "{\"$or\":[{\"a\":1},{\"b\":1}]}", "[]", .fieldMismatch),
        ("[\"a\",\"b\"]", "{\"a\":{\"$gt\":1},\"b\":1}", "[\"b\"]", .sortOrderMismatch), ("[\"a\"]", "{\"a\":1}", "[\"b\"]", .sortOrderMismatch),
        ("[\"a\"]", "{\"$or\":[]}", "[]", .fieldMismatch),
    ])
    func obstacles(fields: String, selector: String, sort: String, obstacle: IndexUse.Obstacle) throws {
        #expect(throws: obstacle) { try use(fields, selector, sort: sort).get() }
    }

    @Test("if partial, serves only queries that name it")
    func partial() throws {
        #expect(throws: IndexUse.Obstacle.isPartial) { try use("[\"a\"]", "{\"a\":1}", partial: "{\"b\":2}").get() }
        #expect(try use("[\"a\"]", "{\"a\":1}", partial: "{\"b\":2}", isNamed: true).get().weight == 2)
        #expect(try use("[\"a\"]", "{\"a\":1}", partial: "{}").get().weight == 2)
    }

    @Test("has an empty range for what cannot match")
    func contradictions() throws {
        #expect(try use("[\"a\"]", "{\"a\":{\"$gt\":3,\"$lt\":2}}").get().range.isEmpty)
        #expect(try use("[\"a\"]", "{\"$and\":[{\"a\":1},{\"a\":2}]}").get().range.isEmpty)
        #expect(try !use("[\"a\"]", "{\"a\":{\"$gte\":2,\"$lte\":2}}").get().range.isEmpty)
    }

    @Test("holds keys of live values of its fields; other members are not read")
    func keys() throws {
        func key(_ body: String, _ definition: String = "{\"fields\":[\"a.b\",\"_id\"]}") throws -> [UInt8]? {
            try IndexDefinition(json(definition)).key(
                of: DocumentFields(DocumentID("d"), RevisionID(known: "1-aa"), isDeleted: false, body: Array(body.utf8)))
        }
        let expected = try CollationKey.of(json("7")) + CollationKey.of(json("\"d\""))
        #expect(try key(" { \"x\" : [1,{\"a\":\"}\"}] , \"y\":\"\\\"a\" , \"a\" : { \"b\" : 7 } , \"z\":1.5e3} ") == expected)
        #expect(try key("{\"\\u0061\":{\"b\":7}}") == expected)
        #expect(try key("{\"a\":{\"c\":7}}") == nil && key("{\"b\":1}") == nil && key("{}") == nil)
        #expect(try key("{\"a\":{\"b\":7") == nil && key("") == nil && key("{\"a\":{\"b\":7},\"c\"") == nil)
        #expect(try key("{\"a\":1,\"t\":\"x\"}", "{\"fields\":[\"a\"],\"partial_filter_selector\":{\"t\":\"y\"}}") == nil)
        #expect(try key("{\"a\":1,\"t\":\"y\"}", "{\"fields\":[\"a\"],\"partial_filter_selector\":{\"t\":\"y\"}}") == CollationKey.of(json("1")))
        for bad in ["{}", "[]", "{\"fields\":[]}", "{\"fields\":[\"a\",\"a\"]}", "{\"fields\":[\"a\"],\"x\":1}", "{\"fields\":[{\"a\":\"asc\"},{\"b\":\"desc\"}]}"] {
            #expect(throws: SelectorError.self, "\(bad)") { try IndexDefinition(json(bad)) }
        }
    }
}
