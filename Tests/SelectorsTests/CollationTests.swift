import Documents
import Selectors
import TestRandomness
import Testing

@Suite("The order of values")
struct CollationTests {
    @Test("is by type, then by value")
    func order() throws {
        let values = try [
            "null", "false", "true", "-1e300", "-9223372036854775808", "-9223372036854775807", "-3", "-0.5", "0", "1e-300", "0.1", "2", "10",
            "9007199254740992", "9007199254740993", "9223372036854775806", "9223372036854775807", "9223372036854775808", "18446744073709551614",
            "18446744073709551615", "1e300", "\"\"", "\"\\u0000\"", "\"\\u0000a\"", "\"a\"", "\"a\\u0000\"", "\"aa\"", "\"b\"", "\"ä\"", "[]", "[null]", "[1]",
            "[1,2]", "[2]", "[[]]", "{}", "{\"a\":1}", "{\"a\":1,\"b\":0}", "{\"a\":2}", "{\"b\":0}",
        ].map(json)
        for (i, a) in values.enumerated() {
            for (j, b) in values.enumerated() {
                #expect(Collation.compare(a, b).signum() == (i - j).signum(), "\(a.text) and \(b.text)")
                #expect(sign(CollationKey.of(a), CollationKey.of(b)) == (i - j).signum(), "keys of \(a.text) and \(b.text)")
            }
        }
        for (a, b) in [("1", "1.0"), ("0", "-0.0"), ("1e3", "1000"), ("\"\\u0041\"", "\"A\"")] {
            #expect(try Collation.compare(json(a), json(b)) == 0 && CollationKey.of(json(a)) == CollationKey.of(json(b)))
        }
    }

    @Test("is the same for keys of any values, even several in a row", arguments: [UInt64.random(in: 1...(.max)), 1, 2])
    func keys(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        func value(_ depth: Int) -> JSONValue {
            switch Int.random(in: 0..<(depth == 0 ? 6 : 8), using: &random) {
            case 0: return .null
            case 1: return .bool(.random(using: &random))
            case 2: return .int(Int64.random(in: -3...3, using: &random))
            case 3: return .int(Int64(bitPattern: random.next()))
            case 4: return JSONNumber(Double.random(in: -2...2, using: &random)).map { .number($0) } ?? .null
            case 5: return .string(String((0..<Int.random(in: 0...3, using: &random)).map { _ in "\0a\u{1}ÿ😀".randomElement(using: &random) ?? "a" }))
            case 6: return .array((0..<Int.random(in: 0...3, using: &random)).map { _ in value(depth - 1) })
            default:
                return .object(JSONObject((0..<Int.random(in: 0...2, using: &random)).map { _ in
                    JSONObject.Member(key: "ab".randomElement(using: &random).map(String.init) ?? "", value: value(depth - 1))
                }))
            }
        }
        for _ in 0..<1_500 {
            let (a, b, c, d) = (value(3), value(3), value(1), value(1))
            let order = Collation.compare(a, b).signum()
            #expect(sign(CollationKey.of(a), CollationKey.of(b)) == order, "seed \(seed): \(a.text) and \(b.text)")
            let both = order != 0 ? order : Collation.compare(c, d).signum()
            #expect(
                sign(CollationKey.of(a) + CollationKey.of(c), CollationKey.of(b) + CollationKey.of(d)) == both,
                "seed \(seed): \(a.text), \(c.text) and \(b.text), \(d.text)")
        }
    }

    @Test("of long values is that of their first bytes")
    func long() throws {
        let start = String(repeating: "x", count: 2_000)
        let (a, b, c) = (JSONValue.string(start + "a"), JSONValue.string(start + "b"), JSONValue.string("y"))
        #expect(CollationKey.of(a) == CollationKey.of(b) && CollationKey.of(a).count == SelectorLimits.keyBytes)
        #expect(sign(CollationKey.of(a), CollationKey.of(c)) < 0 && Collation.compare(a, b) < 0)
    }

    private func sign(_ a: [UInt8], _ b: [UInt8]) -> Int { a == b ? 0 : a.lexicographicallyPrecedes(b) ? -1 : 1 }
}
