import Documents
import Glibc
import TestSupport
import Testing

/// `backup`, `restore` and `compact`.
@Suite("Maintenance of databases")
struct CareCommandTests {
    @Test("a backup holds documents, attachments and history, is verified, and becomes a database again", arguments: Place.allCases)
    func backUp(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        let folder = documents.folder
        try folder.write("blob.bin", "the bytes of a blob")
        let put = try await documents.run("blob", "put", "main", "blob.bin", "--json")
        let digest = try #require(try put.json["digest"]?.asString, "\(put)")
        #expect(try await documents.run("doc", "put", "main", "with-blob", #"{"b":{"@type":"blob","digest":"\#(digest)","length":19}}"#).status == 0)
        #expect(try await documents.run("doc", "put", "main", "plain", #"{"n":1}"#).status == 0)
        let made = try await documents.run("backup", "main", "copy", "--json")
        #expect(made.status == 0, "\(made)")
        #expect(try made.json["documents"] == 2 && made.json["blobs"] == 1, "\(made)")
        // Of the file and of the blobs.
        func size(_ file: String) throws -> Int64 { Int64(try folder.read("copy/\(file)").count) }
        let verified = try await NightjarExecutable.run("backup", "--verify", "copy", "--json", folder: folder.path)
        for told in [try made.json, try verified.json] {
            #expect(try told["blob_bytes"] == 19 && told["bytes"]?.asInt64 == size("db.sqlite3") + 19, "\(told.text)")
        }
        let again = try await documents.run("backup", "main", "copy")
        #expect(again.status == 1 && again.errors.contains("choose a new folder") && !again.errors.contains("File exists"), "what is there is left alone: \(again)")
        #expect(try await documents.run("doc", "put", "main", "later", "{}").status == 0)

        #expect(try await NightjarExecutable.run("backup", "--verify", "copy", folder: folder.path).status == 0)
        try folder.write("other/nightjar.yaml", "data: data\ndatabases: { main: {} }\nlisteners: []\n")
        func other(_ arguments: String...) async throws -> Subprocess.Outcome {
            try await Subprocess.run(try NightjarExecutable.path(), arguments + ["--config", "other/nightjar.yaml"], folder: folder.path)
        }
        for none in ["nothere", "other"] {
            let refused = try await other("restore", none)
            #expect(refused.status == 1 && refused.errors.contains("\(none) is not a backup") && !refused.errors.contains("errno"), "\(refused)")
        }
        let restored = try await other("restore", "copy")
        #expect(restored.status == 0 && restored.output.contains("restored 2 documents and 1 blob,"), "\(restored)")
        let list = try await other("doc", "list", "main").output
        #expect(list.contains("plain\t1-") && list.contains("with-blob\t1-") && !list.contains("later"), "\(list)")
        #expect(try await other("blob", "get", "main", digest).output == "the bytes of a blob")
        #expect(try await other("doctor", "--offline", "--json").output.contains("2 documents and 1 blob read, all sound"))

        // What is there is not lost by chance.
        #expect(try await other("doc", "put", "main", "newer", "{}").status == 0)
        #expect(try await other("restore", "copy").status == 1)
        let replaced = try await other("restore", "copy", "--replace")
        #expect(replaced.status == 0 && replaced.output.contains("main.nightjar.before-"), "\(replaced)")
        #expect(try await !other("doc", "list", "main").output.contains("newer"))
        let second = try await other("restore", "copy", "--as", "second")
        #expect(second.status == 0 && second.output.contains("add second: {} under databases"), "\(second)")
        if place == .agent {
            let refused = try await documents.run("restore", "copy", "--as", "third")
            #expect(refused.status == 1 && refused.errors.contains("stop it first"), "\(refused)")
        }
    }

    @Test("what root restores belongs to the owner of the data folder", .enabled(if: geteuid() == 0, "only root can be somebody else"))
    func restoredByRoot() async throws {
        let documents = try await Documents.at(.folder)
        let folder = documents.folder
        try folder.write("blob.bin", "the bytes of a blob")
        #expect(try await documents.run("blob", "put", "main", "blob.bin").status == 0)
        #expect(try await documents.run("doc", "put", "main", "a", "{}").status == 0)
        #expect(try await documents.run("backup", "main", "copy").status == 0)
        let user: uid_t = 65_534
        #expect(chown(folder.path("data"), user, user) == 0)
        #expect(try await documents.run("restore", "copy", "--as", "second").status == 0)
        for made in ["", "/db.sqlite3", "/blobs", ".known"] {
            var facts = stat()
            #expect(lstat(folder.path("data/second.nightjar\(made)"), &facts) == 0 && facts.st_uid == user && facts.st_gid == user, "\(made): \(facts.st_uid)")
        }
    }

