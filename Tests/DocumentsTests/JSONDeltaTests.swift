import TestRandomness
import Testing

@testable import Documents

/// Deltas in the field's form: as the vectors have them, there and back, and from those who mean harm.
@Suite struct JSONDeltaTests {
    private func apply(_ delta: String, to old: String, limit: Int = 1 << 20) throws -> String {
        text(try JSONDelta.apply(Array(delta.utf8), to: Array(old.utf8), limit: limit))
    }

    @Test func vectorsAreAppliedAndMade() throws {
        let vectors = try replicationVectors()
        for vector in try #require(vectors["delta"]?.asArray) {
            let name = vector["name"]?.asString ?? ""
            let (old, delta, new) = (try #require(vector["old"]), try #require(vector["delta"]), try #require(vector["new"]))
            let applied = try JSONDelta.apply(delta.serialize(), to: old.serialize(), limit: 1 << 20)
            #expect(try JSONValue(parsing: applied) == new, "\(name)")
            let made = try #require(JSONDelta.make(from: old.serialize(), to: new.serialize()))
            #expect(try JSONValue(parsing: JSONDelta.apply(made, to: old.serialize(), limit: 1 << 20)) == new, "\(name): \(text(made))")
            // Old-style forms and text patches are read, and not written.
            if !name.hasPrefix("old-style"), !name.hasPrefix("text") { #expect(try JSONValue(parsing: made) == delta, "\(name): \(text(made))") }
        }
        for vector in try #require(vectors["delta_reject"]?.asArray) {
            let (old, delta) = (try #require(vector["old"]), try #require(vector["delta"]))
            #expect(throws: JSONDelta.Failure.self, "\(vector["name"]?.asString ?? "")") {
                try JSONDelta.apply(delta.serialize(), to: old.serialize(), limit: 1 << 20)
            }
        }
    }

    @Test func whatComesBackIsWhatWasSent() throws {
        var random = SeededGenerator(seed: makeSeed("JSONDelta"))
        for _ in 0..<2_000 {
            let old = object(&random, depth: 4)
            var new = random.chance(oneIn: 4) ? object(&random, depth: 4) : old
            for _ in 0..<random.below(4) { change(&new, &random) }
            let delta = try #require(JSONDelta.make(from: old.serialize(), to: new.serialize()))
            let back = try JSONValue(parsing: JSONDelta.apply(delta, to: old.serialize(), limit: 1 << 20))
            #expect(back == new, "\(old.text) to \(new.text) by \(text(delta))")
            if back != new { return }
        }
    }

    @Test func hostileDeltasAreRefused() throws {
        let deep = String(repeating: #"{"a":"#, count: 200) + "1" + String(repeating: "}", count: 200)
        for (delta, old) in [
            (#"{"a":{"00":5}}"#, #"{"a":[1,2]}"#), (#"{"a":{"01":5}}"#, #"{"a":[1,2]}"#), (#"{"a":{"01-":[]}}"#, #"{"a":[1,2]}"#),
            ("", "{}"), ("[]", "{}"), ("[{}]", "{}"), ("1", "{}"), ("{}{}", "{}"), (deep, "{}"), (#"{"a":{"b":1}}"#, "{}"), (#"{"a":[]}"#, "{}"),
            (#"{"a":{"7":1}}"#, #"{"a":[1]}"#), (#"{"a":{"-1":1}}"#, #"{"a":[1]}"#), (#"{"a":{"-":[]}}"#, #"{"a":[1]}"#), (#"{"a":{"+0":2}}"#, #"{"a":[1]}"#),
            (#"{"a":{"2-":[]}}"#, #"{"a":[1]}"#), (#"{"a":{"0-":[],"1-":[]}}"#, #"{"a":[1]}"#), (#"{"a":{"0":[]}}"#, #"{"a":[1]}"#),
            (#"{"a":{"99999999999999999999":1}}"#, #"{"a":[1]}"#), (#"{"a":["3=9999999999999999999999+x|",0,2]}"#, #"{"a":"abc"}"#),
            (#"{"a":["3=",0,2]}"#, #"{"a":1}"#), (#"{"a":["1=1+|2-",0,2]}"#, #"{"a":"abc"}"#), (#"{"a":["1=1-",0,2]}"#, #"{"a":"é"}"#),
            (#"{"a":["3",0,2]}"#, #"{"a":"abc"}"#), (#"{"a":["=",0,2]}"#, #"{"a":"abc"}"#),
        ] {
            #expect(throws: JSONDelta.Failure.self, "\(delta.prefix(60)) over \(old)") { try apply(delta, to: old) }
        }
    }

    /// Nothing of the base is used twice, so what a delta makes is bounded by what went in.
    @Test func aDeltaDoesNotBlowUp() throws {
        let base = #"{"s":"\#(String(repeating: "x", count: 1_000))","l":[1,2,3]}"#
        let made = try apply(#"{"s":["1000=3+abc|",0,2],"l":{"3-":[4]},"t":[{"u":1}]}"#, to: base)
        #expect(made.utf8.count <= base.utf8.count + 60)
        #expect(throws: JSONDelta.Failure.tooLarge(bytes: base.utf8.count, limit: 500)) { try apply("{}", to: base, limit: 500) }
        // Ten thousand keys take no quadratic time.
        let many = "{" + (0..<10_000).map { "\"k\($0)\":\($0)" }.joined(separator: ",") + "}"
        #expect(try apply(many.replacing(":", with: ":1"), to: many).utf8.count > many.utf8.count)
    }

    private func object(_ random: inout SeededGenerator, depth: Int) -> JSONValue {
        var object = JSONObject()
        for _ in 0..<random.below(depth == 4 ? 14 : 5) { object[["a", "b", "é", "e\u{301}", "0", "1-", "", "x/y"][random.below(8)] + "\(random.below(3))"] = value(&random, depth: depth - 1) }
        return .object(object)
    }

    private func value(_ random: inout SeededGenerator, depth: Int) -> JSONValue {
        switch random.below(depth > 0 ? 8 : 5) {
        case 0: nil
        case 1: .bool(random.chance(oneIn: 2))
        case 2: .int(random.below(5))
        case 3: .string("text \(random.below(4))")
        case 4: []
        case 5: [:]
        case 6: .array((0..<random.below(5)).map { _ in value(&random, depth: depth - 1) })
        default: object(&random, depth: depth - 1)
        }
    }

    private func change(_ value: inout JSONValue, _ random: inout SeededGenerator) {
        switch value {
        case .object(var object) where !object.isEmpty && !random.chance(oneIn: 4):
            let index = random.below(object.count)
            if random.chance(oneIn: 4) { object.members.remove(at: index) } else { change(&object.members[index].value, &random) }
            value = .object(object)
        case .array(var items) where !items.isEmpty && !random.chance(oneIn: 4):
            let index = random.below(items.count)
            if random.chance(oneIn: 3) { items.remove(at: index) } else { change(&items[index], &random) }
            value = .array(items)
        case .object(var object):
            object["new"] = self.value(&random, depth: 2)
            value = .object(object)
        default: value = self.value(&random, depth: 2)
        }
    }
}
