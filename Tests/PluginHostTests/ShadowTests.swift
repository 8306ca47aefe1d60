import Documents
import Environment
import Glibc
import Interfaces
import LuaRuntime
import Synchronization
import Testing

@testable import PluginHost

/// A candidate is asked the same questions as the serving plugin, and decides nothing.
@Suite(.timeLimit(.minutes(10)))
struct ShadowTests {
    private static let place = "replicator hub push_filter"

    /// The filter `old` with `new` beside it.
    private func shadowed(_ host: PluginHost) throws -> any DocumentFilter {
        try host.shadowed(try host.filter("old"), hook: .pushFilter, by: "new", usedBy: Self.place)
    }

    private func counted(_ host: PluginHost) async throws -> PluginStatus.Shadow {
        await host.shadowsDrained()
        let shadows = try #require(host.status("new")?.shadows)
        #expect(shadows.count == 1)
        return try #require(shadows.first)
    }

    @Test func onlyTheFirstCountsAndDifferencesAreCounted() async throws {
        let folder = Folder()
        folder.write("old.lua", passes("doc.n > 1"))
        folder.write("new.lua", passes("doc.n > 2"))
        try await withHost(folder.path) { host, _ in
            let alone = try host.filter("old")
            let filter = try shadowed(host)
            #expect(filter.pluginName == "old" && filter.version == alone.version && !filter.changesBodies)
            let before = try await counted(host)
            #expect(before.counts == ShadowCounts() && before.since == nil && before.version == nil)
            let documents = (1...3).map { document("{\"n\":\($0),\"secret\":\"s3cr3t\"}", id: "doc-\($0)") }
            #expect(await filter.evaluate(documents, push) == [.reject, .pass, .pass])
            let shadow = try await counted(host)
            #expect(shadow.place == Self.place && shadow.beside == "old")
            #expect(shadow.counts.compared == 3 && shadow.counts.same == 2 && shadow.counts.different == 1 && shadow.counts.failed == 0)
            let difference = try #require(shadow.differences.first)
            #expect(shadow.differences.count == 1 && difference.id == "doc-2" && difference.outcome == .different)
            #expect(difference.serving == "passes" && difference.candidate == "rejected" && difference.collection == "\(CollectionName.default)")
            #expect(!"\(shadow)".contains("s3cr3t"))
            #expect(shadow.version == host.status("new")?.version && shadow.servingVersion == host.status("old")?.version)
            #expect(host.status("new")?.usedBy == ["\(Self.place) shadow"] && host.status("old")?.shadows == [])
            #expect(host.status("new")?.isOnlyShadow == true && host.status("old")?.isOnlyShadow == false)
        }
    }

    /// Errors and timeouts of the candidate affect only the candidate.
    @Test func failuresHoldNothing() async throws {
        let folder = Folder()
        folder.write("old.lua", passes("true"))
        folder.write("new.lua", "return { push_filter = function(doc)\n  if doc.loop then while true do end end\n  error('broken')\nend }\n")
        try await withHost(folder.path) { host, events in
            let filter = try shadowed(host)
            let documents = [document("{\"loop\":true}")] + (0..<120).map { document("{\"n\":\($0)}") }
            #expect(await filter.evaluate(documents, push) == documents.map { _ in .pass })
            let shadow = try await counted(host)
            #expect(shadow.counts.failed == 121 && shadow.counts.compared == 121 && shadow.counts.different == 0)
            // Each failure is listed once: the others repeat it.
            #expect(shadow.differences.contains { $0.candidate.hasPrefix("plugin_timeout: new.lua:2:") && $0.serving == "passes" }, "\(shadow)")
            #expect(shadow.differences.contains { $0.candidate == "plugin_error: new.lua:3: broken" } && shadow.differences.count == 3, "\(shadow)")
            // Its breaker opens as that of a serving plugin does, but nothing is reported as held.
            let status = try #require(host.status("new"))
            #expect(status.notAsked > 0 && status.state == .active && status.failing.isEmpty)
            #expect(host.status("old")?.errors == 0 && host.status("old")?.notAsked == 0)
            #expect(await filter.evaluate(documents, push) == documents.map { _ in .pass })
            folder.save("old.lua", passes("doc.loop"))
            try await events.reloaded("old")
            let isTold = events.seen.contains { if case .failing = $0 { true } else { false } }
            #expect(!isTold)
        }
    }

