import Documents
import Glibc
import TestSupport
import Testing

/// Paths that lead to a pipe with nobody at its other end: a command says so, and waits for nobody.
@Suite(.timeLimit(.minutes(5))) struct PipePathTests {
    private func documents(_ pipe: String) async throws -> Documents {
        let documents = try await Documents.at(.folder)
        try #require(mkfifo(documents.folder.path(pipe), 0o600) == 0)
        return documents
    }

    @Test("an import from a pipe that nobody writes to is refused with a message, and so are folders and endless devices")
    func importedFile() async throws {
        let documents = try await documents("lines")
        let pipe = try await documents.run("import", "main", "lines")
        #expect(pipe.status == 1 && pipe.errors.contains("lines is a pipe, and a file is expected"), "\(pipe)")
        #expect(pipe.errors.contains("give - and < lines"), "\(pipe)")
        for (path, kind) in [("/dev/zero", "a device"), ("/tmp", "a folder")] {
            let outcome = try await documents.run("import", "main", path)
            #expect(outcome.status == 1 && outcome.errors.contains("\(path) is \(kind)"), "\(outcome)")
        }
    }

    @Test("what a shell gives as a file is read as before: standard input by its names, <(…), and a pipe of mkfifo by <")
    func pipesOfShells() async throws {
        let documents = try await documents("named")
        for (number, name) in ["-", "/dev/stdin", "/dev/fd/0"].enumerated() {
            let outcome = try await documents.run("import", "main", name, input: .text("{\"_id\":\"\(number)\"}\n"))
            #expect(outcome.status == 0 && outcome.output.hasPrefix("1 saved"), "\(outcome)")
        }
        #expect(try await documents.run("import", "main", "/dev/null").status == 0)
        let command = "\"$0\" import main --config nightjar.yaml"
        for (number, script) in [
            "\(command) <(sleep 0; echo '{\"_id\":\"a\"}')", "echo '{\"_id\":\"b\"}' > named & \(command) - < named",
            "echo '{\"_id\":\"c\"}' > named & \(command) /dev/stdin < named",
        ].enumerated() {
            let outcome = try await Subprocess.run("/bin/bash", ["-c", script, try NightjarExecutable.path()], folder: documents.folder.path)
            #expect(outcome.status == 0 && outcome.output.hasPrefix("1 saved"), "\(number): \(outcome)")
        }
    }

    @Test("a pipe among the blobs of an import is reported with its path, and the document is imported all the same")
    func blobs() async throws {
        let documents = try await Documents.at(.folder)
        let digest = try #require(try await documents.run("blob", "put", "main", input: .text("nightly")).lines.first)
        documents.folder.makeFolder("blobs")
        let file = "blobs/\(try BlobDigest(digest).hex)"
        try #require(mkfifo(documents.folder.path(file), 0o600) == 0)
        let line = "{\"_id\":\"a\",\"photo\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":7}}\n"
        // Another database, which has not the blob.
        let target = try await Documents.at(.folder)
        let outcome = try await target.run("import", "main", "--blobs", documents.folder.path("blobs"), input: .text(line))
        #expect(outcome.status == 1 && outcome.errors.contains("\(file): is a pipe, and a regular file is expected"), "\(outcome)")
        #expect(outcome.output.hasPrefix("1 saved"), "\(outcome)")
    }

    @Test("an export into a pipe that nobody reads is refused with a message; one with a reader is written")
    func exportedFile() async throws {
        let documents = try await documents("out")
        #expect(try await documents.run("import", "main", input: .text("{\"_id\":\"a\"}\n")).status == 0)
        let outcome = try await documents.run("export", "main", "out")
        #expect(outcome.status == 1 && outcome.errors.contains("out is a pipe that nobody reads"), "\(outcome)")
        let folder = try await documents.run("export", "main", documents.folder.path)
        #expect(folder.status == 1 && folder.errors.contains("\(documents.folder.path) is a folder"), "\(folder)")
        // A descriptor for both ways waits for nobody, and is a reader.
        let script = "exec 3<> out && \"$0\" export main out --config nightjar.yaml && head -n 1 <&3"
        let read = try await Subprocess.run("/bin/bash", ["-c", script, try NightjarExecutable.path()], folder: documents.folder.path)
        #expect(read.status == 0 && read.output.contains("\"_id\":\"a\""), "\(read)")
    }
}
