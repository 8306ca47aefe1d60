import Documents
import Selectors
import Testing

@Suite("A selector")
struct SelectorTests {
    private static let document = """
        {"_id":"ann","name":"Ann","age":41,"height":1.5,"tags":["a","b",3],"none":null,"ok":true,"place":{"city":"Ulm","at":{"x":1}},
        "a.b":7,"friends":[{"name":"Bo","n":1},{"name":"Cy","n":5}],"grades":[80,81,90],"empty":[],"big":9007199254740993}
        """

    @Test("matches the same documents as CouchDB's", arguments: [
        ("{}", true),
        ("{\"name\":\"Ann\"}", true), ("{\"name\":\"ann\"}", false), ("{\"name\":\"Ann\",\"age\":41}", true), ("{\"name\":\"Ann\",\"age\":42}", false),
        ("{\"age\":41.0}", true), ("{\"age\":{\"$eq\":41}}", true),
        // Fields within fields, also by index, and names with dots.
        ("{\"place.city\":\"Ulm\"}", true), ("{\"place\":{\"city\":\"Ulm\"}}", true), ("{\"place\":{\"city\":\"Ulm\",\"at.x\":{\"$gt\":0}}}", true),
        ("{\"place\":{\"$eq\":{\"city\":\"Ulm\"}}}", false), ("{\"a\\\\.b\":7}", true), ("{\"a.b\":7}", false), ("{\"friends.1.name\":\"Cy\"}", true),
        ("{\"friends.2.name\":{\"$exists\":false}}", false),
        // Missing fields pass nothing but their absence, also under a negation.
        ("{\"gone\":{\"$ne\":1}}", false), ("{\"$not\":{\"gone\":1}}", false), ("{\"gone\":{\"$exists\":false}}", true),
        ("{\"$not\":{\"gone\":{\"$exists\":true}}}", true), ("{\"none\":{\"$exists\":true}}", true), ("{\"none\":null}", true),
        ("{\"name.first\":{\"$exists\":false}}", false), ("{\"gone\":{\"$nin\":[1]}}", false),
        // The order of types.
        ("{\"none\":{\"$lt\":false}}", true), ("{\"ok\":{\"$lt\":0}}", true), ("{\"age\":{\"$lt\":\"\"}}", true), ("{\"name\":{\"$lt\":[]}}", true),
        ("{\"tags\":{\"$lt\":{}}}", true), ("{\"age\":{\"$gt\":null}}", true), ("{\"age\":{\"$gt\":40,\"$lte\":41}}", true), ("{\"age\":{\"$gt\":41}}", false),
        ("{\"big\":9007199254740992}", false), ("{\"big\":{\"$gt\":9007199254740992,\"$lt\":9007199254740994}}", true),
        // Combinations; empty ones are true.
        ("{\"$or\":[{\"age\":1},{\"name\":\"Ann\"}]}", true), ("{\"$or\":[]}", true), ("{\"$and\":[]}", true), ("{\"$nor\":[{\"age\":1},{\"age\":41}]}", false),
        ("{\"$nor\":[{\"age\":1},{\"age\":2}]}", true), ("{\"age\":{\"$not\":{\"$lt\":41}}}", true), ("{\"age\":{\"$or\":[{\"$lt\":3},{\"$gt\":40}]}}", true),
        ("{\"$not\":{\"$and\":[{\"age\":41},{\"name\":\"Bo\"}]}}", true), ("{\"$not\":{\"$not\":{\"age\":41}}}", true), ("{\"age\":{\"$or\":[7,41]}}", true),
        // Arrays.
        ("{\"tags\":{\"$all\":[\"b\",3]}}", true), ("{\"tags\":{\"$all\":[\"b\",4]}}", false), ("{\"tags\":{\"$all\":[[\"a\",\"b\",3]]}}", true),
        ("{\"tags\":{\"$all\":[]}}", false), ("{\"tags\":{\"$size\":3}}", true), ("{\"name\":{\"$size\":3}}", false),
        ("{\"tags\":{\"$in\":[\"x\",\"a\"]}}", true), ("{\"age\":{\"$in\":[40,41]}}", true), ("{\"age\":{\"$in\":[]}}", false), ("{\"age\":{\"$nin\":[]}}", true),
        ("{\"tags\":{\"$nin\":[\"a\"]}}", false), ("{\"age\":{\"$nin\":[40]}}", true), ("{\"$not\":{\"age\":{\"$in\":[41]}}}", false),
        ("{\"friends\":{\"$elemMatch\":{\"name\":\"Bo\",\"n\":{\"$lt\":2}}}}", true), ("{\"friends\":{\"$elemMatch\":{\"name\":\"Bo\",\"n\":5}}}", false),
        ("{\"grades\":{\"$elemMatch\":{\"$gte\":81,\"$lt\":85}}}", true), ("{\"grades\":{\"$elemMatch\":{\"$gt\":81,\"$lt\":85}}}", false),
        ("{\"grades\":{\"$allMatch\":{\"$gte\":80}}}", true), ("{\"grades\":{\"$allMatch\":{\"$gt\":80}}}", false), ("{\"empty\":{\"$allMatch\":{\"$gt\":0}}}", false),
        ("{\"place\":{\"$keyMapMatch\":{\"$eq\":\"city\"}}}", true), ("{\"place\":{\"$keyMapMatch\":{\"$eq\":\"Ulm\"}}}", false),
        // The rest.
        ("{\"age\":{\"$mod\":[10,1]}}", true), ("{\"height\":{\"$mod\":[1,0]}}", false), ("{\"age\":{\"$type\":\"number\"}}", true),
        ("{\"none\":{\"$type\":\"null\"}}", true), ("{\"ok\":{\"$type\":\"boolean\"}}", true), ("{\"tags\":{\"$type\":\"array\"}}", true),
        ("{\"place\":{\"$type\":\"object\"}}", true), ("{\"name\":{\"$type\":\"object\"}}", false), ("{\"name\":{\"$beginsWith\":\"An\"}}", true),
        ("{\"age\":{\"$beginsWith\":\"4\"}}", false), ("{\"name\":{\"$regex\":\"^A.n$\"}}", true), ("{\"age\":{\"$regex\":\"4\"}}", false), ("{\"_id\":\"ann\"}", true),
    ])
    func meaning(text: String, isMeant: Bool) throws {
        #expect(try selector(text).matches(json(Self.document)) == isMeant, "\(text)")
        // What it is understood as means the same.
        let understood = try selector(text).json
        #expect(try Selector(understood).matches(json(Self.document)) == isMeant, "\(text): \(understood.text)")
    }

