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
            // Old-style forms are read, and not written; a text patch may cut elsewhere.
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

    /// What both strings share at their ends is not sent again; counted in bytes, and no character is split.
    @Test(arguments: [
        ("to wound the autumnal city. The in-dark answered with the wind.", "to wound the autumnal city. So howled out for the world to give him a name. The in-dark answered with the wind.",
            "28=48+So howled out for the world to give him a name. |35="),
        // 59 bytes and 60.
        (String(repeating: "a", count: 60), String(repeating: "a", count: 59), nil), (String(repeating: "a", count: 61), String(repeating: "a", count: 60), "60=1-"),
        // é and è begin with one byte, é and ũ end with one.
        ("é" + String(repeating: "x", count: 60), "è" + String(repeating: "x", count: 60), "2-2+è|60="),
        (String(repeating: "x", count: 60) + "é", String(repeating: "x", count: 60) + "ũ", "60=2-2+ũ|"),
        ("\u{1F600}" + String(repeating: "x", count: 60), "\u{1F601}" + String(repeating: "x", count: 60), "4-4+\u{1F601}|60="),
        // One letter more in a row of the same: the ends do not overlap.
        (String(repeating: "a", count: 70), String(repeating: "a", count: 80), "70=10+aaaaaaaaaa|"),
        ("", String(repeating: "a", count: 80), nil), (String(repeating: "b", count: 80), String(repeating: "a", count: 80), nil),
        // As long as the text itself.
        (String(repeating: "a", count: 20) + String(repeating: "b", count: 60), String(repeating: "a", count: 10) + String(repeating: "c", count: 70), nil),
    ] as [(String, String, String?)])
    func textsAreMadeOfWhatChanged(_ old: String, _ new: String, _ patch: String?) throws {
        let (before, after): (JSONValue, JSONValue) = (["s": .string(old)], ["s": .string(new)])
        let made = try #require(JSONDelta.make(from: before.serialize(), to: after.serialize()))
        let change = try JSONValue(parsing: made)["s"]
        #expect(change == patch.map { .array([.string($0), 0, 2]) } ?? .string(new), "\(text(made))")
        #expect(try JSONValue(parsing: JSONDelta.apply(made, to: before.serialize(), limit: 1 << 20)) == after)
    }

    @Test func textsComeBack() throws {
        var random = SeededGenerator(seed: makeSeed("JSONDeltaText"))
        let letters: [Unicode.Scalar] = ["a", "b", "\"", "é", "è", "\u{301}", "\u{1F600}", "\u{1F601}", "|", "="]
        func word(_ count: Int, _ random: inout SeededGenerator) -> [Unicode.Scalar] { (0..<count).map { _ in letters[random.below(letters.count)] } }
        for _ in 0..<2_000 {
            let length = random.below(120)
            let old = word(length, &random)
            var new = old
            let start = random.below(new.count + 1)
            let (removed, added) = (random.below(new.count - start + 1), random.below(40))
            new.replaceSubrange(start..<start + removed, with: word(added, &random))
            func body(_ scalars: [Unicode.Scalar]) -> [UInt8] {
                var text = String.UnicodeScalarView()
                text.append(contentsOf: scalars)
                let body: JSONValue = ["s": .string(String(text))]
                return body.serialize()
            }
            let delta = try #require(JSONDelta.make(from: body(old), to: body(new)))
            let back = try JSONDelta.apply(delta, to: body(old), limit: 1 << 20)
            #expect(back == body(new), "\(text(body(old))) to \(text(body(new))) by \(text(delta))")
            // A patch is never the longer way.
            #expect(delta.count <= body(new).count)
            if back != body(new) { return }
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

    /// The old body is not decoded, since its values may take many times the memory of its text.
    @Test(arguments: [
        (#"{ "a" : [ 1.0, "\u0041", {"b" : 1} ] , "b" : 1 }"#, #"{"b":2}"#, #"{"a":[ 1.0, "\u0041", {"b" : 1} ],"b":2}"#),
        (#"{"a": [ 1.0 , {"x" : 2}, 3 ]}"#, #"{"a":{"0":7,"2-":[4,5]}}"#, #"{"a":[7,{"x" : 2},4,5]}"#),
        (#"{"a":{ "x":1 , "y" : 2}}"#, #"{"a":{"x":[]}}"#, #"{"a":{"y":2}}"#),
        // Of equal keys, which older versions let in, the last one counts; and a key may be written with escapes.
        (#"{"a":1,"b":1,"a":2}"#, #"{"a":3}"#, #"{"b":1,"a":3}"#), (#"{"a":1,"b":1,"a":2}"#, #"{"a":[]}"#, #"{"b":1}"#),
        (#"{"\u0061":1,"c":"]}"}"#, #"{"a":2}"#, #"{"a":2,"c":"]}"}"#), (" {} ", #"{"a":2}"#, #"{"a":2}"#),
    ])
    func whatADeltaDoesNotTouchIsTakenOverAsItIsWritten(_ old: String, _ delta: String, _ new: String) throws {
        #expect(try apply(delta, to: old) == new)
        // With more changes than are compared one by one.
        let more = (0..<10).map { ",\"more\($0)\":\($0)" }.joined()
        #expect(try apply(delta.dropLast() + more + "}", to: old) == new.dropLast() + more + "}")
    }

    /// What is larger than a few kilobytes is passed over by where it is known to end.
    @Test(arguments: [true, false])
    func aChangeDeepInsideOfMuchTextIsMade(inArrays: Bool) throws {
        let levels = 60
        func text(_ innermost: String) -> String {
            (0..<levels).reduce(innermost) { inside, level in
                let around = "{\"}]\":\"\(String(repeating: "[{\\\"", count: 20 * level))\",\"list\":[[\(level)],{}]}"
                return inArrays ? "[\(around),\(inside),\(around)]" : "{\"before\":\(around),\"in\":\(inside),\"behind\":\(around)}"
            }
        }
        func body(_ innermost: String) -> String { "{\"all\":\(text(innermost))}" }
        let key = inArrays ? "1" : "in"
        let delta = "{\"all\":" + String(repeating: "{\"\(key)\":", count: levels) + "[2]" + String(repeating: "}", count: levels) + "}"
        #expect(try apply(delta, to: body("1")) == body("2"))
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
