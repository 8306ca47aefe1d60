import Documents
import Glibc
import TestSupport
import Testing

@Suite struct ImportExportTests {
    private static func lines(_ count: Int) -> String {
        (0..<count).map { "{\"_id\":\"doc-\($0)\",\"n\":\($0),\"text\":\"line \\n \($0)\"}\n" }.joined()
    }

    @Test("if the agent is killed during an import, the command says what to do, and repeating the file stores each line once")
    func killed() async throws {
        let agent = try await AgentProcess.start(Configuration.plain)
        let process = try Subprocess(
            try NightjarExecutable.path(), ["import", "main", "--config", agent.configuration], folder: agent.folder.path, input: .open)
        process.write(Self.lines(600))
        try await eventually("a batch is stored") { try await agent.get("main", "doc-499").status == 200 }
        agent.process.send(SIGKILL)
        _ = try await agent.process.wait()
        process.write(Self.lines(600))
        process.closeInput()
        let outcome = try await process.wait()
        #expect(outcome.status == 1 && outcome.errors.contains("is gone, or closed the connection"), "\(outcome)")
        #expect(outcome.errors.contains("lines without _id are stored twice if you repeat"), "\(outcome)")
        #expect(!outcome.errors.contains("as it should"), "\(outcome)")
        try agent.folder.write("all.jsonl", Self.lines(600))
        let again = try await agent.command("import", "main", "all.jsonl")
        #expect(again.status == 0 && again.output.hasPrefix("100 saved, 500 unchanged"), "\(again)")
    }

    @Test("an import keeps to the quota, with an agent and without; what fits is stored, and the error says with which line to go on", arguments: Place.allCases)
    func quota(_ place: Place) async throws {
        let text = "databases: { main: { quota: 2MiB, max_document_bytes: 1MiB } }\n"
        let agent = place == .agent ? try await AgentProcess.start(text) : nil
        let folder = try agent?.folder ?? TemporaryFolder()
        if agent == nil { try folder.write("nightjar.yaml", text) }
        let documents = Documents(folder: folder, agent: agent)
        let lines = (0..<1_000).map { "{\"_id\":\"doc-\($0)\",\"text\":\"\(String(repeating: "x", count: 6_000))\"}\n" }
        let cut = try await documents.run("import", "main", input: .text(lines.joined()))
        #expect(cut.status == 1 && cut.errors.contains("of its quota of 2 MiB"), "\(cut)")
        let stored = try await documents.run("doc", "list", "main").lines.count
        #expect(stored > 100 && stored < 500 && cut.errors.contains("ended after line \(stored): \(stored) saved"), "\(stored) \(cut)")
        let known = try await documents.run("import", "main", input: .text(lines[..<stored].joined()))
        #expect(known.status == 0 && known.output.hasPrefix("0 saved, \(stored) unchanged"), "\(known)")
    }

    @Test("lines that are not documents are refused in the terms of the format", arguments: [
        ("not json", "this is not a JSON object, and a document is one: { … }"), ("[1]", "this is not a JSON object, and a document is one: { … }"),
        ("{\"_id\":5}", "_id must be a string"), ("{\"_id\":\"a\",\"_rev\":\"x-1\"}", "a generation from 1 to 9007199254740991 (2^53 - 1)"),
        ("{\"_id\":\"a\",\"_rev\":\"1-\(String(repeating: "a", count: 130))\"}", "2 to 128 (revision_digest_digits)"),
        ("{\"_id\":\"\(String(repeating: "a", count: 241))\"}", "240 are allowed (document_id_bytes)"),
    ])
    func words(_ line: String, _ words: String) async throws {
        let documents = try await Documents.at(.folder)
        let outcome = try await documents.run("import", "main", input: .text(line + "\n"))
        #expect(outcome.status == 1 && outcome.errors.contains("line 1: ") && outcome.errors.contains(words), "\(outcome)")
    }

    @Test("a file that is not JSON Lines is told as such: its first line is quoted, once, and few are named", arguments: Place.allCases)
    func otherFormat(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        let long = String(repeating: "é", count: 70)
        for (text, quoted) in [("[\n" + String(repeating: "  5,\r\n", count: 50) + "]\n", "\"[\""), ("\(long)\nb\nc\nd\ne\n", "\"\(long.prefix(60))…\"")] {
            let outcome = try await documents.run("import", "main", input: .text(text))
            #expect(outcome.status == 1 && outcome.output.hasPrefix("0 saved"), "\(outcome)")
            #expect(outcome.errors.contains("the line is \(quoted); expected are JSON Lines: one JSON object in each line"), "\(outcome)")
            #expect(outcome.errors.split(separator: "expected are JSON Lines").count == 2, "\(outcome)")
            #expect(outcome.errors.contains("line 3: ") && !outcome.errors.contains("line 4: ") && outcome.errors.contains("lines more"), "\(outcome)")
        }
        // After an object, each line that is none is named.
        let mixed = try await documents.run("import", "main", input: .text("{\"_id\":\"a\"}\n1\n2\n3\n4\n5\n"))
        #expect(mixed.output.hasPrefix("1 saved") && mixed.errors.contains("line 6: ") && !mixed.errors.contains("JSON Lines"), "\(mixed)")
    }

