import Documents
import TestSupport
import Testing

@Suite struct DocumentCommandTests {
    @Test(arguments: Place.allCases) func aDocumentIsSavedReadReplacedAndDeleted(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        let first = try await documents.run("doc", "put", "main", "pump-1", "{\"site\": \"north\", \"n\": 1.50}", "--json")
        #expect(first.status == 0, "\(first)")
        let revision = try #require(try first.json["rev"]?.asString)
        #expect(revision.hasPrefix("1-"))

        let read = try await documents.run("doc", "get", "main", "pump-1")
        #expect(read.status == 0, "\(read)")
        // The body comes back byte for byte.
        #expect(read.output == "{\"_id\":\"pump-1\",\"_rev\":\"\(revision)\",\"site\": \"north\", \"n\": 1.50}\n")

        // A shell's echo ends with a line's end, which is none of the document.
        #expect(try await documents.run("doc", "put", "main", "echoed", input: .text("{\"n\":1}\n")).status == 0)
        #expect(try await documents.run("doc", "get", "main", "echoed").output.hasSuffix("\"n\":1}\n"))
        let echoed = try await documents.run("doc", "get", "main", "echoed").output
        #expect(!echoed.hasSuffix("\n\n"), "\(echoed)")
        #expect(try await documents.run("doc", "rm", "main", "echoed").status == 0)
        let absent = try await documents.run("doc", "put", "main", "pump-2", "pump-2.json")
        #expect(absent.status == 1 && absent.errors.contains("there is no file of that name") && absent.errors.contains("doc put main pump-2 < FILE"), "\(absent)")
        let named = try await documents.run("doc", "put", "main", "pump-2", "/dev/null")
        #expect(named.status == 1 && named.errors.contains("the name of a file") && named.errors.contains("pump-2 < /dev/null"), "\(named)")

        let blind = try await documents.run("doc", "put", "main", "pump-1", "{}")
        #expect(blind.status == 1)
        #expect(blind.errors.contains("pump-1") && blind.errors.contains(revision), "\(blind)")

        let second = try await documents.run("doc", "put", "main", "pump-1", "-", input: .text("{\"_rev\":\"\(revision)\",\"n\":2}"))
        #expect(second.status == 0, "\(second)")
        #expect(second.output.hasPrefix("pump-1\t2-"))

        let late = try await documents.run("doc", "rm", "main", "pump-1", "--rev", revision)
        #expect(late.status == 1, "\(late)")
        let gone = try await documents.run("doc", "rm", "main", "pump-1")
        #expect(gone.status == 0, "\(gone)")
        for command in ["get", "rm"] {
            let outcome = try await documents.run("doc", command, "main", "pump-1")
            #expect(outcome.status == 1)
            #expect(outcome.errors.contains("there is no document \"pump-1\""), "\(outcome)")
            #expect(outcome.output.isEmpty)
        }
    }

