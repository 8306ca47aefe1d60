import BLIP
import Documents
import Environment
import Glibc
import Interfaces
import NIOCore
import Synchronization
import Testing

@testable import DocumentStore
@testable import Replication

/// If a machine cannot do something for the moment, its answer makes the peer try again later: a final answer would lose the peer's edit.
@Suite(.timeLimit(.minutes(5)))
struct BlobFailureTests {
    enum Step: CaseIterable, Sendable { case open, append, sync, rename, syncFolder }

    /// This machine's files, with one operation that fails for blobs.
    private final class FailingFiles: FileSystem {
        let failure = Mutex<(step: Step, number: Int32)?>(nil)
        private let files = SystemFiles()

        fileprivate func check(_ step: Step, _ path: String) throws(FileError) {
            guard path.contains("/blobs"), let failure = failure.withLock({ $0 }), failure.step == step else { return }
            throw FileError(path: path, number: failure.number)
        }

        func open(_ path: String, _ mode: FileMode) throws(FileError) -> any OpenFile {
            try check(.open, path)
            return FailingFile(path, try files.open(path, mode), self)
        }

        func rename(_ path: String, to newPath: String) throws(FileError) {
            try check(.rename, path)
            try files.rename(path, to: newPath)
        }

        func syncFolder(_ path: String) throws(FileError) {
            try check(.syncFolder, path)
            try files.syncFolder(path)
        }

        func remove(_ path: String) throws(FileError) { try files.remove(path) }
        func makeFolder(_ path: String) throws(FileError) { try files.makeFolder(path) }
        func names(in folder: String) throws(FileError) -> [String] { try files.names(in: folder) }
        func facts(_ path: String) throws(FileError) -> FileFacts { try files.facts(path) }
        func touch(_ path: String) throws(FileError) { try files.touch(path) }
        func lock(_ path: String) throws(FileError) -> FileLockAttempt { try files.lock(path) }
    }

    private final class FailingFile: OpenFile {
        private let path: String
        private let file: any OpenFile
        private let files: FailingFiles

        init(_ path: String, _ file: any OpenFile, _ files: FailingFiles) { (self.path, self.file, self.files) = (path, file, files) }

        func size() throws(FileError) -> UInt64 { try file.size() }
        func read(at offset: UInt64, into buffer: UnsafeMutableRawBufferPointer) throws(FileError) -> Int { try file.read(at: offset, into: buffer) }

        func append(_ bytes: UnsafeRawBufferPointer) throws(FileError) {
            try files.check(.append, path)
            try file.append(bytes)
        }

        func sync() throws(FileError) {
            try files.check(.sync, path)
            try file.sync()
        }
    }

    @Test(arguments: [EMFILE, ENFILE, ENOENT, EIO, ENOMEM, EACCES, EROFS, ENOSPC], Step.allCases)
    func aBlobThatCannotBeStoredIsAcceptedLater(number: Int32, step: Step) async throws {
        let files = FailingFiles()
        let database = try TestDatabase("hub", environment: Environment(time: SystemTime(), random: SystemRandom(), workers: ThreadWorkers(), files: files))
        let pusher = try await PhotoPusher([UInt8](repeating: 7, count: 100_000), to: database)
        files.failure.withLock { $0 = (step, number) }
        for _ in 0..<2 { #expect(await pusher.push() == 503) }
        #expect(try await database.get("photo") == nil)
        files.failure.withLock { $0 = nil }
        #expect(await pusher.push() == nil)
        #expect(try await database.get("photo") != nil)
        #expect(await pusher.peer.isAlive())
    }

    /// The same is true of a replicator: it retries, and no operator has to restart it.
    @Test func aTemporaryFailureDoesNotEndAReplicatorForGood() {
        let passing: [StoreError] = [
            .tooManyOpenBlobs(limit: 3), .inputOutput(path: "a", detail: ""), .fileGone(path: "a", sign: nil), .folder(path: "a", errno: EMFILE, detail: ""),
            .database(code: 5, message: "database is locked", sql: ""), .database(code: 5 | 1 << 8, message: "database is locked", sql: ""),
        ]
        for error in passing {
            var machine = RetryMachine(settings: .init(), isContinuous: true)
            let failure = ReplicationError(store: error)
            #expect(failure.code == 503 && machine.failed(failure) == .retry(afterMilliseconds: 2_000), "\(error)")
        }
        var machine = RetryMachine(settings: .init(), isContinuous: true)
        #expect(machine.failed(ReplicationError(store: StoreError.database(code: 1, message: "", sql: ""))) == .stop)
    }
}