    @Test("input without a document does not create a database, and one document after wrong lines does")
    func nothingToStore() async throws {
        let documents = try await Documents.at(.folder)
        let photo = "{\"p\":{\"@type\":\"blob\",\"digest\":\"sha1-qvTGHdzF6KLavt4PO0gs2a6pQ00=\"}}\n"
        for text in ["site,n\nnorth,1\n", photo, String(repeating: "no json\n", count: 2_000)] {
            let outcome = try await documents.run("import", "main", input: .text(text))
            #expect(outcome.status == 1 && outcome.output.hasPrefix("0 saved") && outcome.errors.contains("line 1: "), "\(outcome)")
            #expect(outcome.errors.contains("standard input holds no line that can be stored: the database \"main\" was not created"), "\(outcome)")
            #expect(!documents.folder.exists("data"))
        }
        let wrong = String(repeating: "no json\n", count: 50_000)
        try documents.folder.write("late.jsonl", wrong + Self.lines(3))
        let late = try await documents.run("import", "main", documents.folder.path("late.jsonl"))
        #expect(late.status == 1 && late.output == "3 saved, 0 unchanged, 0 conflicts, 50000 failed\n", "\(late)")
        #expect(late.errors.contains("created database") && late.errors.contains("line 1: "), "\(late)")
    }

    @Test("what a pipe brings a little at a time is read ahead without loss, and in order")
    func readAhead() async throws {
        let folder = try TemporaryFolder()
        let process = try Subprocess(try NightjarExecutable.path(), ["import", "main"], folder: folder.path, input: .open)
        for text in ["no json\n", "{\"_id\":", "\"late\",\"n\":1", "}\n{\"_id\":5}\n"] {
            process.write(text)
            try await Task.sleep(for: .milliseconds(30))
        }
        process.write(String(repeating: "x\n", count: 100_000) + Self.lines(3))
        process.closeInput()
        let outcome = try await process.wait()
        #expect(outcome.status == 1 && outcome.output == "4 saved, 0 unchanged, 0 conflicts, 100002 failed\n", "\(outcome)")
        #expect(outcome.errors.contains("line 1: this is not") && outcome.errors.contains("line 3: _id must be a string"), "\(outcome)")
    }

    @Test(arguments: Place.allCases, Place.allCases) func anExportIsImportedElsewhereUnchanged(_ from: Place, _ to: Place) async throws {
        let source = try await Documents.at(from)
        let target = try await Documents.at(to)
        let stored = try await source.run("import", "main", "--json", input: .text(Self.lines(2_345)))
        #expect(stored.status == 0, "\(stored)")
        #expect(try stored.json["saved"] == 2_345)
        #expect(try await source.run("doc", "rm", "main", "doc-7").status == 0)

        let file = source.folder.path("out.jsonl")
        let exported = try await source.run("export", "main", file, "--deleted", "--json")
        #expect(exported.status == 0, "\(exported)")
        #expect(try exported.json["documents"] == 2_345)

        let copied = try await target.run("import", "main", file)
        #expect(copied.status == 0, "\(copied)")
        #expect(copied.output == "2345 saved, 0 unchanged, 0 conflicts, 0 failed\n")
        let again = try await target.run("import", "main", file, "--json")
        #expect(again.status == 0, "\(again)")
        #expect(try again.json["unchanged"] == 2_345)
        let back = try await target.run("export", "main", "--deleted")
        #expect(back.outputBytes == (try source.folder.read("out.jsonl")))
        let live = try await target.run("export", "main")
        #expect(live.lines.count == 2_344 && !live.errors.contains("blobs"), "\(live.errors)")
        // Their bytes are elsewhere, and a user who saves a database this way has to know.
        #expect(try await target.run("blob", "put", "main", input: .text("hello")).status == 0)
        let digest = "sha1-qvTGHdzF6KLavt4PO0gs2a6pQ00="
        let references = [
            "\"p\":{\"@type\":\"blob\",\"digest\":\"\(digest)\"}",
            "\"_attachments\":{\"a.txt\":{\"content_type\":\"text/plain\",\"digest\":\"\(digest)\",\"length\":5,\"revpos\":1,\"stub\":true}}",
        ]
        for reference in references {
            #expect(try await target.run("import", "main", input: .text("{\"_id\":\"photo\",\(reference)}\n")).status == 0)
            let named = try await target.run("export", "main")
            #expect(named.lines.count == 2_345 && named.errors.contains("documents name blobs or attachments, which are not in the export"), "\(named.errors)")
            #expect(try await target.run("doc", "purge", "main", "photo").status == 0)
        }
    }