    @Test("an interrupted restore is reported, no new database is made in its place, and the same command completes it", arguments: [true, false])
    func cutShort(_ wasMovedAway: Bool) async throws {
        let documents = try await Documents.at(.folder)
        let folder = documents.folder
        #expect(try await documents.run("doc", "put", "main", "a", "{}").status == 0)
        #expect(try await documents.run("backup", "main", "copy").status == 0)
        try folder.write("data/main.nightjar.restoring/db.sqlite3", "the beginning of it")
        if wasMovedAway {
            #expect(rename(folder.path("data/main.nightjar"), folder.path("data/main.nightjar.before-1")) == 0)
            let refused = try await documents.run("doc", "put", "main", "b", "{}")
            #expect(refused.status != 0 && !folder.exists("data/main.nightjar"), "\(refused)")
            let run = try await documents.run("run")
            #expect(run.status != 0 && (run.errors + run.output).contains("a nightjar restore has not finished"), "\(run)")
            #expect(!folder.exists("data/main.nightjar"))
        }
        let doctor = try await documents.run("doctor", "--offline")
        #expect((doctor.output + doctor.errors).contains("a nightjar restore has not finished"), "\(doctor)")
        let again = try await documents.run("restore", "copy", "--replace")
        #expect(again.status == 0 && again.output.contains("main.nightjar.before-") != wasMovedAway, "\(again)")
        #expect(!folder.exists("data/main.nightjar.restoring") && folder.exists("data/main.nightjar.known"))
        #expect(!folder.exists("data/main.nightjar.restoring.known"))
        #expect(try await documents.run("doc", "list", "main").output.contains("a\t1-"))
    }

    @Test("where a database was and its folder is gone, restore makes none unless it is told to: the disk may only not be mounted")
    func goneFolder() async throws {
        let documents = try await Documents.at(.folder)
        let folder = documents.folder
        #expect(try await documents.run("doc", "put", "main", "a", "{}").status == 0)
        #expect(try await documents.run("backup", "main", "copy").status == 0)
        try folder.rename("data/main.nightjar", to: "unmounted")
        let refused = try await documents.run("restore", "copy")
        #expect(refused.status == 1, "\(refused)")
        #expect(refused.errors.contains("there was a database main in \(folder.path("data")), and its folder is gone: mount its disk"), "\(refused)")
        #expect(refused.errors.contains("if it is lost, restore it with --replace"), "\(refused)")
        #expect(!folder.exists("data/main.nightjar") && !folder.exists("data/main.nightjar.restoring"))
        let restored = try await documents.run("restore", "copy", "--replace")
        // There was nothing to keep.
        #expect(restored.status == 0 && !restored.output.contains("main.nightjar.before-"), "\(restored)")
        #expect(try await documents.run("doc", "list", "main").output.contains("a\t1-"))
    }