    @Test("that is not valid is refused with a message", arguments: [
        ("[]", "invalid_selector_json"), ("{\"$gt\":1}", "invalid_selector"), ("{\"$and\":[{\"$eq\":1}]}", "invalid_selector"),
        ("{\"a\":{\"$frob\":1}}", "invalid_operator"), ("{\"a\":{\"$where\":\"x\"}}", "not_supported"), ("{\"$text\":\"x\"}", "not_supported"),
        ("{\"$and\":{}}", "bad_arg"), ("{\"$not\":[]}", "bad_arg"), ("{\"a\":{\"$in\":1}}", "bad_arg"), ("{\"a\":{\"$exists\":1}}", "bad_arg"),
        ("{\"a\":{\"$mod\":[0,1]}}", "bad_arg"), ("{\"a\":{\"$mod\":[2.5,1]}}", "bad_arg"), ("{\"a\":{\"$size\":-1}}", "bad_arg"),
        ("{\"a\":{\"$elemMatch\":1}}", "bad_arg"), ("{\"a\":{\"$type\":1}}", "bad_arg"), ("{\"a\":{\"$beginsWith\":1}}", "bad_arg"),
        ("{\"a..b\":1}", "invalid_field_name"), ("{\"\":1}", "invalid_field_name"),
    ])
    func refusals(text: String, word: String) throws {
        let error = #expect(throws: SelectorError.self) { try selector(text) }
        #expect(error?.word == word, "\(text): \(error.map { "\($0)" } ?? "-")")
    }

    @Test("is bounded in depth and size")
    func bounds() throws {
        func nested(_ levels: Int) -> String {
            String(repeating: "{\"$not\":", count: levels) + "{\"a\":1}" + String(repeating: "}", count: levels)
        }
        #expect(try selector(nested(20)).matches(json("{\"a\":1}")))
        let deep = try #require(throws: SelectorError.self) { try selector(nested(60)) }
        #expect(deep.reason.contains("selector_depth"))
        let many = (0..<1100).map { "{\"a\":\($0)}" }.joined(separator: ",")
        let wide = try #require(throws: SelectorError.self) { try selector("{\"$or\":[\(many)]}") }
        #expect(wide.reason.contains("selector_conditions"))
        // Lists in a document times conditions are too much.
        let items = Array(repeating: "1", count: 20_000).joined(separator: ",")
        let costly = try selector("{\"l\":{\"$all\":[\((0..<300).map { "\(-$0)" }.joined(separator: ","))]}}")
        let document = try json("{\"l\":[\(items)]}")
        let cost = try #require(throws: SelectorError.self) { try costly.matches(document) }
        #expect(cost.reason.contains("selector_steps"))
        // All documents of one request have a budget together.
        let listed = try json("{\"l\":[\(Array(repeating: "1", count: 1_000).joined(separator: ","))]}")
        var budget = SelectorBudget(1_000_000)
        for _ in 1...3 { #expect(try !costly.matches(listed, &budget)) }
        #expect(budget.spent > 900_000 && budget.spent < 1_000_000)
        let over = try #require(throws: SelectorError.self) { try costly.matches(listed, &budget) }
        #expect(over.reason.contains("selector_request_steps = 1000000"))
        // What a regular expression goes through without taking a character is work as well.
        var patterns = SelectorBudget()
        #expect(try !selector("{\"a\":{\"$regex\":\"(|){100}y\"}}").matches(json("{\"a\":\"\(String(repeating: "z", count: 1_000))\"}"), &patterns))
        #expect(patterns.spent > 100_000)
        // A long list is one condition, and found through quickly.
        #expect(try selector("{\"a\":{\"$in\":[\((0..<50_000).map(String.init).joined(separator: ","))]}}").matches(json("{\"a\":49999}")))
    }
}