    @Test func aByteOrderMarkBeforeTheFirstLineIsNoPartOfIt() async throws {
        let documents = try await Documents.at(.folder)
        let outcome = try await documents.run("import", "main", input: .text("\u{FEFF}{\"_id\":\"a\"}\n{\"_id\":\"b\"}\n"))
        #expect(outcome.output == "2 saved, 0 unchanged, 0 conflicts, 0 failed\n", "\(outcome)")
    }

    @Test(arguments: Place.allCases) func badLinesAreCountedAndTheOthersStored(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        #expect(try await documents.run("doc", "put", "main", "taken", "{}").status == 0)
        let input = "{\"_id\":\"good\"}\n\nno json\r\n{\"_id\":\"taken\",\"a\":1}\n{\"unnamed\":true}\n{\"_id\":\"last\"}"
        let outcome = try await documents.run("import", "main", input: .text(input))
        #expect(outcome.status == 1)
        #expect(outcome.output == "3 saved, 0 unchanged, 1 conflict, 1 failed\n", "\(outcome)")
        #expect(outcome.errors.contains("line 3: ") && outcome.errors.contains("line 4: "), "\(outcome)")
        #expect(try await documents.run("doc", "list", "main").lines.count == 4)
    }

    @Test(arguments: Place.allCases) func aLineThatIsTooLongFailsAlone(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        let long = "{\"_id\":\"long\",\"text\":\"\(String(repeating: "x", count: 25 << 20))\"}"
        for (input, saved, number) in [
            ("{\"_id\":\"a\"}\n\(long)\n{\"_id\":\"b\"}\n{\"_id\":\"c\"}", 3, 2), ("{\"_id\":\"d\"}\n\n\(long)", 1, 3), ("\(long)\n{\"_id\":\"e\"}\n", 1, 1),
        ] {
            let outcome = try await documents.run("import", "main", input: .text(input))
            #expect(outcome.status == 1)
            #expect(outcome.output == "\(saved) saved, 0 unchanged, 0 conflicts, 1 failed\n", "\(outcome)")
            #expect(outcome.errors.contains("line \(number): it is longer than max_import_line"), "\(outcome)")
        }
        #expect(try await documents.run("doc", "list", "main").lines.count == 5)
        let put = try await documents.run("doc", "put", "main", "long", input: .text(long))
        #expect(put.status == 1 && put.errors.contains(place == .agent ? "max_body_bytes (" : "max_document_bytes is 20971520"), "\(put)")
        if let agent = documents.agent {
            let head = "PUT /api/databases/main/documents/long HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(long.utf8.count)\r\nExpect: 100-continue\r\n\r\n"
            let answer = try HTTPProbe.parse(try await agent.admin.raw(Array(head.utf8)))
            #expect(answer.status == 413 && answer.text.contains("max_body_bytes ("), "\(answer)")
        }
        #expect(try await documents.run("doc", "get", "main", "long").status == 1)
    }

