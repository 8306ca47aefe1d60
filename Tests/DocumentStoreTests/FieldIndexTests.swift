import Documents
import SQLite
import Selectors
import TestRandomness
import Testing

@testable import DocumentStore

/// Indexes hold what the documents say, however those came about.
@Suite("Indexes of fields")
struct FieldIndexTests {
    private static let all = IndexRange(low: [], high: CollationKey.top)

    private func definition(_ text: String) throws -> IndexDefinition { try IndexDefinition(JSONValue(parsing: text)) }

    private func create(_ store: Store, _ name: String, _ text: String) async throws -> Bool {
        let (c, definition) = (try store.c, try definition(text))
        return try await store.database.write { try $0.createIndex(c, design: "_design/d", name: name, definition) }
    }

    private func drop(_ store: Store, _ name: String) async throws -> Bool {
        let c = try store.c
        return try await store.database.write { try $0.dropIndex(c, design: "_design/d", name: name) }
    }

    private func indexes(_ store: Store) async throws -> [FieldIndex] {
        let c = try store.c
        return try await store.database.read { try $0.fieldIndexes(c) }
    }

    /// What is in an index, and what should be by the documents as they are.
    private func contents(_ store: Store, _ index: FieldIndex) async throws -> (found: [IndexEntry], expected: [IndexEntry]) {
        let c = try store.c
        return try await store.database.read { transaction in
            var expected: [IndexEntry] = []
            for row in try transaction.changes(c, since: 0, limit: .max, includeBodies: false, includeDeleted: false) {
                guard let document = try transaction.document(c, row.id) else { continue }
                let fields = DocumentFields(document.id, document.revision, isDeleted: false, body: document.body)
                if let key = index.definition.key(of: fields) { expected.append(IndexEntry(key: key, id: document.id)) }
            }
            expected.sort { $0.key == $1.key ? $0.id < $1.id : $0.key.lexicographicallyPrecedes($1.key) }
            return (try transaction.entries(of: index, in: Self.all, isDescending: false, limit: .max), expected)
        }
    }

    private func expectInStep(_ store: Store, _ comment: String) async throws {
        for index in try await indexes(store) {
            let (found, expected) = try await contents(store, index)
            #expect(found == expected, "\(comment), index \(index.name)")
        }
    }

    private static let definitions = [
        "a": "{\"fields\":[\"a\"]}", "ab": "{\"fields\":[\"a\",\"b.c\"]}", "rev": "{\"fields\":[\"_rev\",\"a\"]}",
        "part": "{\"fields\":[\"a\"],\"partial_filter_selector\":{\"b\":{\"$exists\":true}}}",
    ]

