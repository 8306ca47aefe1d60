import LuaRuntime
import TestRandomness
import Testing

@Suite("Documents read lazily")
struct DocumentTests {
    static let json = #"""
        { "type" : "reading","owner":"ann","n":42,"big":9223372036854775807,"over":9223372036854775808,"x":-1.5e3,"f":2.0,
          "neg":-0,"yes":true,"no":false,"nothing":null,"esc":"a\"b\\c\/\n\u00e9\ud83d\ude00\ud800","e\u0301k":1,"a.b":2,
          "address":{"city":"Bonn","geo":{"lat":50.7},"empty":{}},"tags":["a",["b"],{"c":3},null,1],"none":[],
          "quote":"{\"type\":\"fake\",", "type2":"x" }
        """#

    @Test(arguments: [
        #"return doc.type == "reading" and doc.owner == "ann""#,
        #"return doc.n == 42 and math.type(doc.n) == "integer""#,
        #"return doc.big == math.maxinteger and math.type(doc.big) == "integer""#,
        #"return math.type(doc.over) == "float" and doc.over == 2^63"#,
        #"return doc.x == -1500 and math.type(doc.x) == "float""#,
        #"return math.type(doc.f) == "float" and doc.f == 2"#,
        #"return math.type(doc.neg) == "float" and 1/doc.neg == -math.huge"#,
        #"return doc.yes == true and doc.no == false"#,
        #"return doc.nothing == nightjar.null and doc.nothing ~= nil and doc.missing == nil"#,
        #"return doc.esc == "a\"b\\c/\n\u{e9}\u{1F600}\u{FFFD}""#,
        #"return doc["e\u{301}k"] == 1 and doc["a.b"] == 2 and doc["e\\u0301k"] == nil"#,
        #"return doc.address.city == "Bonn" and doc.address.geo.lat == 50.7 and doc.address.type == nil"#,
        #"return doc.quote == '{"type":"fake",' and doc.type2 == "x""#,
        #"return #doc.tags == 5 and #doc.none == 0 and doc.tags[1] == "a" and doc.tags[2][1] == "b" and doc.tags[3].c == 3"#,
        #"return doc.tags[4] == nightjar.null and doc.tags[5] == 1 and doc.tags[6] == nil and doc.tags[0] == nil and doc.tags.x == nil"#,
        #"return doc.tags[5] == 1 and doc.tags[1] == "a" and doc.tags[3].c == 3"#,
        #"return doc._id == "doc" and doc._rev == "1-a" and doc._deleted == false"#,
        #"return doc.address == doc.address and doc.address ~= doc.tags and type(doc) == "table" and type(doc.tags) == "table""#,
        #"local n = 0 for i, v in ipairs(doc.tags) do n = n + i end return n == 15"#,
        #"local t = {} for k, v in pairs(doc.tags) do t[k] = v end return t[1] == "a" and t[5] == 1 and #t == 5"#,
        #"local n = 0 for k, v in pairs(doc) do n = n + 1 assert(doc[k] == v) end return n == 19"#,
        #"for k in pairs(doc.address.empty) do return false end return next(doc.none) == nil and next(doc.address) == "city""#,
        #"return table.concat({table.unpack(doc.tags, 1, 1)}, ",") == "a" and doc[1] == nil and doc[nil] == nil"#,
    ])
    func reads(_ body: String) throws {
        #expect(try run(body, on: Self.json))
        // The same with every block boundary of the search at another place.
        for pad in [1, 7, 13, 31, 50, 63] {
            let padded = "{\"pad\":\"" + String(repeating: "p", count: pad) + "\"," + Self.json.dropFirst()
            #expect(try run(body.replacing("n == 19", with: "n == 20"), on: padded), "pad \(pad)")
        }
    }

    @Test("copy gives plain tables that can be edited and keeps arrays apart")
    func copies() throws {
        #expect(try run(
            #"local c = nightjar.copy(doc) c.x = 1 c.tags[1] = "z" c.none[1] = 1 return c.x == 1 and doc.x == -1500 and doc.tags[1] == "a" and nightjar.json.encode(nightjar.copy(doc).none) == "[]" and nightjar.json.encode(nightjar.copy(doc.address).empty) == "{}""#,
            on: Self.json))
    }

    @Test("writing names the field", arguments: ["doc.status = 1", "doc['status'] = nil", "doc.address.status = 2"])
    func readOnly(_ body: String) throws {
        let failed = try failure("doc.x = doc.x\n", on: Self.json)
        #expect(failed.message.hasPrefix("p.lua:2: ") && failed.message.contains("'x'"))
        let other = try failure(body, on: Self.json)
        #expect(other.kind == .error && other.message.hasPrefix("p.lua:2: the document is read-only: cannot set 'status'"))
    }

    @Test("a document kept after its call is dead, also in the next call on the same plugin")
    func diesWithTheCall() throws {
        try onPluginThread {
            let state = try makeState("""
                local kept, nested, iterate
                return { push_filter = function(doc)
                  if not kept then kept, nested, iterate = doc, doc.address, pairs(doc) return true end
                  if doc.how == 1 then return kept.type == "x" end
                  if doc.how == 2 then return nested.city end
                  if doc.how == 3 then return #kept end
                  if doc.how == 4 then return iterate(kept) end
                  if doc.how == 5 then return nightjar.copy(kept) end
                  if doc.how == 6 then return nightjar.json.encode({kept}) end
                  if doc.how == 7 then kept.x = 1 end
                  return kept == doc
                end }
                """)
            #expect(try state.filter(Self.json))
            for how in 1...7 {
                #expect {
                    _ = try state.filter("{\"how\":\(how),\"address\":{\"city\":\"Bonn\"}}")
                } throws: { error in
                    (error as? LuaFailure)?.message.contains("document no longer valid") == true
                }
            }
            #expect(try !state.filter("{}"))
        }
    }

    @Test("bytes that are not JSON give an error and nothing is read out of bounds")
    func badBytes() throws {
        try onPluginThread {
            let state = try makeState("""
                return { push_filter = function(doc)
                  local function try(f) local ok, m = pcall(f) return ok end
                  try(function() return doc.type end) try(function() return doc.zzz end)
                  try(function() for k, v in pairs(doc) do if type(v) == "table" then for a, b in pairs(v) do end end end end)
                  try(function() return nightjar.copy(doc) end) try(function() return #doc.tags + #doc end)
                  try(function() return doc.tags[3] end) try(function() return doc.address.geo.lat end)
                  return true
                end }
                """)
            var generator = SystemRandomNumberGenerator()
            let seed = UInt64.random(in: .min ... .max, using: &generator)
            print("seed \(seed)")
            var random = SeededGenerator(seed: seed)
            let bytes = Array(Self.json.utf8)
            for length in 0..<bytes.count {
                #expect(try state.filter(String(decoding: bytes[..<length], as: UTF8.self)))
            }
            let use = try state.makeUse(makeContext())
            for _ in 0..<3000 {
                var changed = bytes
                for _ in 0..<Int.random(in: 1...6, using: &random) {
                    let at = Int.random(in: 0..<changed.count, using: &random)
                    changed[at] = [0x22, 0x5C, 0x7B, 0x7D, 0x5B, 0x5D, 0x2C, 0x3A, 0x00, 0xFF, 0x65, 0x75][Int.random(in: 0..<12, using: &random)]
                }
                let document = LuaDocument(id: "x", revision: "1-x", body: changed)
                #expect(try state.callFilter(.pushFilter, document: document, use: use))
            }
        }
    }

    @Test("more top-level strings than the search remembers, and keys of every length")
    func manyFields() throws {
        var json = "{"
        for n in 0..<300 { json += "\"\(String(repeating: "k", count: n % 40))\(n)\":\"v\(n)\"," }
        json += "\"\":\"empty\",\"last\":[1,{\"last\":2}]}"
        #expect(try run("""
            for n = 299, 0, -7 do assert(doc[("k"):rep(n % 40) .. n] == "v" .. n) end
            for n = 0, 299 do assert(doc[("k"):rep(n % 40) .. n] == "v" .. n) end
            return doc[""] == "empty" and doc.last[2].last == 2 and doc.v1 == nil
            """, on: json))
    }

    /// A value written with random spacing, escapes, brackets and quotes in strings, and nesting.
    static func randomJSON(_ depth: Int, _ random: inout SeededGenerator) -> String {
        func space() -> String { ["", "", "", " ", "\n\t"].randomElement(using: &random) ?? "" }
        func text() -> String {
            let pieces = ["a", "bc", "{", "}", "[", "]", ":", ",", "\\\"", "\\\\", "\\n", "\\u00e9", "é", " ", "key", "\\ud83d\\ude00", "a long run of plain text without anything"]
            return (0..<Int.random(in: 0...6, using: &random)).map { _ in pieces.randomElement(using: &random) ?? "" }.joined()
        }
        switch Int.random(in: 0..<(depth == 0 ? 5 : 8), using: &random) {
        case 0: return "\"\(text())\""
        case 1: return "\(Int64.random(in: .min ... .max, using: &random))"
        case 2: return "\(Double.random(in: -1e9...1e9, using: &random))"
        case 3: return "true"
        case 4: return "null"
        case 5:
            let items = (0..<Int.random(in: 0...4, using: &random)).map { _ in space() + randomJSON(depth - 1, &random) + space() }
            return "[" + space() + items.joined(separator: ",") + "]"
        default:
            let members = (0..<Int.random(in: 0...9, using: &random)).map { n in
                space() + "\"k\(text())\(n)\"" + space() + ":" + space() + randomJSON(depth - 1, &random) + space()
            }
            return "{" + space() + members.joined(separator: ",") + "}"
        }
    }

    @Test("reading lazily and copying agree on random documents")
    func agrees() throws {
        let seed = UInt64.random(in: .min ... .max)
        print("seed \(seed)")
        try onPluginThread {
            var random = SeededGenerator(seed: seed)
            let state = try makeState("""
                local function same(lazy, plain)
                  if type(plain) ~= "table" then return lazy == plain and math.type(lazy) == math.type(plain) end
                  if #lazy ~= #plain then return false end
                  local n = 0
                  for k, v in pairs(plain) do n = n + 1 if not same(lazy[k], v) then return false end end
                  for k, v in pairs(lazy) do n = n - 1 if not same(v, plain[k]) then return false end end
                  return n == 0 and lazy.k == nil and lazy.missing == nil
                end
                return { push_filter = function(doc) return same(doc, nightjar.copy(doc)) and same(doc, nightjar.json.decode(nightjar.json.encode(doc))) end }
                """)
            var count = 0
            while count < 400 {
                let json = Self.randomJSON(4, &random)
                guard json.hasPrefix("{") else { continue }
                count += 1
                #expect(try state.filter(json), "\(json)")
            }
        }
    }

    @Test("an empty body of a tombstone reads as an empty object")
    func tombstone() throws {
        try onPluginThread {
            let state = try makeState("return { pull_filter = function(doc, ctx) return doc._deleted and ctx.flags.deleted and not ctx.flags.access_removed and doc.x == nil end }")
            let use = try state.makeUse(makeContext())
            let document = LuaDocument(id: "é", revision: "2-b", isDeleted: true, body: [])
            #expect(try state.callFilter(.pullFilter, document: document, use: use, flags: [.deleted]))
            #expect(try state.callFilter(.pullFilter, document: document, use: use), "a deletion is flagged of itself")
            #expect(try !state.callFilter(.pullFilter, document: document, use: use, flags: [.deleted, .accessRemoved]))
        }
    }
}