    @Test(arguments: Place.allCases) func anInterruptedImportIsRepeatedWithoutAConflict(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        let first = try await documents.run("doc", "put", "main", "edited", #"{"n":1}"#, "--json")
        let rev = try #require(try first.json["rev"]?.asString)
        let lines = Self.lines(40) + "{\"_id\":\"edited\",\"_rev\":\"\(rev)\",\"n\":2}\n{\"_id\":\"gone\",\"_deleted\":true}\n"
        let interrupted = lines.split(separator: "\n").prefix(20).joined(separator: "\n")
        #expect(try await documents.run("import", "main", input: .text(interrupted)).output.hasPrefix("20 saved"))
        let whole = try await documents.run("import", "main", input: .text(lines))
        #expect(whole.output == "22 saved, 20 unchanged, 0 conflicts, 0 failed\n" && whole.status == 0, "\(whole)")
        let again = try await documents.run("import", "main", input: .text(lines))
        #expect(again.output == "0 saved, 42 unchanged, 0 conflicts, 0 failed\n" && again.status == 0, "\(again)")
        // Another body for the same id still is a conflict.
        let other = try await documents.run("import", "main", input: .text(#"{"_id":"doc-0","n":"other"}"#))
        #expect(other.output == "0 saved, 0 unchanged, 1 conflict, 0 failed\n", "\(other)")
    }

    @Test(arguments: Place.allCases) func aFileOfLinesWithoutIdsIsRepeatedWithoutDoubling(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        // The same reading twice is two readings.
        let lines = "{\"n\":1}\n{\"n\":1}\n{\"n\":2}\n"
        try documents.folder.write("readings.jsonl", lines)
        #expect(try await documents.run("import", "main", documents.folder.path("readings.jsonl")).output.hasPrefix("3 saved, 0 unchanged"))
        // It has grown meanwhile.
        try documents.folder.write("readings.jsonl", lines + "{\"n\":3}\n")
        let again = try await documents.run("import", "main", documents.folder.path("readings.jsonl"))
        #expect(again.output == "1 saved, 3 unchanged, 0 conflicts, 0 failed\n" && again.status == 0, "\(again)")
        try documents.folder.write("other.jsonl", lines)
        #expect(try await documents.run("import", "main", documents.folder.path("other.jsonl")).output.hasPrefix("3 saved, 0 unchanged"))
        // Nothing tells what comes through a pipe from what came before.
        for _ in 0..<2 { #expect(try await documents.run("import", "main", input: .text(lines)).output.hasPrefix("3 saved, 0 unchanged")) }
        #expect(try await documents.run("doc", "list", "main").lines.count == 13)
    }

    @Test(arguments: Place.allCases) func linesThatAreNotNamedAreCounted(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        let outcome = try await documents.run("import", "main", input: .text(String(repeating: "{\"_id\":5}\n", count: 25)))
        #expect(outcome.status == 1 && outcome.errors.contains("line 20: ") && !outcome.errors.contains("line 21: "), "\(outcome)")
        #expect(outcome.errors.contains("and 5 lines more"), "\(outcome)")
    }

    @Test(arguments: Place.allCases) func largeDocumentsAndNoDocumentsWork(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        let none = try await documents.run("import", "main")
        #expect(none.status == 0, "\(none)")
        let big = String(repeating: "x", count: 1 << 20)
        let input = (0..<3).map { "{\"_id\":\"big-\($0)\",\"text\":\"\(big)\"}\n" }.joined()
        let outcome = try await documents.run("import", "main", input: .text(input))
        #expect(outcome.output.hasPrefix("3 saved"), "\(outcome)")
        let out = try await documents.run("export", "main")
        #expect(out.outputBytes.count > 3 << 20)
        #expect(out.lines.count == 3)
    }

    @Test(arguments: Place.allCases) func failuresNameWhatIsWrong(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        let noFile = try await documents.run("import", "main", documents.folder.path("absent.jsonl"))
        #expect(noFile.status == 1)
        #expect(noFile.errors.contains("absent.jsonl: No such file"), "\(noFile)")
        let noDatabase = try await documents.run("export", "nothing", documents.folder.path("out.jsonl"))
        #expect(noDatabase.status == 1)
        #expect(noDatabase.errors.contains("\"nothing\""), "\(noDatabase)")
        #expect(!documents.folder.exists("out.jsonl"))
        #expect(try await documents.run("doc", "put", "main", "a", "{}").status == 0)
        let noFolder = try await documents.run("export", "main", documents.folder.path("absent/out.jsonl"))
        let words = "\(documents.folder.path("absent/out.jsonl")): there is no folder \(documents.folder.path("absent"))\n"
        #expect(noFolder.status == 1 && noFolder.errors.hasSuffix(words), "\(noFolder)")
    }

    @Test(arguments: Place.allCases) func aReaderThatHasEnoughIsNoError(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        #expect(try await documents.run("import", "main", input: .text(Self.lines(20_000))).status == 0)
        let outcome = try await Subprocess.run(
            "/bin/sh", ["-c", "\"$0\" export main --config \"$1\" | head -n 1", try NightjarExecutable.path(), documents.folder.path("nightjar.yaml")])
        #expect(outcome.lines.count == 1)
        #expect(outcome.errors.isEmpty, "\(outcome)")
    }

    @Test func theImportOfAnUnknownDatabaseDoesNotWaitForItsInput() async throws {
        let documents = try await Documents.at(.agent)
        let process = try Subprocess(
            try NightjarExecutable.path(), ["import", "mian", "--data", documents.folder.path("data")], input: .open)
        let outcome = try await process.wait()
        #expect(outcome.status == 1)
        #expect(outcome.errors.contains("no database \"mian\""), "\(outcome)")
    }
}
