import DocumentStore
import Documents
import TestRandomness
import Testing

@Suite("Channels")
struct ChannelTests {
    private let anna = ChannelPeer(user: "anna", listener: "edge")

    /// The whole feed from a place, as "sequence id news", `E:` in front inside an event; and the place after it.
    private func feed(
        _ store: Store, _ peer: ChannelPeer, from place: ChannelPlace = ChannelPlace(), channels: [String]? = nil, activeOnlyThrough: SequenceNumber = 0,
        waits: Bool = true, limit: Int = 200
    ) async throws -> (rows: [String], place: ChannelPlace, isBlocked: Bool) {
        let c = try store.c
        var rows: [String] = []
        var place = place
        for _ in 0..<1000 {
            let question = ChannelQuestion(peer: peer, channels: channels, activeOnlyThrough: activeOnlyThrough, waitsForRoutes: waits)
            let page = try await store.database.read { [place] in try $0.channelChanges(c, from: place, question, limit: limit) }
            for row in page.rows {
                let deleted = row.change.isDeleted ? " deleted" : ""
                rows.append("\(row.event.map { "\($0):" } ?? "")\(row.sequence) \(row.change.id) \(row.visibility)\(deleted)")
                if row.visibility != .visible { #expect(text(row.change.body) == #"{"_removed":true}"#) }
            }
            place = page.place
            if page.isEnd || page.isBlocked { return (rows, place, page.isBlocked) }
        }
        Issue.record("the feed has no end")
        return (rows, place, false)
    }

    @discardableResult
    private func put(
        _ store: Store, _ id: String, in channels: Set<String>, deleted: Bool = false, access: [String: [String]] = [:],
        roles: [String: [String]] = [:], expires: Int64? = nil
    ) async throws -> SavedRevision {
        let c = try store.c
        return try await store.database.write { transaction in
            let current = try transaction.document(c, doc(id))
            let saved = try transaction.save(
                c, id: doc(id), body: Array("{\"n\":\(current?.sequence ?? 0)}".utf8), deleted: deleted, parent: current?.revision)
            try transaction.route(
                c, doc(id), saved.revision, DocumentRoute(channels: channels, access: access, roles: roles, expires: expires))
            return saved
        }
    }

    private func allow(_ store: Store, _ peer: ChannelPeer, _ channels: [String], roles: [String] = []) async throws {
        let c = try store.c
        try await store.database.write { try $0.setAccess(of: peer, c, channels: channels, roles: roles) }
    }

    @Test("a peer gets what is in its channels, and what is public")
    func visible() async throws {
        let store = try Store()
        try await put(store, "a", in: ["red"])
        try await put(store, "b", in: ["blue"])
        try await put(store, "c", in: ["red", "blue"])
        try await put(store, "d", in: ["!"])
        try await put(store, "e", in: [])
        #expect(try await feed(store, anna).rows == ["4 d visible"])
        try await allow(store, anna, ["red"])
        #expect(try await feed(store, anna).rows == ["1 a visible", "3 c visible", "4 d visible"])
        #expect(try await feed(store, anna, limit: 1).rows == ["1 a visible", "3 c visible", "4 d visible"])
        #expect(try await feed(store, anna, channels: ["red"]).rows == ["1 a visible", "3 c visible"])
        #expect(try await feed(store, anna, channels: ["blue"]).rows == [])
        let ben = ChannelPeer(user: "ben", listener: "edge")
        try await allow(store, ben, ["*"])
        #expect(try await feed(store, ben).rows.count == 5)
        #expect(try await feed(store, ben, channels: ["blue"]).rows == ["2 b visible", "3 c visible"])
        // What one listener's authenticator says holds there only.
        #expect(try await feed(store, ChannelPeer(user: "ben", listener: "other")).rows == ["4 d visible"])
        #expect(try await feed(store, ChannelPeer(user: nil, listener: "edge")).rows == ["4 d visible"])
    }

    @Test("names are compared by their bytes: a channel or user whose name only looks the same is a different one")
    func exactNames() async throws {
        let store = try Store()
        try await put(store, "plan", in: ["caf\u{E9}"])
        try await allow(store, anna, ["cafe\u{301}"])
        #expect(try await feed(store, anna).rows == [])
        try await allow(store, anna, ["caf\u{E9}"])
        #expect(try await feed(store, anna).rows.first == "1 plan visible")
        try await put(store, "plan", in: ["cafe\u{301}"])
        #expect(try await feed(store, anna).rows.last?.hasSuffix("visible") == false)
        #expect(ChannelPeer(user: "jos\u{E9}", listener: "edge") != ChannelPeer(user: "jose\u{301}", listener: "edge"))
    }

    @Test("a document that leaves is reported once, whatever comes after")
    func removal() async throws {
        let store = try Store()
        try await allow(store, anna, ["red", "green"])
        try await put(store, "a", in: ["red"])
        try await put(store, "b", in: ["red", "green"])
        let place = try await feed(store, anna).place
        #expect(place == ChannelPlace(2))
        try await put(store, "a", in: ["blue"]) // 3
        try await put(store, "b", in: ["green"]) // 4
        #expect(try await feed(store, anna, from: place).rows == ["3 a removed", "4 b visible"])
        try await put(store, "a", in: []) // 5
        try await put(store, "b", in: []) // 6
        #expect(try await feed(store, anna, from: ChannelPlace(4)).rows == ["6 b removed"])
        #expect(try await feed(store, anna, from: ChannelPlace(6)).rows == [])
        // From the beginning nothing is missed, and from a place in the middle neither, though the documents went on.
        #expect(try await feed(store, anna, from: place).rows == ["3 a removed", "6 b removed"])
        #expect(try await feed(store, anna, from: place, limit: 1).rows == ["3 a removed", "6 b removed"])
        #expect(try await feed(store, anna, activeOnlyThrough: .max).rows == [])
        // A document that leaves its channels after its first pull began may have been sent to it.
        #expect(try await feed(store, anna, activeOnlyThrough: 3).rows == ["6 b removed"])
        // It comes back, and goes by being deleted.
        try await put(store, "a", in: ["red"]) // 7
        #expect(try await feed(store, anna, from: ChannelPlace(6)).rows == ["7 a visible"])
        try await put(store, "a", in: [], deleted: true) // 8
        #expect(try await feed(store, anna, from: ChannelPlace(7)).rows == ["8 a visible deleted"])
        #expect(try await feed(store, ChannelPeer(user: "ben", listener: "edge")).rows == [])
    }

    @Test("what became of a document after it left is distinguished from what became of it before the peer had its channels")
    func departures() async throws {
        let store = try Store()
        let c = try store.c
        func rows(_ peer: ChannelPeer) async throws -> [String] {
            try await store.database.read { transaction in
                let page = try transaction.channelChanges(c, from: ChannelPlace(), ChannelQuestion(peer: peer), limit: 200)
                let access = try transaction.channelAccess(c, of: peer)
                return try page.rows.map { row in
                    let departure = try transaction.departure(c, row.change.id, row.change.revision, from: access)
                    // By name it is the same.
                    if let departure { #expect(row.isFirsthand == (departure.wasHeld && departure.sequence == row.change.sequence)) }
                    return "\(row.sequence) \(row.change.id) \(row.isFirsthand)"
                }
            }
        }
        try await allow(store, anna, ["red"])
        try await put(store, "gone", in: ["red"])
        try await put(store, "moved", in: ["red"])
        try await put(store, "here", in: ["red"])
        try await put(store, "gone", in: [], deleted: true)
        try await put(store, "moved", in: ["blue"])
        #expect(try await rows(anna) == ["3 here true", "4 gone true", "5 moved true"])
        // What is deleted elsewhere stands where it left.
        try await put(store, "moved", in: [], deleted: true)
        #expect(try await rows(anna) == ["3 here true", "4 gone true", "5 moved false"])
        // Who got the channel after that had nothing of it.
        let ben = ChannelPeer(user: "ben", listener: "edge")
        try await allow(store, ben, [])
        try await allow(store, ben, ["red"])
        #expect(try await Set(rows(ben)) == ["3 here true"])
    }

    @Test("what a document granted ends with it, before the sync function is called for its deletion and whatever it says")
    func deletedGrants() async throws {
        let store = try Store()
        let c = try store.c
        try await put(store, "a", in: ["red"]) // 1
        for asked in [false, true] {
            try await put(store, "card", in: [], access: ["anna": ["red"]])
            let place = try await feed(store, anna).place
            #expect(try await feed(store, anna).rows.contains { $0.hasSuffix("a visible") })
            if asked {
                try await put(store, "card", in: [], deleted: true, access: ["anna": ["red"]])
            } else {
                try await store.database.write { transaction in
                    let current = try transaction.document(c, doc("card"))
                    _ = try transaction.save(c, id: doc("card"), body: Array("{}".utf8), deleted: true, parent: current?.revision)
                }
            }
            #expect(try await store.database.read { try $0.channelAccess(c, of: anna).channels } == ["!"])
            #expect(try await feed(store, anna, from: place, waits: false).rows.contains { $0.hasSuffix(":1 a revoked") })
        }
    }

    @Test("access to many channels: each brings its own documents, also a channel with very many")
    func manyGrants() async throws {
        let store = try Store()
        let c = try store.c
        try await store.database.write { transaction in
            for number in 0..<2_500 {
                let saved = try transaction.save(c, id: doc("d\(number)"), body: Array("{}".utf8), deleted: false, parent: nil)
                let channels: Set<String> = number < 2_400 ? ["many"] : ["few-\(number)"]
                try transaction.route(c, doc("d\(number)"), saved.revision, DocumentRoute(channels: channels))
            }
        }
        let place = try await feed(store, anna).place
        for number in 2_400..<2_500 { try await put(store, "card-\(number)", in: [], access: ["anna": ["few-\(number)"]]) }
        try await put(store, "card", in: [], access: ["anna": ["many"]])
        let rows = try await feed(store, anna, from: place).rows
        #expect(rows.count == 2_500 && Set(rows).count == 2_500)
        #expect(rows.prefix(2) == ["2501:2401 d2400 visible", "2502:2402 d2401 visible"])
        #expect(rows.suffix(2) == ["2601:2399 d2398 visible", "2601:2400 d2399 visible"])
    }

    @Test("access given by a document brings older documents, before what follows; its end takes them away")
    func grants() async throws {
        let store = try Store()
        try await put(store, "a", in: ["red"]) // 1
        try await put(store, "b", in: ["blue"]) // 2
        var place = try await feed(store, anna).place
        #expect(place == ChannelPlace(2))
        try await put(store, "card", in: ["red"], access: ["anna": ["red"]]) // 3
        try await put(store, "c", in: ["red"]) // 4
        let all = ["3:1 a visible", "3 card visible", "4 c visible"]
        #expect(try await feed(store, anna, from: place).rows == all)
        #expect(try await feed(store, anna, from: place, limit: 1).rows == all)
        // A peer that stopped in the middle of the event resumes there.
        #expect(try await feed(store, anna, from: ChannelPlace(parsing: "\"3:1\"")).rows == ["3 card visible", "4 c visible"])
        #expect(try await feed(store, anna, from: ChannelPlace(parsing: "3")).rows == ["4 c visible"])
        #expect(try await feed(store, anna).rows == ["1 a visible"] + all)
        place = try await feed(store, anna, from: place).place
        // A second document gives the same; only the last one's end counts.
        try await put(store, "card-2", in: [], access: ["anna": ["red"]]) // 5
        try await put(store, "card", in: ["red"]) // 6
        #expect(try await feed(store, anna, from: place).rows == ["6 card visible"])
        place = try await feed(store, anna, from: place).place
        try await put(store, "card-2", in: [], deleted: true) // 7
        #expect(try await feed(store, anna, from: place).rows.sorted() == ["7:1 a revoked", "7:3 card revoked", "7:4 c revoked"])
        try await put(store, "d", in: ["red"]) // 8
        place = try await feed(store, anna, from: place).place
        #expect(try await feed(store, anna, from: place).rows == [])
        // An empty database hears nothing of it.
        #expect(try await feed(store, anna, activeOnlyThrough: .max).rows == [])
    }

    @Test("roles carry channels, by documents and by the authenticator")
    func roles() async throws {
        let store = try Store()
        try await put(store, "a", in: ["red"]) // 1
        try await put(store, "staff", in: [], access: ["role:staff": ["red"]]) // 2
        try await put(store, "anna", in: [], roles: ["anna": ["staff"]]) // 3
        let c = try store.c
        let access = try await store.database.read { try $0.channelAccess(c, of: anna) }
        #expect(access.channels == ["!", "red"] && access.roles == ["staff"])
        #expect(try await feed(store, anna, from: ChannelPlace(2)).rows == ["3:1 a visible"])
        try await put(store, "staff", in: [], access: [:]) // 4
        #expect(try await feed(store, anna, from: ChannelPlace(3)).rows == ["4:1 a revoked"])
        try await put(store, "staff", in: [], access: ["role:staff": ["red"]]) // 5
        let ben = ChannelPeer(user: "ben", listener: "edge")
        try await allow(store, ben, [], roles: ["staff"])
        #expect(try await feed(store, ben).rows == ["1 a visible", "5:1 a visible"])
        // The authenticator changes its mind, at a sequence of its own.
        let place = try await feed(store, ben).place
        try await allow(store, ben, [], roles: [])
        #expect(try await feed(store, ben, from: place).rows == ["6:1 a revoked"])
        try await allow(store, ben, ["red"])
        #expect(try await feed(store, ben, from: ChannelPlace(6)).rows == ["7:1 a visible"])
        try await allow(store, ben, ["red"])
        #expect(try await feed(store, ben, from: ChannelPlace(7)).rows == [])
        // Purging what grants ends the grant.
        try await store.database.write { _ = try $0.purge(c, doc("anna")) }
        #expect(try await store.database.read { try $0.channelAccess(c, of: anna) }.channels == ["!"])
    }

    @Test("documents that are not assigned yet hold up the feed, or are in no channel")
    func unassigned() async throws {
        let store = try Store()
        let c = try store.c
        try await allow(store, anna, ["red"])
        try await put(store, "a", in: ["red"])
        let saved = try await store.save("b", "{}")
        try await put(store, "c", in: ["red"])
        let held = try await feed(store, anna)
        #expect(held.rows == ["1 a visible"] && held.isBlocked && held.place == ChannelPlace(1))
        #expect(try await feed(store, anna, waits: false).rows == ["1 a visible", "3 c visible"])
        // An edit that no sync function saw takes the document out of sight at once.
        _ = try await store.save("a", "{\"secret\":1}", parent: try #require(try await store.get("a")).revision)
        #expect(try await feed(store, anna, waits: false).rows == ["3 c visible"])
        try await store.database.write { try $0.route(c, doc("b"), saved.revision, DocumentRoute(channels: ["red"])) }
        #expect(try await feed(store, anna, from: held.place).rows == ["2 b visible", "3 c visible"])
        let ben = ChannelPeer(user: "ben", listener: "edge")
        try await allow(store, ben, ["*"])
        #expect(try await feed(store, ben).rows.count == 3)
        await #expect(throws: StoreError.conflict(id: doc("b"), current: saved.revision)) {
            try await store.database.write { try $0.route(c, doc("b"), rev("9-ff"), DocumentRoute()) }
        }
        // What failed is listed, and comes in its turn when it is mended.
        try await store.database.write { try $0.route(c, doc("b"), saved.revision, DocumentRoute(plugin: "p", version: "1", error: "p.lua:1: no")) }
        #expect(try await store.database.read { try $0.unassigned(c, limit: 10) }.map(\.0.text) == ["b"])
        try await store.database.write {
            try $0.touch(c, doc("b"))
            try $0.route(c, doc("b"), saved.revision, DocumentRoute(channels: ["red"]))
        }
        #expect(try await store.database.read { try $0.unassigned(c, limit: 10) }.isEmpty)
        #expect(try await feed(store, anna, from: ChannelPlace(4), waits: false).rows == ["5 b visible"])
        #expect(try await store.get("b")?.sequence == 5)
    }

    @Test("documents expire at their time, by a tombstone, unless they were edited")
    func expiry() async throws {
        let store = try Store()
        let c = try store.c
        try await put(store, "a", in: ["red"], expires: 1000)
        try await put(store, "b", in: ["red"], expires: 2000)
        try await put(store, "c", in: ["red"], expires: 1000)
        try await put(store, "c", in: ["red"])
        let d = try await put(store, "d", in: [], expires: 900)
        _ = try await store.save("d", "{\"edited\":true}", parent: d.revision)
        #expect(try await store.database.read { try $0.expiry(c, doc("b")) } == 2000)
        #expect(try await store.database.expireDocuments(now: 999) == 1)
        #expect(try await store.database.expireDocuments(now: 1000) == 1)
        #expect(try await store.get("a")?.isDeleted == true)
        #expect(try await store.get("b")?.isDeleted == false)
        #expect(try await store.get("c")?.isDeleted == false)
        #expect(try await store.get("d")?.isDeleted == false)
        #expect(try await store.database.expireDocuments(now: 1000) == 0)
        #expect(try await store.database.expireDocuments(now: 5000) == 1)
        #expect(try await store.statistics().deleted == 2)
    }

    @Test("a random history: a peer that resumes anywhere ends with what it may see", arguments: 0..<20)
    func converges(_ round: Int) async throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededGenerator(seed: seed)
        let store = try Store()
        let c = try store.c
        try await allow(store, anna, [])
        let names = ["red", "blue", "green"]
        var held: [String: Bool] = [:]
        var place = ChannelPlace()
        for step in 0..<300 {
            let id = "d\(Int.random(in: 0..<12, using: &random))"
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<6:
                try await put(store, id, in: Set(names.filter { _ in Int.random(in: 0..<3, using: &random) == 0 }),
                    deleted: step > 20 && Int.random(in: 0..<6, using: &random) == 0)
            case 6..<8:
                try await put(store, "g\(Int.random(in: 0..<3, using: &random))", in: [],
                    access: Bool.random(using: &random) ? ["anna": [names.randomElement(using: &random) ?? ""]] : ["role:r": [names.randomElement(using: &random) ?? ""]])
            case 8: try await put(store, "r", in: [], roles: Bool.random(using: &random) ? ["anna": ["r"]] : [:])
            default:
                // A visit: some pages, then the connection is cut at any row.
                for _ in 0..<Int.random(in: 1..<6, using: &random) {
                    let question = ChannelQuestion(peer: anna)
                    let limit = Int.random(in: 1..<8, using: &random)
                    let maxBytes = Bool.random(using: &random) ? Int.random(in: 1..<60, using: &random) : StoreLimits.maxBodyBytesPerRead
                    let page = try await store.database.read { [place] in
                        try $0.channelChanges(c, from: place, question, limit: limit, maxBytes: maxBytes)
                    }
                    let taken = Int.random(in: 0...page.rows.count, using: &random)
                    for row in page.rows.prefix(taken) {
                        held[row.change.id.text] = row.visibility == .visible && !row.change.isDeleted ? true : nil
                    }
                    if taken == page.rows.count {
                        place = page.place
                        if page.isEnd { break }
                    } else {
                        if taken > 0 {
                            let last = page.rows[taken - 1]
                            place = ChannelPlace(parsing: last.event.map { "\"\($0):\(last.sequence)\"" } ?? "\(last.sequence)")
                        }
                        break
                    }
                }
            }
        }
        let question = ChannelQuestion(peer: anna)
        while true {
            let page = try await store.database.read { [place] in try $0.channelChanges(c, from: place, question, limit: 3) }
            for row in page.rows { held[row.change.id.text] = row.visibility == .visible && !row.change.isDeleted ? true : nil }
            place = page.place
            if page.isEnd { break }
        }
        let expected = try await store.database.read { transaction in
            let channels = Set(try transaction.channelAccess(c, of: anna).channels)
            return try transaction.changes(c, since: 0, limit: 100, includeBodies: false, includeDeleted: false)
                .filter { try transaction.assignedChannels(c, $0.id)?.isDisjoint(with: channels) == false }.map(\.id.text)
        }
        #expect(held.keys.sorted() == expected.sorted(), "seed \(seed)")
    }