    /// One plugin may be both the serving plugin and the candidate, with other parameters: each has its own breaker.
    @Test func theSamePluginMayBeItsOwnCandidate() async throws {
        let folder = Folder()
        folder.write("new.lua", "return { params = { most = { type = 'integer', default = 9 } },\n  push_filter = function(doc, ctx)\n    if ctx.params.most == 0 then error('none') end\n    return doc.n <= ctx.params.most\n  end }\n")
        try await withHost(folder.path) { host, _ in
            let filter = try host.shadowed(
                try host.filter("new"), hook: .pushFilter, by: "new", params: .members([("most", .integer(0))]), usedBy: Self.place)
            let documents = (0..<100).map { _ in document("{\"n\":1}") }
            #expect(await filter.evaluate(documents, push) == documents.map { _ in .pass })
            #expect(try await counted(host).counts.failed == 100)
            #expect(host.status("new")?.isOnlyShadow == false)
            #expect(await filter.evaluate(documents, push) == documents.map { _ in .pass })
        }
    }

    private final class Notebook: PluginServices {
        let writers = Shared<[String]>([])
        func readState(plugin: String, key: String) throws(PluginServiceRefusal) -> LuaValue { .missing }
        func writeState(plugin: String, key: String, value: LuaValue) throws(PluginServiceRefusal) { writers.withLock { $0.append("\(plugin) \(key)") } }
    }

    /// What the serving plugin decides must not depend on what its candidate wrote.
    @Test func aCandidateWritesNoStateOfAPluginThatServes() async throws {
        let folder = Folder()
        let source = "return { params = { key = { type = 'string', default = 'served' } },\n  push_filter = function(doc, ctx) nightjar.state[ctx.params.key] = doc.n return true end }\n"
        for name in ["old", "new"] { folder.write("\(name).lua", source) }
        let notebook = Notebook()
        try await withHost(folder.path, services: notebook) { host, _ in
            func asked(beside plugin: String) async throws -> PluginStatus.Shadow {
                let filter = try host.shadowed(
                    try host.filter(plugin), hook: .pushFilter, by: "new", params: .members([("key", .text("watched"))]), usedBy: Self.place)
                #expect(await filter.judge("{\"n\":1}") == [.pass])
                return try await counted(host)
            }
            // It serves nowhere, so its state is only its own.
            #expect(try await asked(beside: "old").counts.same == 1)
            #expect(notebook.writers.withLock { $0 } == ["old served", "new watched"])
            let own = try await asked(beside: "new")
            #expect(own.counts.failed == 1 && own.differences.first?.candidate.contains("a shadow does not write nightjar.state") == true, "\(own)")
            #expect(notebook.writers.withLock { $0 } == ["old served", "new watched", "new served"])
        }
    }

    /// Records who was asked, in order. A candidate waits for a permit.
    private final class Asked: PluginServices {
        let names = Shared<[String]>([])
        let turnstile = Turnstile()

        func count(plugin: String, name: String, value: Double, labels: [(String, String)]) {
            if name == "candidate" { turnstile.pass() }
            names.withLock { $0.append(name) }
        }
    }

    /// This holds with a single worker, too, which takes turns.
    @Test func thePluginThatServesIsNotBehindItselfAsACandidate() async throws {
        let folder = Folder()
        folder.write("new.lua", """
            return { params = { who = { type = 'string', default = 'served' } },
              push_filter = function(doc, ctx) nightjar.metrics.count(ctx.params.who, 1) return true end }

            """)
        var limits = quick
        (limits.workers, limits.turnMilliseconds) = (1, 1)
        let services = Asked()
        try await withHost(folder.path, limits: limits, services: services) { host, _ in
            let filter = try host.filter("new")
            let watched = try host.shadowed(filter, hook: .pushFilter, by: "new", params: .members([("who", .text("candidate"))]), usedBy: Self.place)
            // Each document is large enough for a call of its own, and all of them are one question.
            let text = String(repeating: "x", count: 1_000)
            let documents = (0..<ShadowLimits.batch).map { document("{\"n\":\($0),\"text\":\"\(text)\"}") }
            _ = await watched.evaluate(documents, push)
            services.names.withLock { $0 = [] }
            let served = Task { await filter.judge("{}") }
            for _ in documents {
                services.turnstile.admit(1)
                try? await Task.sleep(for: .milliseconds(20))
            }
            #expect(await served.value == [.pass])
            #expect(try await counted(host).counts.compared == UInt64(documents.count))
            let names = services.names.withLock { $0 }
            #expect(names.count == documents.count + 1 && names.last == "candidate", "\(names)")
        }
    }

