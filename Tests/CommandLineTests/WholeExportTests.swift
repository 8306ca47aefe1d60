import Documents
import Glibc
import TestSupport
import Testing

/// Exports of several collections, and with blobs.
@Suite struct WholeExportTests {
    private static func document(_ digest: String, _ length: Int) -> String {
        "{\"photo\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":\(length),\"content_type\":\"image/png\"}}"
    }

    /// A document with a blob, and one of another collection that names the same and a second one.
    private static func filled(_ place: Place) async throws -> (Documents, [String]) {
        let documents = try await Documents.at(place)
        var digests: [String] = []
        for text in ["nightly", String(repeating: "x", count: 300_000)] {
            digests.append(try #require(try await documents.run("blob", "put", "main", input: .text(text)).lines.first))
        }
        for (db, id, digest) in [("main", "a", digests[0]), ("main.plant.readings", "b", digests[1]), ("main.plant.readings", "c", digests[0])] {
            #expect(try await documents.run("doc", "put", db, id, document(digest, digest == digests[0] ? 7 : 300_000)).status == 0)
        }
        return (documents, digests)
    }

    @Test("all collections and their blobs are exported and imported elsewhere, each item once", arguments: Place.allCases, Place.allCases)
    func whole(_ from: Place, _ to: Place) async throws {
        let (source, digests) = try await Self.filled(from)
        let target = try await Documents.at(to)
        let (file, blobs) = (source.folder.path("all.jsonl"), source.folder.path("out"))
        let exported = try await source.run("export", "main", file, "--all-collections", "--blobs", blobs, "--json")
        #expect(exported.status == 0 && exported.errors.isEmpty, "\(exported)")
        #expect(try exported.json["documents"] == 3 && exported.json["blobs"] == 2 && exported.json["blobs_missing"] == 0)
        let names = try digests.map { try BlobDigest($0).hex }
        #expect(try await Subprocess.run("/bin/ls", [blobs]).lines == names.sorted(), "files are named by digest, and nothing else is there")
        let lines = String(decoding: try source.folder.read("all.jsonl"), as: UTF8.self)
        #expect(lines.contains(#""_collection":"_default""#) && lines.contains(#""_collection":"plant.readings""#), "\(lines)")
        // What is there already is left alone.
        #expect(try await source.run("export", "main", file, "--all-collections", "--blobs", blobs, "--json").json["blobs"] == 0)

        let imported = try await target.run("import", "main", file, "--blobs", blobs)
        #expect(imported.status == 0 && imported.output == "3 saved, 0 unchanged, 0 conflicts, 0 failed, 2 blobs stored\n", "\(imported)")
        #expect(try await target.run("blob", "get", "main", digests[1]).output.utf8.count == 300_000)
        #expect(try await target.run("doc", "list", "main.plant.readings").lines.count == 2)
        #expect(try await target.run("blob", "list", "main").lines.allSatisfy { $0.hasSuffix("\treferenced") })
        let again = try await target.run("import", "main", file, "--blobs", blobs)
        #expect(again.output == "0 saved, 3 unchanged, 0 conflicts, 0 failed, 0 blobs stored\n", "\(again)")
        let back = try await target.run("export", "main", "--all-collections")
        #expect(back.output == lines && back.errors.contains("--blobs FOLDER"), "\(back)")
    }

    @Test("collections are chosen by name, and a line of a collection that is not there fails alone", arguments: Place.allCases)
    func chosen(_ place: Place) async throws {
        let (documents, _) = try await Self.filled(place)
        let some = try await documents.run("export", "main", "--collection", "plant.readings")
        #expect(some.lines.count == 2 && some.lines.allSatisfy { $0.contains(#""_collection":"plant.readings""#) }, "\(some)")
        #expect(try await documents.run("export", "main", "--collection", "_default", "--collection", "plant.readings").lines.count == 3)
        let one = try await documents.run("export", "main.plant.readings")
        #expect(one.lines.count == 2 && one.lines == some.lines, "\(one)")
        #expect(try await documents.run("export", "main._default").lines.allSatisfy { !$0.contains("_collection") })
        // An import of the database puts them where they were.
        #expect(try await documents.run("import", "main", input: .text(one.output)).status == 0)
        #expect(try await documents.run("doc", "list", "main").lines.count == 1)
        #expect(try await documents.run("export", "main.plant.readings", "--all-collections").status == 64)
        let unknown = try await documents.run("export", "main", "--collection", "plant.none")
        #expect(unknown.status == 1 && unknown.errors.contains("has no collection plant.none"), "\(unknown)")
        let lines = "{\"_id\":\"x\",\"_collection\":\"bad name\"}\n{\"_id\":\"y\"}\n{\"_id\":\"z\",\"_collection\":\"readings\",\"n\":1}\n"
        let mixed = try await documents.run("import", "main", input: .text(lines))
        #expect(mixed.status == 1 && mixed.errors.contains("line 1: _collection: "), "\(mixed)")
        // In a folder a collection is made, an agent's are those of its configuration.
        #expect(mixed.output.hasPrefix(place == .agent ? "1 saved" : "2 saved"), "\(mixed)")
    }

    @Test("a blob whose bytes do not match its name, and one that is missing, are reported; the rest is stored", arguments: Place.allCases)
    func damaged(_ place: Place) async throws {
        let (source, digests) = try await Self.filled(.folder)
        let (file, blobs) = (source.folder.path("all.jsonl"), source.folder.path("out"))
        #expect(try await source.run("export", "main", file, "--all-collections", "--blobs", blobs).status == 0)
        let names = try digests.map { try BlobDigest($0).hex }
        try source.folder.write("out/\(names[0])", "weekly!")
        source.folder.remove("out/\(names[1])")
        let target = try await Documents.at(place)
        let imported = try await target.run("import", "main", file, "--blobs", blobs)
        #expect(imported.status == 1 && imported.output.hasPrefix("3 saved"), "\(imported)")
        #expect(imported.errors.contains("blob \(names[0])") && imported.errors.contains("expected \(digests[0])"), "\(imported)")
        #expect(imported.errors.contains("blob \(names[1])") && imported.errors.contains("2 blobs that the lines name could not be stored"), "\(imported)")
        #expect(try await target.run("blob", "list", "main").output.isEmpty)
        #expect(try await target.run("import", "main", file, "--blobs", source.folder.path("absent")).errors.contains("absent: "))
    }

    @Test("without --blobs a line whose blob is missing fails, with a remedy, and the others are stored", arguments: Place.allCases)
    func withoutBlobs(_ place: Place) async throws {
        let (source, digests) = try await Self.filled(.folder)
        let (file, blobs) = (source.folder.path("all.jsonl"), source.folder.path("out"))
        #expect(try await source.run("export", "main", file, "--all-collections", "--blobs", blobs).status == 0)
        try source.folder.write("all.jsonl", try source.folder.text("all.jsonl") + "{\"_id\":\"plain\"}\n{\"_id\":\"gone\",\"_deleted\":true}\n")
        let target = try await Documents.at(place)
        let refused = try await target.run("import", "main", file)
        #expect(refused.status == 1 && refused.output == "2 saved, 0 unchanged, 0 conflicts, 3 failed\n", "\(refused)")
        for (line, id, digest) in [(1, "a", digests[0]), (2, "b", digests[1]), (3, "c", digests[0])] {
            #expect(refused.errors.contains("line \(line): document \"\(id)\" names the blob \(digest), and the database main has no such blob"), "\(refused)")
        }
        #expect(refused.errors.contains("--blobs FOLDER"), "\(refused)")
        #expect(try await target.run("doc", "list", "main.plant.readings").lines.isEmpty)
        // What is here already is enough, and so is what the document names already.
        #expect(try await target.run("blob", "put", "main", input: .text("nightly")).status == 0)
        let some = try await target.run("import", "main", file)
        #expect(some.status == 1 && some.output == "2 saved, 2 unchanged, 0 conflicts, 1 failed\n", "\(some)")
        // With a folder given, the import brings what there is.
        source.folder.makeFolder("none")
        let bare = try await target.run("import", "main", file, "--blobs", source.folder.path("none"))
        #expect(bare.status == 1 && bare.output == "1 saved, 4 unchanged, 0 conflicts, 0 failed, 0 blobs stored\n", "\(bare)")
        #expect(try await target.run("import", "main", file).output == "0 saved, 5 unchanged, 0 conflicts, 0 failed\n")
    }

    @Test("line numbers of an import with blobs are those of the file", arguments: Place.allCases)
    func numbers(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        documents.folder.makeFolder("none")
        let lines = (0..<1_200).map { "{\"_id\":\"d\($0)\"}\n" }.joined() + "no json\n\(String(repeating: "y", count: 22 << 20))\n{\"_id\":\"last\"}"
        try documents.folder.write("lines.jsonl", lines)
        let outcome = try await documents.run("import", "main", documents.folder.path("lines.jsonl"), "--blobs", documents.folder.path("none"))
        #expect(outcome.output == "1201 saved, 0 unchanged, 0 conflicts, 2 failed, 0 blobs stored\n", "\(outcome)")
        #expect(outcome.errors.contains("line 1201: ") && outcome.errors.contains("line 1202: it is longer than max_import_line"), "\(outcome)")
    }
}