    @Test("a page ends where its bodies get too long, and the next one goes on there", arguments: [false, true])
    func largeBodies(comeByAccess: Bool) async throws {
        let store = try Store()
        let c = try store.c
        if !comeByAccess { try await allow(store, anna, ["red"]) }
        for number in 0..<10 {
            try await store.database.write { transaction in
                let body = "{\"text\":\"\(String(repeating: "x", count: 300_000))\"}"
                let saved = try transaction.save(c, id: doc("d\(number)"), body: Array(body.utf8), deleted: false, parent: nil)
                try transaction.route(c, doc("d\(number)"), saved.revision, DocumentRoute(channels: ["red"]))
            }
        }
        if comeByAccess { try await allow(store, anna, ["red"]) }
        var place = ChannelPlace()
        var pages: [Int] = []
        var found: [String] = []
        while true {
            let page = try await store.database.read { [place] in try $0.channelChanges(c, from: place, ChannelQuestion(peer: anna), limit: 200) }
            if !page.rows.isEmpty { pages.append(page.rows.count) }
            found += page.rows.map(\.change.id.text)
            place = page.place
            if page.isEnd { break }
        }
        #expect(pages == [4, 4, 2] && found == (0..<10).map { "d\($0)" }, "\(pages) \(found)")
    }
}
