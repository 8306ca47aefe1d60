import LuaRuntime
import TestRandomness
import Testing

/// Objects that are searched so often in one call that their members are indexed.
@Suite("Large documents read by name")
struct LargeDocumentTests {
    static let patient = LuaCallLimits(cpuMilliseconds: 60_000, instructions: 1_000_000_000)
    /// So few that they are counted one by one from the first on; more are charged by time until a call has run for a while.
    static let counted = LuaCallLimits(cpuMilliseconds: 60_000, instructions: 1_999_999)

    /// Reads every name of a plain copy in the document itself, several times over, and each member of the members that are objects.
    static let comparison = """
        local function same(lazy, plain)
          if type(plain) ~= "table" then return lazy == plain and math.type(lazy) == math.type(plain) end
          for round = 1, 3 do
            local n = 0
            for k, v in pairs(plain) do n = n + 1 if not same(lazy[k], v) then return false end end
            for k, v in pairs(lazy) do n = n - 1 if not same(v, plain[k]) then return false end end
            if n ~= 0 or lazy.missing ~= nil or lazy["mis\\\\nsing"] ~= nil or lazy['a":'] ~= nil then return false end
          end
          return true
        end
        return { push_filter = function(doc) return same(doc, nightjar.copy(doc)) end }
        """

    @Test("every member is found at any time, nested and with escapes in the keys", arguments: [100, 200, 1_000, 3_000])
    func finds(count: Int) throws {
        func members(_ key: (Int) -> String, _ value: (Int) -> String) -> String {
            "{" + (0..<count).map { "\"\(key($0))\" : \(value($0))" }.joined(separator: ",") + "}"
        }
        let plain = members({ "field_\($0)" }, { "\($0)" })
        let escaped = members({ "f\\u00e9\\n\($0)" }, { "\"v\\t\($0)\"" })
        let long = members({ String(repeating: "the same long beginning ", count: 4) + "\($0)" }, { "[\($0)]" })
        let mixed = members({ $0 % 2 == 0 ? "é\($0)" : "\\u00e9\($0)" }, { "{\"n\":\($0)}" })
        try onPluginThread {
            let state = try makeState(Self.comparison)
            let limits = Self.patient
            for json in [plain, escaped, long, mixed] {
                #expect(try state.filter(json, limits: limits))
                #expect(try state.filter("{\"first\":1,\"in\":\(json),\"last\":2}", limits: limits))
            }
            #expect(try state.filter("{\"a\":\(plain),\"b\":\(mixed),\"c\":{\"d\":\(escaped)},\"e\":\(long)}", limits: limits))
        }
    }