    @Test(arguments: Place.allCases) func whatADocumentSaysOfItselfIsChecked(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        let wrong = [
            (#"{"_deleted":"true"}"#, "_deleted must be true or false"), (#"{"_deleted":null}"#, "_deleted must be true or false"),
            (#"{"_id":7}"#, "_id"), (#"{"_rev":7}"#, "_rev"), (#"{"_owner":"ann"}"#, "_owner"), (#"{"a":1,"b":2,"a":3}"#, #"the key "a" appears twice"#),
        ]
        for (body, words) in wrong {
            let outcome = try await documents.run("doc", "put", "main", "a", body)
            #expect(outcome.status == 1 && outcome.errors.contains(words), "\(body): \(outcome)")
            let imported = try await documents.run("import", "main", input: .text("\(body)\n{\"_id\":\"good\"}\n"))
            #expect(imported.errors.contains("line 1: ") && imported.errors.contains(words), "\(body): \(imported)")
        }
        #expect(try await documents.run("doc", "list", "main").lines.count == 1)
        #expect(try await documents.run("doc", "put", "main", "a", #"{"_rev":null,"_deleted":false,"n":1}"#).status == 0)
    }

    @Test(arguments: Place.allCases) func theListLeavesTombstonesOut(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        for id in ["a", "b", "c"] { #expect(try await documents.run("doc", "put", "main", id, "{}").status == 0) }
        #expect(try await documents.run("doc", "rm", "main", "b").status == 0)
        let list = try await documents.run("doc", "list", "main")
        #expect(list.lines.map { $0.split(separator: "\t").first } == ["a", "c"], "\(list)")
        let all = try await documents.run("doc", "list", "main", "--deleted", "--json")
        let rows = try #require(try all.json.asArray)
        #expect(rows.compactMap { $0["id"]?.asString } == ["a", "c", "b"])
        #expect(rows.compactMap { $0["deleted"]?.asBool } == [false, false, true])
        #expect(rows.allSatisfy { $0["rev"]?.asString != nil && $0["sequence"]?.asInt64 != nil })
        #expect(try await documents.run("doc", "list", "main.plant.readings", "--json").json == [])
    }

    @Test(arguments: Place.allCases) func idsAreBytes(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        // The two last ones look alike and are not the same bytes.
        let ids = ["a/b", "50%25", "?q=1&x#y", "..", "sp ace", "caf\u{E9}", "cafe\u{301}"]
        for (number, id) in ids.enumerated() {
            let saved = try await documents.run("doc", "put", "main", id, "{\"number\":\(number)}")
            #expect(saved.status == 0, "\(id): \(saved)")
        }
        for (number, id) in ids.enumerated() {
            let read = try await documents.run("doc", "get", "main", id)
            #expect(try read.json["number"]?.asInt64 == Int64(number), "\(id): \(read)")
            #expect(try read.json["_id"]?.asString.map { Array($0.utf8) } == Array(id.utf8))
        }
        #expect(try await documents.run("doc", "list", "main").lines.count == ids.count)
    }

    @Test(arguments: Place.allCases) func collectionsAreApart(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        #expect(try await documents.run("doc", "put", "main.plant.readings", "r1", "{}").status == 0)
        #expect(try await documents.run("doc", "get", "main", "r1").status == 1)
        #expect(try await documents.run("doc", "get", "main.plant.readings", "r1").status == 0)
        let unknown = try await documents.run("doc", "get", "main.plant.nothing", "r1")
        #expect(unknown.status == 1)
        #expect(unknown.errors.contains("no collection plant.nothing") && unknown.errors.contains("plant.readings"), "\(unknown)")
    }

    @Test(arguments: Place.allCases) func whatIsNoDocumentIsRefused(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        for text in ["", "[1]", "{\"a\":", "{\"_revision\":1}", "{\"_id\":\"other\"}", "{\"_rev\":\"nonsense\"}"] {
            let outcome = try await documents.run("doc", "put", "main", "x", input: .text(text))
            #expect(outcome.status == 1, "\(text): \(outcome)")
            #expect(outcome.errors.hasPrefix("nightjar: "), "\(text): \(outcome)")
        }
    }

    @Test func anUnknownDatabaseIsNamedWithTheKnownOnes() async throws {
        let agent = try await Documents.at(.agent)
        let atAgent = try await agent.run("doc", "get", "mian", "x")
        #expect(atAgent.status == 1)
        #expect(atAgent.errors.contains("no database \"mian\"; it has main"), "\(atAgent)")

        let folder = try await Documents.at(.folder)
        let empty = try await folder.run("doc", "get", "main", "x")
        #expect(empty.status == 1)
        #expect(empty.errors.contains("there is no database \"main\""), "\(empty)")
        // Reading must not make one.
        #expect(!folder.folder.exists("data"))
    }

    @Test func aNewDatabaseIsAnnounced() async throws {
        let documents = try await Documents.at(.folder)
        let saved = try await documents.run("doc", "put", "main", "x", "{}")
        #expect(saved.errors.contains("created database"), "\(saved)")
        #expect(try await documents.run("doc", "put", "main", "y", "{}").errors.isEmpty)
    }

    @Test("what would be refused does not leave an empty database behind", arguments: [
        ("[1]", "this is not a JSON object"), ("{\"_id\":\"other\"}", "_id in the document is \"other\""),
        ("{\"_rev\":\"1-aa\",\"n\":1}", "neither does the database \"main\"; the change was based on 1-aa"),
        ("{\"p\":{\"@type\":\"blob\",\"digest\":\"sha1-qvTGHdzF6KLavt4PO0gs2a6pQ00=\"}}", "names is not here; store its bytes first"),
        ("{\"_revisions\":{\"start\":1}}", "_revisions"), ("{\"_attachments\":{\"photo\":{\"stub\":true}}}", "the entry \"photo\" of _attachments needs a digest"),
    ])
    func refused(_ text: String, _ words: String) async throws {
        let documents = try await Documents.at(.folder)
        let outcome = try await documents.run("doc", "put", "main", "x", input: .text(text))
        #expect(outcome.status == 1 && outcome.errors.contains(words) && !outcome.errors.contains("created"), "\(outcome)")
        #expect(!documents.folder.exists("data"))
    }

    @Test("nor an empty collection in a database that exists")
    func refusedCollection() async throws {
        let folder = try TemporaryFolder()
        func run(_ arguments: String..., input: String) async throws -> Subprocess.Outcome {
            try await Subprocess.run(try NightjarExecutable.path(), arguments, folder: folder.path, input: .text(input))
        }
        #expect(try await run("doc", "put", "main", "x", input: "{}").status == 0)
        let put = try await run("doc", "put", "main.stores.beers", "x", input: "{\"_rev\":\"1-aa\"}")
        #expect(put.status == 1 && put.errors.contains("neither does the collection stores.beers of the database \"main\""), "\(put)")
        let lines = try await run("import", "main.stores.beers", input: "a,b\n")
        #expect(lines.status == 1 && lines.errors.contains("the collection stores.beers of the database \"main\" was not created"), "\(lines)")
        for outcome in [put, lines] { #expect(!outcome.errors.contains("created collection"), "\(outcome)") }
        let right = try await run("import", "main.stores.beers", input: "a,b\n{}\n")
        #expect(right.output.hasPrefix("1 saved") && right.errors.contains("created collection stores.beers"), "\(right)")
    }

    @Test func aDatabaseThatTheConfigurationDoesNotNameIsNotMade() async throws {
        let documents = try await Documents.at(.folder)
        let slip = try await documents.run("doc", "put", "mian", "x", "{}")
        #expect(slip.status == 1 && slip.errors.contains("has no database \"mian\"; did you mean \"main\"?"), "\(slip)")
        let other = try await documents.run("import", "somewhere", input: .text("{}\n"))
        #expect(other.status == 1 && other.errors.contains("has no database \"somewhere\"; it has: main"), "\(other)")
        #expect(!documents.folder.exists("data/mian.nightjar") && !documents.folder.exists("data/somewhere.nightjar"))
    }

    @Test func wrongUsageIsStatus64() async throws {
        #expect(try await NightjarExecutable.run("doc", "get", "main").status == 64)
        #expect(try await NightjarExecutable.run("doc", "fetch", "main", "x").status == 64)
        #expect(try await NightjarExecutable.run("dco").status == 64)
    }
}
