import LuaRuntime
import Testing

/// Documents are asked about several at a time; nobody should be able to tell.
@Suite("Filters asked about many documents")
struct FilterCallTests {
    private func answers(
        _ state: LuaPluginState, _ documents: [LuaDocument], limits: LuaCallLimits = .filter
    ) throws -> (passed: [Bool?], failures: [LuaFailure]) {
        let use = try state.makeUse(makeContext())
        defer { state.release(use) }
        var passed: [Bool?] = []
        var failures: [LuaFailure] = []
        try documents.withUnsafeBufferPointer { documents in
            while passed.count < documents.count {
                var answers: [Bool] = []
                do throws(LuaFailure) {
                    try state.callFilter(
                        .pushFilter, about: UnsafeBufferPointer(rebasing: documents[passed.count...]), use: use, limits: limits,
                        answers: &answers)
                    passed += answers
                } catch {
                    passed += answers
                    passed.append(nil)
                    failures.append(error)
                    continue
                }
                try #require(!answers.isEmpty, "the first document is always judged")
            }
        }
        return (passed, failures)
    }

    @Test("each document gets its own answer, flags and names, whatever the sizes")
    func mixed() throws {
        try onPluginThread {
            let state = try makeState("""
                return { push_filter = function(doc, ctx)
                  assert(doc._id == 'doc-' .. doc.n and doc._rev == doc.n + 1 .. '-ab', doc._id)
                  assert(doc._deleted == (doc.n % 3 == 0) and ctx.flags.deleted == doc._deleted)
                  assert(#doc.pad == doc.size)
                  return doc.n % 2 == 0
                end }
                """)
            let documents = (0..<200).map { number in
                // Small ones go together, those of more than 512 bytes go alone.
                let size = number % 7 == 0 ? 500 + number : number % 11 == 0 ? 100_000 : number
                return LuaDocument(
                    "{\"n\":\(number),\"size\":\(size),\"pad\":\"\(String(repeating: "x", count: size))\"}", id: "doc-\(number)",
                    revision: "\(number + 1)-ab", isDeleted: number % 3 == 0)
            }
            let (passed, failures) = try answers(state, documents)
            #expect(failures.isEmpty, "\(failures)")
            #expect(passed == (0..<200).map { $0 % 2 == 0 })
        }
    }

    @Test("a failure is that of its document; the others are judged")
    func failures() throws {
        try onPluginThread {
            let state = try makeState("""
                return { push_filter = function(doc, ctx)
                  if doc.n == 7 then error('seven') end
                  if doc.n == 20 then return end
                  if doc.n == 31 then while true do end end
                  if doc.n == 32 then return doc.n.x end
                  return true
                end }
                """)
            let documents = (0..<40).map { LuaDocument("{\"n\":\($0)}") }
            let (passed, failures) = try answers(state, documents)
            #expect(passed.enumerated().filter { $0.element == nil }.map(\.offset) == [7, 20, 31, 32])
            #expect(failures.map(\.kind) == [.error, .result, .timeout, .error])
            #expect(failures[0].message.contains("p.lua:2: seven") && failures[1].message.contains("returned no value"))
        }
    }

    @Test("every document has the whole budget, and leaves nothing behind for the next")
    func budgets() throws {
        try onPluginThread {
            let state = try makeState("""
                local kept
                return { push_filter = function(doc, ctx)
                  local alive = kept and pcall(function() return kept.n end)
                  kept = doc
                  local other = nightjar.copy(doc)
                  for i = 1, 60000 do other.n = other.n + 1 end
                  return not alive
                end }
                """)
            // Above what thirty of them may spend together, below what one may.
            let limits = LuaCallLimits(cpuMilliseconds: 5000, instructions: 1_000_000)
            let (passed, failures) = try answers(state, (0..<30).map { LuaDocument("{\"n\":\($0)}") }, limits: limits)
            #expect(failures.isEmpty, "\(failures)")
            #expect(passed.allSatisfy { $0 == true })
        }
    }

    @Test("a coroutine that was running when the limit was checked does not leave its creator unlimited", arguments: [
        "local co = coroutine.wrap(function() for i = 1, 2e6 do end coroutine.yield() end) co() while true do end",
        "local co = coroutine.wrap(function() while true do for i = 1, 2e6 do end coroutine.yield() end end) co() while true do co() end",
        "local co = coroutine.wrap(function() while true do end end) for i = 1, 2e6 do end co()",
        "local a = coroutine.create(function() coroutine.yield() while true do end end) coroutine.resume(a) for i = 1, 2e6 do end coroutine.resume(a)",
        "local function nest(n) if n == 0 then for i = 1, 2e6 do end return end coroutine.wrap(nest)(n - 1) while true do end end nest(10)",
        "keep = _G.keep or coroutine.wrap(function() while true do for i = 1, 3e5 do end coroutine.yield() end end) keep() while true do keep() end",
    ])
    func coroutines(_ body: String) throws {
        for _ in 0..<3 {
            #expect(try failure(body, call: LuaCallLimits(cpuMilliseconds: 40, instructions: 1_000_000_000)).kind == .timeout)
        }
    }
}