    @Test("many large objects in turn: more than are tracked at a time")
    func manyObjects() throws {
        let object = "{" + (0..<60).map { "\"name of a field \($0)\":\($0)" }.joined(separator: ",") + "}"
        let json = "{" + (0..<40).map { "\"o\($0)\":\(object)" }.joined(separator: ",") + "}"
        let limits = Self.patient
        #expect(try run("""
            for round = 1, 3 do
              for n = 0, 59 do
                for o = 0, 39 do assert(doc["o" .. o]["name of a field " .. n] == n) end
              end
            end
            return true
            """, on: json, call: limits))
    }

    @Test("of members with the same name the same one is returned before and after indexing, however they are written")
    func duplicates() throws {
        let rest = (0..<600).map { "\"field_\($0)\":\($0)" }.joined(separator: ",")
        let pairs = #""x":1,"\u0078":2,"x":3,"\u0079":4,"y":5,"\u007a":6,"z\u002e":7,"\u007a":8,"#
        for json in ["{\(pairs)\(rest)}", "{\(rest),\(pairs)\"end\":0}"] {
            #expect(try run("""
                local function look() return doc.x .. doc.y .. doc.z .. doc["z."] end
                local before = look()
                for n = 0, 599 do assert(doc["field_" .. n] == n) end
                for n = 599, 0, -1 do assert(doc["field_" .. n] == n) end
                assert(doc.none == nil)
                return before == "1567" and look() == before
                """, on: json), "\(json.prefix(80))")
        }
    }

    @Test("next goes on from any name")
    func next() throws {
        let json = "{" + (0..<2_000).map { "\"n\($0)\":\($0)" }.joined(separator: ",") + "}"
        #expect(try run("""
            for round = 1, 5 do
              for n = 1998, 0, -7 do local k, v = next(doc, "n" .. n) assert(k == "n" .. n + 1 and v == n + 1) end
            end
            return next(doc, "n1999") == nil and not pcall(next, doc, "n2000")
            """, on: json))
    }

    @Test("reading lazily and copying agree on random large documents")
    func agrees() throws {
        let seed = UInt64.random(in: .min ... .max)
        print("seed \(seed)")
        try onPluginThread {
            var random = SeededGenerator(seed: seed)
            let state = try makeState(Self.comparison)
            let limits = Self.patient
            for _ in 0..<40 {
                let members = (0..<Int.random(in: 50...400, using: &random)).map { n in
                    "\"\(["", "k", "\\u006b", "\\\"", "ключ", "\\\\"].randomElement(using: &random) ?? "")\(n)\": \(DocumentTests.randomJSON(2, &random))"
                }
                let json = "{\n" + members.joined(separator: " ,") + "}"
                #expect(try state.filter(json, limits: limits), "\(json)")
                #expect(try state.filter("{\"in\":\(json)}", limits: limits), "\(json)")
            }
        }
    }

    @Test("bytes that are not JSON give an error and nothing is read out of bounds")
    func badBytes() throws {
        let seed = UInt64.random(in: .min ... .max)
        print("seed \(seed)")
        let text = "{" + (0..<260).map { "\"\($0 % 9 == 0 ? "\\u006b" : "k")\($0)\":\($0 % 7 == 0 ? "{\"a\":\"b\\n\"}" : "\"text\"")" }.joined(separator: ",") + "}"
        try onPluginThread {
            var random = SeededGenerator(seed: seed)
            let state = try makeState("""
                return { push_filter = function(doc)
                  for round = 1, 4 do
                    for n = 0, 260, 3 do pcall(function() return doc["k" .. n].a end) end
                    pcall(function() for k in pairs(doc) do local v = doc[k] end end)
                  end
                  return true
                end }
                """)
            let use = try state.makeUse(makeContext())
            let bytes = Array(text.utf8)
            for _ in 0..<400 {
                var changed = bytes
                if Int.random(in: 0..<4, using: &random) == 0 { changed.removeLast(Int.random(in: 1...3_000, using: &random)) }
                for _ in 0..<Int.random(in: 1...3, using: &random) {
                    let at = Int.random(in: 0..<changed.count, using: &random)
                    changed[at] = [0x22, 0x5C, 0x7B, 0x7D, 0x5B, 0x5D, 0x2C, 0x3A, 0x00, 0xFF].randomElement(using: &random) ?? 0
                }
                #expect(try state.callFilter(.pushFilter, document: LuaDocument(id: "x", revision: "1-x", body: changed), use: use))
            }
        }
    }

    /// Members of an object and what a call that reads all of them by name, each once, is charged.
    private func charged(_ count: Int, limits: LuaLimits = LuaLimits(), call: LuaCallLimits = Self.patient) throws -> Int {
        let json = "{" + (0..<count).map { "\"field_\($0)\":\($0)" }.joined(separator: ",") + "}"
        return try onPluginThread {
            let state = try makeState("return { push_filter = function(doc) for k, v in pairs(doc) do assert(doc[k] == v) end return true end }", limits: limits)
            #expect(try state.filter(json, limits: call))
            return state.lastInstructions
        }
    }

    @Test("going through a document and asking for each name costs in proportion to its members")
    func grows() throws {
        let (few, many) = (try charged(2_000, call: Self.counted), try charged(20_000, call: Self.counted))
        #expect(many < few * 13, "\(few), \(many)")
    }

    @Test("if an index does not fit into the state's memory, none is used")
    func smallMemory() throws {
        var limits = LuaLimits()
        limits.memoryBytes = 1 << 20
        let without = try charged(20_000, limits: limits)
        #expect(try charged(20_000) < without / 4)
    }

    @Test("its memory is given back at the end of the call")
    func memory() throws {
        let json = "{" + (0..<20_000).map { "\"field_\($0)\":\($0)" }.joined(separator: ",") + "}"
        try onPluginThread {
            let state = try makeState("""
                return { push_filter = function(doc)
                  for n = 0, 30 do assert(doc["field_" .. 19999 - n] == 19999 - n) end
                  if doc.fails then error("x") end
                  return true
                end }
                """)
            #expect(try state.filter(json))
            let before = state.memoryBytes
            for _ in 0..<50 { #expect(try state.filter(json)) }
            #expect(throws: LuaFailure.self) { try state.filter("{\"fails\":1," + json.dropFirst()) }
            #expect(state.memoryBytes < before + 200_000)
            #expect(state.peakMemoryBytes > before + 300_000, "the index counts as the state's memory")
        }
    }

    @Test("a loop that never ends over an indexed document is stopped", arguments: [
        "while true do local v = doc.field_19999 end",
        "while true do local v = doc.missing end",
        "local n = 0 while true do n = n + 1 local v = doc[\"m\" .. n] end",
        "local k while true do k = next(doc, k) end",
        "while true do pcall(next, doc, \"field_19999\") end",
    ])
    func hostileLoops(_ body: String) throws {
        let json = "{" + (0..<20_000).map { "\"field_\($0)\":\($0)" }.joined(separator: ",") + "}"
        #expect(try failure(body, on: json).kind == .timeout)
    }
}
