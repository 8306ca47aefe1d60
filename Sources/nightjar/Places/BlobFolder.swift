import Agent
import Documents
import Encodings
import Glibc
import NIOCore
import Synchronization

/// Blobs as files in a folder, each named by the 40 hexadecimal digits of its digest, as in a backup and in a database's own folder.
final class BlobFolder: Sendable {
    /// `blob_problems`: how many of the blobs that could not be copied are named.
    private static let shown = 20
    /// How many digests are remembered as handled.
    private static let remembered = 10_000

    /// How many could not be copied, and descriptions of the first ones.
    struct Problems: Sendable {
        var count = 0
        var words: [String] = []
    }

    private struct State {
        var copied = 0
        var seen: Set<BlobDigest> = []
        var problems = Problems()
    }

    let path: String
    private let state = Mutex(State())

    init(_ path: String) { self.path = path }

    /// Blobs that were written to the folder, or stored from it.
    var copied: Int { state.withLock { $0.copied } }
    var problems: Problems { state.withLock { $0.problems } }

    private func file(_ digest: BlobDigest) -> String { "\(path)/\(digest.hex)" }
    private func has(_ digest: BlobDigest) -> Bool { access(file(digest), F_OK) == 0 }

    /// Whether the digest has not been handled before, as far as that is remembered.
    private func isNew(_ digest: BlobDigest) -> Bool {
        state.withLock { state in
            if state.seen.count >= Self.remembered { state.seen = [] }
            return state.seen.insert(digest).inserted
        }
    }

    private func note(_ digest: BlobDigest, _ problem: String) {
        state.withLock { state in
            state.problems.count += 1
            if state.problems.words.count < Self.shown { state.problems.words.append("blob \(digest.hex) (\(digest)): \(problem)") }
        }
    }

    /// The blobs that a line's document refers to; none if it is not a document.
    static func digests(in line: [UInt8]) -> [BlobDigest] {
        guard line.withUnsafeBytes({ $0.holds("\"digest\"") }) else { return [] }
        return ((try? BlobReferences.find(in: line)) ?? []).map(\.digest)
    }

    /// Reports problems on standard error.
    ///
    /// - Throws: if there were any.
    func check(_ what: String) throws {
        let problems = problems
        for words in problems.words { Output.errorLine("nightjar: \(TextTable.printable(words))") }
        guard problems.count == 0 else { throw AgentError(.failed, "\(Plural.count(problems.count, "blob")) \(what)") }
    }

    // MARK: - From a database

    /// The blobs to be written: a list on disk, since it may not fit into memory.
    final class Wanted: Sendable {
        private let folder: BlobFolder
        private let list: String
        private let output: OutputFile
        private let lines = LineReader()

        fileprivate init(_ folder: BlobFolder) throws {
            self.folder = folder
            list = "\(folder.path)/wanted.\(getpid())"
            output = try OutputFile(list)
        }

        /// Records the blobs to which documents refer; the documents arrive in pieces of lines.
        func add(_ piece: ByteBuffer) throws {
            var found = ByteBuffer()
            try lines.append(piece) { line in
                for digest in BlobFolder.digests(in: line) where folder.isNew(digest) && !folder.has(digest) {
                    found.writeString(digest.text + "\n")
                }
            }
            if found.readableBytes > 0 { try output.write(found) }
        }

        /// Writes the blobs; each file appears when it is complete.
        func write(from place: DocumentPlace, _ written: @escaping @Sendable (Int) -> Void) async throws {
            try output.finish()
            defer { unlink(list) }
            let input = try InputFile(list)
            defer { input.close() }
            var splitter = LineSplitter()
            var isEnd = false
            while !isEnd {
                if let piece = try input.next() { splitter.append(piece.readableBytesView) } else { isEnd = true }
                while let batch = splitter.take(500, isEnd: isEnd) {
                    for case .text(let line) in batch {
                        guard let digest = try? BlobDigest(String(decoding: line, as: UTF8.self)), !folder.has(digest) else { continue }
                        try await folder.write(digest, from: place)
                        written(folder.copied)
                    }
                }
            }
            try OutputFile.sync(folder: folder.path)
        }

        func abandon() {
            output.abandon()
            unlink(list)
        }
    }

    /// Creates the folder.
    func wanted() throws -> Wanted {
        if mkdir(path, 0o755) != 0, errno != EEXIST { throw AgentError(.failed, "\(path): \(String(cString: strerror(errno)))") }
        return try Wanted(self)
    }

    private func write(_ digest: BlobDigest, from place: DocumentPlace) async throws {
        let output = try OutputFile(file(digest))
        let isOutputWell = Atomic(true)
        do {
            // The place ends with an error if the bytes do not match the digest.
            try await place.blob(digest.text) { piece in
                isOutputWell.store(false, ordering: .relaxed)
                try output.write(piece)
                isOutputWell.store(true, ordering: .relaxed)
            }
        } catch let error as AgentError where isOutputWell.load(ordering: .relaxed) {
            // The other blobs are not affected.
            output.abandon()
            return note(digest, error.kind == .notFound ? "is named by a document, and not in the database" : "\(error)")
        } catch {
            output.abandon()
            throw error
        }
        try output.finish(syncsFolder: false)
        state.withLock { $0.copied += 1 }
    }

    // MARK: - Into a database

    /// Stores the blobs that documents refer to, unless the place has them; the bytes must match the file names.
    func store(_ lines: [ImportedLine], in place: DocumentPlace) async throws {
        for case .text(let line) in lines {
            for digest in Self.digests(in: line) where isNew(digest) { try await store(digest, in: place) }
        }
    }

    private func store(_ digest: BlobDigest, in place: DocumentPlace) async throws {
        let known = try await place.blobFacts(digest.text)
        // A blob that no document refers to yet may be collected before these documents are stored; storing it again prevents that.
        guard known?["referenced"]?.asBool != true else { return }
        let input: InputFile
        do { input = try InputFile(regular: file(digest)) } catch {
            if known == nil { note(digest, "\(error)") }
            return
        }
        defer { input.close() }
        do {
            _ = try await place.putBlob(expecting: digest.text) { try input.next() }
            state.withLock { $0.copied += 1 }
        } catch let error as AgentError where error.kind == .invalid || error.kind == .tooLarge {
            note(digest, "\(file(digest)): \(error)")
        }
    }
}