    @Test("an incomplete backup is refused, with the reason, and nothing is created", arguments: ["db.sqlite3", "blob", "missing", "backup.json"])
    func damagedBackup(_ what: String) async throws {
        let documents = try await Documents.at(.folder)
        let folder = documents.folder
        try folder.write("blob.bin", "the bytes of a blob")
        let digest = try #require(try await documents.run("blob", "put", "main", "blob.bin", "--json").json["digest"]?.asString)
        #expect(try await documents.run("doc", "put", "main", "a", #"{"b":{"@type":"blob","digest":"\#(digest)","length":19}}"#).status == 0)
        #expect(try await documents.run("backup", "main", "copy").status == 0)
        let blob = try #require(try await Subprocess.run("/bin/ls", ["copy/blobs"], folder: folder.path).lines.first)
        switch what {
        case "db.sqlite3":
            var bytes = try folder.read("copy/db.sqlite3")
            bytes[bytes.count - 10] ^= 1
            try folder.write("copy/db.sqlite3", bytes: bytes)
        case "blob": try folder.write("copy/blobs/\(blob)", "the bytes of a bl0b")
        case "missing": folder.remove("copy/blobs/\(blob)")
        default: folder.remove("copy/backup.json")
        }
        try folder.write("other/nightjar.yaml", "data: data\ndatabases: { main: {} }\nlisteners: []\n")
        let outcome = try await Subprocess.run(
            try NightjarExecutable.path(), ["restore", "copy", "--config", "other/nightjar.yaml"], folder: folder.path)
        #expect(outcome.status == 1 && outcome.errors.contains("copy/"), "\(outcome)")
        #expect(!folder.exists("other/data/main.nightjar"))
        let verified = try await NightjarExecutable.run("backup", "--verify", "copy", folder: folder.path)
        #expect(verified.status == 1, "\(verified)")
        // Advice for a database at work is none for a backup.
        if what == "db.sqlite3" {
            for outcome in [outcome, verified] {
                #expect(outcome.errors.contains("this backup is incomplete") && !outcome.errors.contains(".known"), "\(outcome)")
            }
        }
    }

    @Test("a backup is made without blobs that are damaged or gone and names them, and is restored without them where that is asked for", arguments: Place.allCases)
    func damagedBlobs(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        let folder = documents.folder
        let texts = ["altered", "gone", "sound"]
        var digests: [BlobDigest] = []
        for text in texts {
            let digest = try #require(try await documents.run("blob", "put", "main", input: .text(text)).lines.first)
            #expect(try await documents.run("doc", "put", "main", text, #"{"b":{"@type":"blob","digest":"\#(digest)"}}"#).status == 0)
            digests.append(try BlobDigest(digest))
        }
        let names = digests.map(\.hex)
        try folder.write("data/main.nightjar/blobs/\(names[0])", "ALTERED")
        folder.remove("data/main.nightjar/blobs/\(names[1])")
        let made = try await documents.run("backup", "main", "copy")
        #expect(made.status == 1 && made.output.contains(", 3 documents, 1 blob, ") && made.output.contains("made and verified"), "\(made)")
        #expect(made.errors.contains("blob \(digests[0]): ") && made.errors.contains("/blobs/\(names[0]) is damaged"), "\(made)")
        #expect(made.errors.contains("blob \(digests[1]): ") && made.errors.contains("/blobs/\(names[1]) is not there"), "\(made)")
        #expect(made.errors.contains("without 2 blobs that documents name") && made.errors.contains("--without-damaged-blobs"), "\(made)")
        #expect(try await Subprocess.run("/bin/ls", ["copy/blobs"], folder: folder.path).lines == [names[2]])
        let json = try await documents.run("backup", "main", "copy-json", "--json")
        #expect(json.status == 1, "\(json)")
        #expect(try Set(json.json["damaged_blobs"]?.asArray?.compactMap { $0["digest"]?.asString } ?? []) == [digests[0].text, digests[1].text], "\(json)")
        if place == .agent {
            let status = try await documents.run("status", "--json")
            #expect(status.output.contains("were altered on disk"), "\(status)")
        }

        try folder.write("other/nightjar.yaml", "data: data\ndatabases: { main: {} }\nlisteners: []\n")
        func other(_ arguments: String...) async throws -> Subprocess.Outcome {
            try await Subprocess.run(try NightjarExecutable.path(), arguments + ["--config", "other/nightjar.yaml"], folder: folder.path)
        }
        func verify() async throws -> Subprocess.Outcome { try await NightjarExecutable.run("backup", "--verify", "copy", folder: folder.path) }
        let refused = try await other("restore", "copy")
        #expect(refused.status == 1 && refused.errors.contains("2 blobs damaged or missing in copy, nothing was restored"), "\(refused)")
        for outcome in [refused, try await verify()] {
            #expect(outcome.status == 1 && outcome.errors.contains("--without-damaged-blobs"), "\(outcome)")
            #expect(names[..<2].allSatisfy { outcome.errors.contains("copy/blobs/\($0) is not there") }, "\(outcome)")
        }
        #expect(!folder.exists("other/data/main.nightjar"))
        let restored = try await other("restore", "copy", "--without-damaged-blobs")
        #expect(restored.status == 0 && restored.output.contains("restored 3 documents and 1 blob,") && restored.output.contains("without 2 blobs"), "\(restored)")
        #expect(restored.errors.contains("blob \(digests[0]): ") && restored.errors.contains("blob \(digests[1]): "), "\(restored)")
        #expect(try await other("doc", "list", "main").lines.count == 3)
        #expect(try await other("blob", "get", "main", digests[2].text).output == "sound")

        // The right file makes it whole.
        try folder.write("copy/blobs/\(names[0])", texts[0])
        let half = try await verify()
        #expect(half.status == 1 && !half.errors.contains(names[0]) && half.errors.contains("1 blob damaged or missing"), "\(half)")
        try folder.write("copy/blobs/\(names[1])", texts[1])
        let whole = try await verify()
        #expect(whole.status == 0 && whole.output.contains(", 3 blobs, ") && whole.output.hasSuffix("is whole\n"), "\(whole)")
        #expect(try await other("restore", "copy", "--as", "second").status == 0)
        #expect(try await other("blob", "get", "second", digests[0].text).output == "altered")
    }

