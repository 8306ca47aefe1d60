import Documents
import TestSupport
import Testing

/// What is reported about documents that left a user's channels, and what users who may read everything are told.
extension CouchAccessTests {
    @Test("when a document has left its channels, a client learns what ended with that, without the other content, and nothing of what came later")
    func departures() async throws {
        let hub = try await hub()
        let (anna, ben, cara) = (try CouchHTTP(hub, login: anna), try CouchHTTP(hub, login: ben), try CouchHTTP(hub, login: cara))
        var tree: [String: (history: [String], isDeleted: Bool)] = [:]
        var since = "0"
        // The winner ends, and what is left is not for cara.
        try await put(anna, "jam", "ff", "red")
        try await put(anna, "jam", "aa", "blue")
        #expect(try await pulled(cara, "jam", into: &tree, since: &since) == ["1-ff"])
        let tombstone = try await end("jam", "1-ff", anna)
        let left = try await cara.ok("GET", "/main/_changes?style=all_docs&since=\(since)&include_docs=true&local_seq=true")["results"]?.asArray?.first
        let target = "/main/jam?rev=\(tombstone)&conflicts=true&deleted_conflicts=true&revs_info=true&local_seq=true"
        let told = try await cara.ok("GET", target)
        #expect(told["_conflicts"] == nil && told["_deleted_conflicts"] == nil && told["why"] == nil, "\(told.text)")
        #expect(told["_local_seq"]?.asInt64 == left?["seq"]?.asInt64 && left?["doc"]?["_local_seq"]?.asInt64 == left?["seq"]?.asInt64, "\(told.text)")
        #expect(told["_revs_info"]?.asArray?.count == 2)
        #expect(try await pulled(cara, "jam", into: &tree, since: &since).isEmpty)
        // It goes on without her: branches come and end where she may not look.
        try await put(ben, "jam", "ee", "blue", below: "aa")
        try await put(ben, "jam", "fe", "blue", below: "aa")
        let later = try await end("jam", "2-fe", ben)
        for revision in [tombstone, later, "2-fe", "2-ee", "1-aa"] {
            #expect(try await cara.problem("GET", "/main/jam?rev=\(revision)&conflicts=true&local_seq=true") == "404 not_found", "\(revision)")
        }
        for start in ["0", since] {
            #expect(try await !cara.changes("style=all_docs&since=\(start)").ids.contains("jam"), "since \(start)")
        }
        // A document that went on along its own branch, where others were made and ended after that.
        try await put(anna, "pie", "aa", "red")
        #expect(try await pulled(cara, "pie", into: &tree, since: &since).contains("1-aa"))
        try await put(anna, "pie", "bb", "blue", below: "aa")
        try await put(ben, "pie", "ff", "blue", below: "aa")
        let other = try await end("pie", "2-ff", ben)
        #expect(try await !cara.changes("style=all_docs&since=0").ids.contains("pie"))
        #expect(try await cara.problem("GET", "/main/pie?rev=\(other)") == "404 not_found")
        // Where it is deleted for everybody she hears of that, and of nothing else.
        try await end("pie", "2-bb", ben)
        let row = try await cara.ok("GET", "/main/_changes?style=all_docs&since=0")["results"]?.asArray?.first { $0["id"] == "pie" }
        let seen = row?["changes"]?.asArray?.first?["rev"]?.asString ?? ""
        let current = try await CouchHTTP(hub, login: boss).ok("GET", "/main/pie?rev=\(seen)&local_seq=true")
        #expect(current["why"]?.asString == "hidden" && row?["changes"]?.asArray?.count == 1, "\(current.text) \(row?.text ?? "")")
        let gone = try await cara.ok("GET", "/main/pie?rev=\(seen)&deleted_conflicts=true&local_seq=true")
        #expect(gone["_deleted"]?.asBool == true && gone["why"] == nil && gone["_deleted_conflicts"] == nil, "\(gone.text)")
        #expect(gone["_local_seq"]?.asInt64 == row?["seq"]?.asInt64 && gone["_local_seq"] != current["_local_seq"], "\(gone.text)")
        #expect(try await hub.stop().status == 0)
    }

    @Test("a user with the channel * gets every branch, with all its content")
    func everything() async throws {
        let hub = try await hub()
        let (anna, boss) = (try CouchHTTP(hub, login: anna), try CouchHTTP(hub, login: boss))
        for digest in ["aa", "cc", "bb"] { try await put(anna, "tea", digest, digest == "bb" ? "blue" : "red") }
        try await endLoser("tea", "aa", anna)
        let tombstone = "2-ee"
        let leaves = try await boss.ok("GET", "/main/tea?open_revs=all").asArray?.compactMap { $0["ok"] } ?? []
        #expect(leaves.compactMap { $0["_rev"]?.asString }.sorted() == ["1-bb", "1-cc", tombstone])
        #expect(leaves.first { $0["_deleted"]?.asBool == true }?["why"]?.asString == "hidden", "\(leaves)")
        #expect(try await boss.ok("GET", "/main/tea?rev=\(tombstone)")["why"]?.asString == "hidden")
        #expect(try await boss.ok("GET", "/main/tea?rev=1-bb")["team"]?.asString == "blue")
        let row = try await boss.ok("GET", "/main/_changes?style=all_docs&include_docs=true&conflicts=true")["results"]?.asArray?.first
        #expect(row?["changes"]?.asArray?.compactMap { $0["rev"]?.asString }.sorted() == ["1-bb", "1-cc", tombstone], "\(row?.text ?? "")")
        #expect(row?["doc"]?["_conflicts"]?.asArray?.map(\.asString) == ["1-bb"], "\(row?.text ?? "")")
        #expect(try await hub.stop().status == 0)
    }
}