    private final class Gate: PluginServices {
        let turnstile = Turnstile()
        func readState(plugin: String, key: String) throws(PluginServiceRefusal) -> LuaValue {
            turnstile.pass()
            return .missing
        }
    }

    /// The candidate's worker is blocked, and the answers come all the same.
    @Test func nobodyWaitsForIt() async throws {
        let folder = Folder()
        folder.write("old.lua", passes("doc.n > 1"))
        folder.write("new.lua", passes("nightjar.state.x == nil"))
        let gate = Gate()
        try await withHost(folder.path, services: gate) { host, _ in
            let filter = try shadowed(host)
            for _ in 0..<20 { #expect(await filter.judge("{\"n\":1}", "{\"n\":2}") == [.reject, .pass]) }
            #expect(host.status("new")?.shadows.map(\.counts) == [ShadowCounts()])
            gate.turnstile.admit(1_000)
            let shadow = try await counted(host)
            #expect(shadow.counts.compared == 40 && shadow.counts.different == 20 && shadow.counts.skipped == 0, "\(shadow.counts)")
        }
    }

    @Test func whatFindsNoRoomIsSkippedAndCounted() async throws {
        let folder = Folder()
        folder.write("old.lua", passes("true"))
        folder.write("new.lua", passes("doc.n % 2 == 0"))
        try await withHost(folder.path) { host, _ in
            let filter = try shadowed(host)
            let documents = (0..<ShadowLimits.waiting + 500).map { document("{\"n\":\($0)}", id: "doc-\($0)") }
            #expect(await filter.evaluate(documents, push) == documents.map { _ in .pass })
            var shadow = try await counted(host)
            #expect(shadow.counts.compared == 1_000 && shadow.counts.different == 500 && shadow.counts.skipped == 500)
            // The last differences are shown.
            #expect(shadow.differences.count == ShadowTally.shown && shadow.differences.first?.id == "doc-999")
            // There is room again, except for a document larger than the whole room.
            let large = document("{\"n\":1,\"text\":\"\(String(repeating: "x", count: ShadowLimits.waitingBytes))\"}")
            #expect(await filter.evaluate([document("{\"n\":2}"), large], push) == [.pass, .pass])
            shadow = try await counted(host)
            #expect(shadow.counts.compared == 1_001 && shadow.counts.skipped == 501)
        }
    }

    /// A small document may wait together with a large answer.
    @Test func whatTheServingPluginHasSaidTakesRoomToo() async throws {
        let folder = Folder()
        let source = "return { sync = function(doc) for i = 1, 1000 do channel(string.rep('c', 200) .. i) end end }\n"
        for name in ["old", "new"] { folder.write("\(name).lua", source) }
        try await withHost(folder.path) { host, _ in
            let place = "listener edge sync"
            let function = try host.shadowed(try host.syncFunction(plugin: "old", usedBy: place), by: "new", usedBy: place)
            let requests = (0..<150).map { SyncRequest(document: document("{\"n\":\($0)}"), old: nil, caller: SyncCaller(name: "anna")) }
            let verdicts = await function.assign(requests, push)
            #expect(verdicts.allSatisfy { if case .accepted(let assignment) = $0 { assignment.channels.count == 1_000 } else { false } })
            let counts = try await counted(host).counts
            // Each takes at least 200 KB.
            #expect(counts.compared < 90 && counts.same == counts.compared && counts.compared + counts.skipped == 150, "\(counts)")
        }
    }

    /// Otherwise its answers about many documents would be in memory at the same time.
    @Test func aCandidateIsAskedAboutAFewAtOnce() async throws {
        let (most, tally) = (Shared(0), ShadowTally(place: Self.place, beside: "old", time: Environment.system.time))
        let folder = Folder()
        folder.write("new.lua", passes("true"))
        try await withHost(folder.path) { host, _ in
            let use = try host.use("new", .pushFilter, .missing, "\(Self.place) shadow", nil, shadow: tally)
            let shadow = Shadow<FilterVerdict>(
                use: use, tally: tally, queue: host.core.shadows, serving: { "1" }, view: { $0 },
                ask: { asked, _ in
                    most.withLock { $0 = max($0, asked.count) }
                    return asked.map { $0.id.text == "doc-120" ? .reject : .pass }
                })
            let documents = (0..<130).map { document("{}", id: "doc-\($0)") }
            shadow.compare(documents, documents.map { _ in .pass }, "1", push)
            let found = try await counted(host)
            #expect(found.counts.same == 129 && found.differences.map(\.id) == ["doc-120"], "\(found)")
            #expect(most.withLock { $0 } == ShadowLimits.batch)
        }
    }

    /// A letter with ten thousand accents is one character.
    @Test func whatIsShownOfADifferenceIsBounded() throws {
        let tally = ShadowTally(place: Self.place, beside: "old", time: Environment.system.time)
        let letter = "e" + String(repeating: "\u{301}", count: 10_000)
        tally.count(
            [ShadowFinding(.different, id: DocumentID(stored: "a"), collection: .default, serving: letter, candidate: "\(letter) \(letter)")], serving: "1", candidate: "2")
        let difference = try #require(tally.read().differences.first)
        #expect(difference.serving.unicodeScalars.count == 300 && difference.candidate.unicodeScalars.count == 300)
    }

    @Test func eachVersionOfEitherIsCountedAnew() async throws {
        let folder = Folder()
        folder.write("old.lua", passes("doc.n > 1"))
        folder.write("new.lua", passes("doc.n > 2"))
        try await withHost(folder.path) { host, events in
            let filter = try shadowed(host)
            _ = await filter.judge("{\"n\":2}", "{\"n\":3}")
            let first = try await counted(host)
            #expect(first.counts.different == 1 && first.counts.same == 1)
            folder.save("new.lua", passes("doc.n >= 2"))
            try await events.reloaded("new")
            #expect(await filter.judge("{\"n\":1}", "{\"n\":2}") == [.reject, .pass])
            let second = try await counted(host)
            #expect(second.counts.same == 2 && second.counts.different == 0 && second.differences.isEmpty && second.version != first.version)
            #expect(second.total.compared == 4 && second.total.different == 1)
            folder.save("old.lua", passes("doc.n > 5"))
            try await events.reloaded("old")
            #expect(await filter.judge("{\"n\":2}") == [.reject])
            let third = try await counted(host)
            #expect(third.counts.compared == 1 && third.differences.first?.serving == "rejected" && third.differences.first?.candidate == "passes")
            #expect(third.version == second.version && third.servingVersion == host.status("old")?.version)
            // A candidate whose file is missing or wrong keeps its version.
            folder.save("new.lua", "return {}")
            try await events.refused("new")
            _ = await filter.judge("{\"n\":2}")
            #expect(try await counted(host).counts.compared == 2)
        }
    }

    @Test func collectionsOfAPlaceAreCountedTogether() async throws {
        let folder = Folder()
        folder.write("old.lua", passes("true"))
        folder.write("new.lua", passes("false"))
        try await withHost(folder.path) { host, _ in
            let filters = [try shadowed(host), try shadowed(host)]
            for filter in filters { _ = await filter.judge("{}") }
            #expect(try await counted(host).counts.different == 2)
            #expect(throws: PluginError.self) { try host.shadowed(filters[0], hook: .pushFilter, by: "newer", usedBy: Self.place) }
        }
    }

    @Test func itIsForgottenWithItsPlace() async throws {
        let folder = Folder()
        folder.write("old.lua", passes("true"))
        folder.write("new.lua", passes("false"))
        try await withHost(folder.path) { host, _ in
            do {
                let filter = try shadowed(host)
                _ = await filter.judge("{}")
                _ = try await counted(host)
            }
            #expect(host.status("new")?.shadows == [] && host.status("new")?.usedBy == [])
        }
    }

    @Test func syncFunctionsDifferInWhatTheyAssign() async throws {
        let folder = Folder()
        folder.write("old.lua", """
            return { sync = function(doc)
              if doc.refused then require_user("ben") end
              channel(doc.channels or "a")
              access("anna", "a")
              expiry(100)
            end }
            """)
        folder.write("new.lua", """
            return { sync = function(doc)
              if doc.refused or doc.odd then require_role("writer") end
              channel(doc.turned or doc.channels or "a")
              access("anna", doc.granted or "a")
              if not doc.lasting then expiry(130) end
            end }
            """)
        try await withHost(folder.path) { host, _ in
            let place = "listener edge sync"
            let function = try host.shadowed(try host.syncFunction(plugin: "old", usedBy: place), by: "new", usedBy: place)
            func request(_ json: String, _ id: String) -> SyncRequest {
                SyncRequest(document: document(json, id: id), old: nil, caller: SyncCaller(name: "anna"))
            }
            let requests = [
                request("{}", "same"), request("{\"refused\":true}", "refused"), request("{\"odd\":true}", "odd"),
                request("{\"channels\":[\"b\",\"c\"],\"turned\":[\"c\",\"b\"]}", "turned"), request("{\"turned\":\"d\",\"granted\":\"e\"}", "moved"),
                request("{\"lasting\":true}", "lasting"),
            ]
            let verdicts = await function.assign(requests, push)
            #expect(verdicts.count == 6 && verdicts[1] == .rejected(reason: "wrong user"))
            let shadow = try await counted(host)
            #expect(shadow.counts.same == 3 && shadow.counts.different == 3 && shadow.counts.failed == 0, "\(shadow)")
            let differences = Dictionary(uniqueKeysWithValues: shadow.differences.map { ($0.id, $0) })
            #expect(differences["odd"]?.serving == "accepted" && differences["odd"]?.candidate.hasPrefix("rejected: ") == true)
            #expect(differences["moved"]?.serving == "channels: a; access of anna: a")
            #expect(differences["moved"]?.candidate == "channels: d; access of anna: e")
            #expect(differences["lasting"]?.serving.hasPrefix("expires at ") == true && differences["lasting"]?.candidate == "never expires")
        }
    }

    @Test func channelsThatLookTheSameAreTwo() async throws {
        let folder = Folder()
        folder.write("old.lua", "return { sync = function(doc) channel('caf\u{E9}') access('anna', 'caf\u{E9}') end }")
        folder.write("new.lua", "return { sync = function(doc) channel('cafe\u{301}') access('anna', 'cafe\u{301}') end }")
        try await withHost(folder.path) { host, _ in
            let place = "listener edge sync"
            let function = try host.shadowed(try host.syncFunction(plugin: "old", usedBy: place), by: "new", usedBy: place)
            _ = await function.assign([SyncRequest(document: document("{}"), old: nil, caller: SyncCaller(name: "anna"))], push)
            let shadow = try await counted(host)
            #expect(shadow.counts.different == 1 && shadow.differences.first?.serving.contains("access of anna") == true, "\(shadow)")
        }
    }

    /// A validation assigns no channels, so only the write itself counts.
    @Test func aValidationIsComparedByWhatItTakes() async throws {
        let folder = Folder()
        folder.write("old.lua", "return { sync = function(doc) channel('a') end }")
        folder.write("new.lua", "return { sync = function(doc) channel('b'); if doc.odd then require_admin() end end }")
        try await withHost(folder.path) { host, _ in
            let place = "database main validate"
            let function = try host.shadowed(
                try host.syncFunction(plugin: "old", usedBy: place), by: "new", usedBy: place, comparesAssignments: false)
            let caller = SyncCaller(name: "anna")
            _ = await function.assign(["{}", "{\"odd\":true}"].map { SyncRequest(document: document($0), old: nil, caller: caller) }, push)
            let shadow = try await counted(host)
            #expect(shadow.counts.same == 1 && shadow.counts.different == 1)
        }
    }
}

/// Lets callers through one by one. They wait without taking processor time, of which a plugin that calls has little.
private final class Turnstile: Sendable {
    private let reading: Int32, writing: Int32

    init() {
        var ends: [Int32] = [-1, -1]
        _ = pipe(&ends)
        (reading, writing) = (ends[0], ends[1])
    }

    deinit { for end in [reading, writing] { close(end) } }

    func pass() {
        var byte: UInt8 = 0
        _ = read(reading, &byte, 1)
    }

    func admit(_ count: Int) { _ = write(writing, [UInt8](repeating: 0, count: count), count) }
}