    @Test("a backup into a folder that the agent may not make says which user lacks the permission", .enabled(if: geteuid() == 0, "root lets another user run the agent"))
    func forbiddenBackup() async throws {
        let folder = try TemporaryFolder()
        chmod(folder.path, 0o755)
        folder.makeFolder("closed")
        folder.makeFolder("data")
        #expect(chown(folder.path("data"), 65534, 65534) == 0)
        try folder.write("nightjar.yaml", "data: data\ndatabases: { main: {} }\nlisteners: []\n")
        let agent = try Subprocess(
            "/usr/bin/setpriv", ["--reuid=65534", "--clear-groups", try NightjarExecutable.path(), "run", "--config", folder.path("nightjar.yaml")], folder: folder.path)
        _ = try await agent.line(containing: "ready")
        let outcome = try await NightjarExecutable.run("backup", "main", folder.path("closed/copy"), "--config", folder.path("nightjar.yaml"))
        #expect(outcome.status == 1 && outcome.errors.contains("as user nobody: let that user write in \(folder.path("closed"))"), "\(outcome)")
        #expect(outcome.errors.contains("ReadWritePaths="), "\(outcome)")
        agent.send(SIGTERM)
        _ = try await agent.wait()
    }

    @Test("compact gives room back", arguments: Place.allCases)
    func compact(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        let pad = String(repeating: "x", count: 200_000)
        let put = try await documents.run("doc", "put", "main", "large", "--json", input: .text("{\"pad\":\"\(pad)\"}"))
        let revision = try #require(try put.json["rev"]?.asString)
        #expect(try await documents.run("doc", "rm", "main", "large", "--rev", revision).status == 0)
        let outcome = try await documents.run("compact", "main")
        #expect(outcome.status == 0 && outcome.output.contains("freed in the file, 0 blobs removed"), "\(outcome)")
    }

    @Test("manual pages are generated from the commands, and groff reads them without warnings")
    func manual() async throws {
        let folder = try TemporaryFolder()
        #expect(try await NightjarExecutable.run("manual", folder.path("man")).status == 0)
        let names = try await Subprocess.run("/bin/ls", ["man"], folder: folder.path).lines
        #expect(names.contains("nightjar.1") && names.contains("nightjar-doctor.1") && names.contains("nightjar-plugin.1") && names.count > 20, "\(names)")
        let page = try folder.text("man/nightjar-status.1")
        #expect(page.contains(".SH SYNOPSIS") && page.contains("\\fB\\-\\-watch\\fR"), "\(page)")
        if TemporaryFolder.canRun("/usr/bin/groff") {
            for name in names {
                let outcome = try await Subprocess.run("/usr/bin/groff", ["-ww", "-man", "-Tutf8", "-z", "man/\(name)"], folder: folder.path)
                #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(name): \(outcome)")
            }
        }
    }

    @Test("completions for shells name the commands", arguments: ["bash", "zsh", "fish"])
    func completions(_ shell: String) async throws {
        let outcome = try await NightjarExecutable.run("--generate-completion-script", shell)
        #expect(outcome.status == 0 && outcome.output.contains("support-bundle") && outcome.output.contains("explain"), "\(outcome.errors)")
    }
}