    @Test("are in step with saves, edits, deletions, branches, resolutions and purges", arguments: [UInt64.random(in: 1...(.max)), 1, 2])
    func inStep(seed: UInt64) async throws {
        let store = try Store()
        defer { store.database.close() }
        var random = SeededGenerator(seed: seed)
        var names = Self.definitions.keys.sorted()
        for step in 0..<400 {
            let id = "d\(Int.random(in: 0..<25, using: &random))"
            let body = randomDocument(&random)
            let current = try await store.get(id)
            switch Int.random(in: 0..<12, using: &random) {
            case 0: if let current, !current.isDeleted { _ = try? await store.save(id, "{}", deleted: true, parent: current.revision) }
            case 1, 2:
                let generation = Int.random(in: 1...4, using: &random)
                _ = try? await store.insert(
                    id, "\(generation)-\(String(random.next(), radix: 16))", body: body, deleted: generation == 4,
                    generation % 2 == 0 ? .store : .storePushed)
            case 3: if try await store.conflict(id) != nil { _ = try? await store.resolve(id, [.localWins, .remoteWins, .delete].randomElement(using: &random) ?? .delete) }
            case 4:
                let c = try store.c
                _ = try await store.database.write { try $0.purge(c, doc(id)) }
            case 5:
                // Half of them are made when there are documents already.
                if step > 100, let name = names.popLast() { #expect(try await create(store, name, Self.definitions[name] ?? "")) }
            case 6:
                let c = try store.c
                // What a failed job did to indexes is undone with it.
                _ = try? await store.database.write { transaction in
                    _ = try transaction.createIndex(c, design: "_design/x", name: "x", IndexDefinition(["fields": ["a"]]))
                    try transaction.save(c, id: doc("\(id)-new"), body: Array(body.utf8), parent: nil)
                    throw StoreError.transactionEnded
                }
            case 7: _ = try await store.database.write { try $0.indexStep() }
            case 8:
                let c = try store.c
                try await store.database.write { try $0.touch(c, doc(id)) }
            default: _ = try? await store.save(id, body, parent: current?.revision)
            }
        }
        try await store.database.maintainIndexes()
        #expect(try await indexes(store).allSatisfy(\.isReady), "seed \(seed)")
        try await expectInStep(store, "seed \(seed)")
    }

    @Test("find what a look at all documents finds, in the same order", arguments: [UInt64.random(in: 1...(.max)), 1, 2])
    func queries(seed: UInt64) async throws {
        let store = try Store()
        defer { store.database.close() }
        var random = SeededGenerator(seed: seed)
        for number in 0..<300 { _ = try await store.save("d\(number)", randomDocument(&random)) }
        for name in Self.definitions.keys.sorted() { _ = try await create(store, name, Self.definitions[name] ?? "") }
        try await store.database.maintainIndexes()
        let c = try store.c
        let indexes = try await indexes(store)
        let documents = try await store.database.read { try $0.changes(c, since: 0, limit: .max, includeBodies: true) }
        var used = 0
        for _ in 0..<400 {
            let text = randomSelector(&random)
            let selector = try Selector(JSONValue(parsing: text))
            let sort = try SortOrder(JSONValue(parsing: ["[]", "[\"a\"]", "[{\"a\":\"desc\"}]", "[\"a\",\"b.c\"]"].randomElement(using: &random) ?? "[]"))
            var meant: [DocumentID: [UInt8]] = [:]
            for row in documents {
                let fields = DocumentFields(row.id, row.revision, isDeleted: false, body: row.body ?? [])
                guard let document = try fields.document(with: selector.roots + ["a", "b"]), try selector.matches(document) else { continue }
                meant[row.id] = CollationKey.of(sort.paths, in: document)
            }
            for index in indexes where index.definition.partial == nil {
                guard case .success(let use) = IndexUse.of(index.definition, selector, sort, isNamed: false) else { continue }
                used += 1
                let entries = try await store.database.read {
                    try $0.entries(of: index, in: use.range, isDescending: sort.isDescending, limit: .max)
                }
                let found = entries.filter { meant[$0.id] != nil }
                let keys = found.compactMap { meant[$0.id] }
                let expected = meant.values.sorted { $0.lexicographicallyPrecedes($1) }
                #expect(keys == (sort.isDescending ? expected.reversed() : expected) || sort.paths.isEmpty, "seed \(seed): \(text) by \(index.name)")
                #expect(Set(found.map(\.id)) == Set(meant.keys) && found.count == meant.count, "seed \(seed): \(text) by \(index.name)")
            }
        }
        #expect(used > 100, "seed \(seed): only \(used) uses of an index")
    }

    @Test("are read page by page, both ways")
    func pages() async throws {
        let store = try Store()
        defer { store.database.close() }
        for number in 0..<40 { _ = try await store.save("d\(number)", "{\"a\":\(number / 4)}") }
        _ = try await create(store, "a", "{\"fields\":[\"a\"]}")
        try await store.database.maintainIndexes()
        let index = try #require(try await indexes(store).first)
        let range = try IndexRange(low: CollationKey.of(JSONValue(parsing: "2")), high: CollationKey.of(JSONValue(parsing: "7")))
        for isDescending in [false, true] {
            var found: [IndexEntry] = []
            while true {
                let after = found.last
                let page = try await store.database.read { try $0.entries(of: index, in: range, after: after, isDescending: isDescending, limit: 7) }
                if page.isEmpty { break }
                found += page
            }
            #expect(found.count == 20 && Set(found.map(\.id)).count == 20)
            #expect(found.map(\.key) == found.map(\.key).sorted { isDescending ? $1.lexicographicallyPrecedes($0) : $0.lexicographicallyPrecedes($1) })
            // A place of elsewhere leads into the range.
            let outside = IndexEntry(key: isDescending ? CollationKey.top : [], id: doc("x"))
            let all = try await store.database.read { try $0.entries(of: index, in: range, after: outside, isDescending: isDescending, limit: 100) }
            #expect(all == found)
        }
    }

    @Test("are built in steps between which others write, and go on after a crash")
    func building() async throws {
        let store = try Store()
        let c = try store.c
        try await store.database.write { transaction in
            for number in 0..<2_500 { try transaction.save(c, id: doc("d\(number)"), body: Array("{\"a\":\(number % 100)}".utf8), parent: nil) }
        }
        #expect(try await create(store, "a", "{\"fields\":[\"a\"]}"))
        #expect(try await store.database.write { try $0.indexStep() })
        #expect(try await indexes(store).first?.isReady == false)
        // Of those that are in it already, and of those that are not.
        for number in [3, 2_400] {
            let current = try #require(try await store.get("d\(number)"))
            _ = try await store.save("d\(number)", "{\"a\":\"edited\"}", parent: current.revision)
        }
        store.database.close()
        let again = try Store(folder: store.folder)
        defer { again.database.close() }
        #expect(try await again.database.read { try $0.hasIndexWork() })
        try await again.database.maintainIndexes()
        #expect(try await indexes(again).first?.isReady == true)
        try await expectInStep(again, "after a crash")
        let index = try #require(try await indexes(again).first)
        #expect(try await contents(again, index).found.count == 2_500)
    }

    @Test("that are dropped leave nothing behind; the same one is made once, another one of the same name replaces it")
    func dropping() async throws {
        let store = try Store()
        for number in 0..<1_500 { _ = try await store.save("d\(number)", "{\"a\":\(number),\"b\":1}") }
        #expect(try await create(store, "x", "{\"fields\":[\"a\"]}"))
        #expect(try await !create(store, "x", "{\"fields\":[{\"a\":\"asc\"}]}"))
        try await store.database.maintainIndexes()
        let first = try #require(try await indexes(store).first)
        #expect(try await create(store, "x", "{\"fields\":[\"b\"]}"))
        try await store.database.maintainIndexes()
        let second = try #require(try await indexes(store).first)
        #expect(second.number > first.number && second.definition.order.paths.map(\.text) == ["b"])
        try await expectInStep(store, "replaced")
        #expect(try await store.database.read { try $0.isReady(second) && !$0.isReady(first) })
        #expect(try await drop(store, "x"))
        #expect(try await store.database.read { try !$0.isReady(second) })
        #expect(try await !drop(store, "x"))
        #expect(try await indexes(store).isEmpty)
        try await store.database.maintainIndexes()
        store.database.close()
        let connection = try Connection(path: store.folder + "/db.sqlite3", mode: .readWrite)
        defer { connection.close() }
        #expect(try connection.integer("SELECT count(*) FROM field_entries") == 0)
        #expect(try connection.integer("SELECT count(*) FROM field_indexes") == 0)
        // Pages and removals look nothing through.
        for sql in [
            "SELECT key, id FROM field_entries WHERE number = 1 AND (key, id) > (x'00', '') AND key < x'FF' ORDER BY key, id LIMIT 5",
            "SELECT key, id FROM field_entries WHERE number = 1 AND (key, id) < (x'FF', '') AND key >= x'00' ORDER BY key DESC, id DESC LIMIT 5",
            "DELETE FROM field_entries WHERE number = 1 AND (key, id) IN (SELECT key, id FROM field_entries WHERE number = 1 LIMIT 5)",
        ] {
            let plan = try connection.prepare("EXPLAIN QUERY PLAN \(sql)")
            while try plan.step() {
                let step = plan.text(3)
                #expect(!step.hasPrefix("SCAN") && !step.contains("TEMP B-TREE"), "\(sql): \(step)")
            }
        }
    }

    @Test("are limited in number, and one that is not understood is dropped")
    func limits() async throws {
        let store = try Store()
        for number in 0..<StoreLimits.maxIndexes { #expect(try await create(store, "\(number)", "{\"fields\":[\"f\(number)\"]}")) }
        await #expect(throws: StoreError.tooManyIndexes(limit: StoreLimits.maxIndexes)) { try await create(store, "more", "{\"fields\":[\"f\"]}") }
        try store.alter("UPDATE field_indexes SET definition = '{\"fields\":[\"a\"],\"of\":\"later\"}' WHERE number = 1")
        let again = try Store(folder: store.folder)
        defer { again.database.close() }
        #expect(try await indexes(again).count == StoreLimits.maxIndexes - 1)
        _ = try await again.save("d", "{\"a\":1}")
        try await again.database.maintainIndexes()
        #expect(try await indexes(again).allSatisfy { $0.isReady && $0.number != 1 })
    }
}

// MARK: - Anything

private let values = [
    "null", "true", "false", "0", "1", "2", "2.5", "-7", "9007199254740993", "\"\"", "\"x\"", "\"xy\"", "\"xz\"", "[]", "[1]", "[1,\"x\"]", "{}", "{\"c\":1}",
    "{\"c\":\"x\"}", "{\"c\":null,\"d\":2}",
]

private func randomDocument(_ random: inout SeededGenerator) -> String {
    let members = ["a", "b", "e"].compactMap { name in
        Int.random(in: 0..<4, using: &random) == 0 ? nil : "\"\(name)\":\(values.randomElement(using: &random) ?? "0")"
    }
    return "{\(members.joined(separator: ","))}"
}

private func randomSelector(_ random: inout SeededGenerator, depth: Int = 2) -> String {
    let kind = Int.random(in: 0..<(depth == 0 ? 5 : 9), using: &random)
    let field = ["a", "a", "a", "b", "b.c", "e", "_id"].randomElement(using: &random) ?? "a"
    let value = values.randomElement(using: &random) ?? "1"
    func inner() -> String { randomSelector(&random, depth: depth - 1) }
    switch kind {
    case 0: return "{\"\(field)\":{\"$eq\":\(value)}}"
    case 1, 2: return "{\"\(field)\":{\"\(["$lt", "$lte", "$gt", "$gte", "$ne"].randomElement(using: &random) ?? "$lt")\":\(value)}}"
    case 3: return "{\"\(field)\":{\"$beginsWith\":\"x\"}}"
    case 4: return "{\"\(field)\":{\"\(["$exists\":true", "$exists\":false", "$in\":[1,\"x\",[]]", "$type\":\"object\"", "$size\":1"].randomElement(using: &random) ?? "")}}"
    case 5, 6: return "{\"$and\":[\(inner()),\(inner())]}"
    case 7: return "{\"$or\":[\(inner()),\(inner())]}"
    default: return "{\"$not\":\(inner())}"
    }
}
