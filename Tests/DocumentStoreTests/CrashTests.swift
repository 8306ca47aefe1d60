import DocumentStore
import Documents
import Glibc
import Testing

/// A process that is killed at any instant loses nothing it has acknowledged.
///
/// The child is this test program itself, asked to run `child` only; an environment variable tells it the folder.
@Suite struct CrashTests {
    static let variable = "STORE_CRASH_CHILD"
    static var childFolder: String? { getenv(variable).map { String(cString: $0) } }

    /// Writes documents one by one and in crowds, and reports each on standard error when it is acknowledged.
    @Test(.enabled(if: childFolder != nil))
    func child() async throws {
        let folder = try #require(Self.childFolder)
        let database = try Database.open(folder: folder, name: "crash")
        let c = try #require(database.collection(.default))
        let start = try await database.read { try $0.lastSequence(c) }
        await withTaskGroup(of: Void.self) { group in
            for task in 0..<4 {
                group.addTask {
                    for n in 0..<1_000_000 {
                        let id = "t\(task)-\(start)-\(n)"
                        do {
                            let blob = Array("blob of \(id)".utf8)
                            let digest = BlobDigest.of(blob)
                            if n % 10 == 0 { _ = try await database.blobs.perform { try $0.install(blob) } }
                            let body = n % 10 == 0 ? #"{"b":{"@type":"blob","digest":"\#(digest)"}}"# : #"{"id":"\#(id)"}"#
                            _ = try await database.write { try $0.save(c, id: doc(id), body: Array(body.utf8), parent: nil) }
                        } catch { return }
                        let line = "ack \(id)\n"
                        _ = write(2, line, line.utf8.count)
                    }
                }
            }
        }
    }

    @Test(.enabled(if: childFolder == nil), .timeLimit(.minutes(10)))
    func killedProcessLosesNothing() async throws {
        let folder = try temporaryFolder() + "/crash.nightjar"
        var acknowledged: [String] = []
        for round in 0..<5 {
            // After so many acknowledgements, wherever the process is then.
            let wanted = 40 + round * 61 + Int.random(in: 0..<50)
            acknowledged += try Self.runAndKill(folder, after: wanted)
            let database = try Database.open(folder: folder, name: "crash")
            defer { database.close() }
            let c = try #require(database.collection(.default))
            let ids = acknowledged
            let found = try await database.read { transaction in
                try ids.map { try transaction.document(c, doc($0)) }
            }
            for (id, document) in zip(ids, found) {
                #expect(document != nil, "lost \(id)")
                for reference in try BlobReferences.find(in: document?.body ?? Array("{}".utf8)) {
                    #expect(try await text(database.blobs.perform { try $0.read(reference.digest) }) == "blob of \(id)")
                }
            }
            // And what is there is whole.
            let rows = try await database.read { try $0.changes(c, since: 0, limit: 10_000, includeBodies: true) }
            let statistics = try #require(try await database.statistics().first)
            #expect(rows.count == statistics.documents)
            #expect(rows.last?.sequence == statistics.lastSequence)
        }
    }

    /// Runs the child until it has acknowledged `count` documents, kills it, returns all it acknowledged.
    private static func runAndKill(_ folder: String, after count: Int) throws -> [String] {
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawn_file_actions_adddup2(&actions, ends[1], 2)
        posix_spawn_file_actions_addclose(&actions, ends[0])
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        defer { posix_spawn_file_actions_destroy(&actions) }
        var pid = pid_t()
        let words = ["/proc/self/exe", "--testing-library", "swift-testing", "--filter", "DocumentStoreTests.CrashTests/child"]
        var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) }
        arguments.append(nil)
        var environment: [UnsafeMutablePointer<CChar>?] = [strdup("\(variable)=\(folder)")]
        var index = 0
        while let entry = environ[index] {
            environment.append(strdup(entry))
            index += 1
        }
        environment.append(nil)
        defer { for pointer in arguments + environment { free(pointer) } }
        var path = [CChar](repeating: 0, count: 4096)
        try #require(readlink("/proc/self/exe", &path, path.count - 1) > 0)
        try #require(posix_spawn(&pid, path, &actions, nil, arguments, environment) == 0)
        close(ends[1])
        var output: [UInt8] = []
        var killed = false
        var part = [UInt8](repeating: 0, count: 4096)
        while true {
            let got = read(ends[0], &part, part.count)
            if got <= 0 { break }
            output += part[..<got]
            if !killed && output.count(where: { $0 == 0x0A }) >= count {
                kill(pid, SIGKILL)
                killed = true
            }
        }
        close(ends[0])
        var status: Int32 = 0
        waitpid(pid, &status, 0)
        try #require(killed, "the child ended by itself: \(String(decoding: output.suffix(500), as: UTF8.self))")
        return output.split(separator: 0x0A).compactMap { line in
            let text = String(decoding: line, as: UTF8.self)
            return text.hasPrefix("ack ") ? String(text.dropFirst(4)) : nil
        }
    }
}
