import Digests
import Documents
import DocumentStore
import Encodings
import Interfaces
import Replication

/// Storing many lines of JSON at a time.
extension DocumentAccess {
    /// The outcome of an import.
    package struct ImportCounts: Sendable, Equatable {
        package var lines = 0
        package var saved = 0
        package var unchanged = 0
        package var conflicts = 0
        package var failed = 0
        /// The first problems, each with its line number.
        package var problems: [String] = []
        /// How many problems there were beyond those.
        package var moreProblems: Int { conflicts + failed - problems.count }

        /// `import_problems`: how many of the lines that were not stored are named.
        static let problemsKept = 20
        /// `import_others_named`: how many lines are named that are no objects, before the first one that is.
        static let othersNamed = 3
        /// `import_quoted`: characters of the first such line that are quoted.
        static let quotedCharacters = 60
        /// A line was a JSON object, whether or not it could be stored.
        var hasObject = false
        private var othersThanObjects = 0

        /// Distinguishes this import's lines from those of other imports; nil if nothing does.
        let source: String?

        /// - Parameters:
        ///   - source: the file's name. A line without `_id` gets an id derived from it, the line's number and its text, so that importing the same
        ///     file again produces the same documents; without a name each line is a new document each time.
        ///     same file again brings the same documents; without a name each line is a new document each time.
        ///   - lines: the number of lines of the same import that were stored earlier.
        package init(source: String? = nil, after lines: Int = 0) {
            self.source = source
            self.lines = lines
        }

        mutating func note(_ line: Int, _ message: String) {
            if problems.count < Self.problemsKept { problems.append("line \(line): \(message)") }
        }

        /// Counts the line that was read last as failed. As long as no line was an object, the input is probably not JSON Lines, and naming all its
        /// lines would not help.
        mutating func fail(_ error: any Error, of line: ImportedLine) {
            failed += 1
            // Keep the import's line number, not the one within the line's text.
            let message = "\(error)".with("line 1, column", replacedBy: "column")
            guard !hasObject, case .text(let text) = line else { return note(lines, message) }
            if case .object? = try? JSONValue(parsing: text) {
                hasObject = true
                return note(lines, message)
            }
            othersThanObjects += 1
            if othersThanObjects == 1 {
                note(lines, "\(message); the line is \(Self.quoted(text)); expected are JSON Lines: one JSON object in each line")
            } else if othersThanObjects <= Self.othersNamed {
                note(lines, message)
            }
        }

        private static func quoted(_ text: [UInt8]) -> String {
            let whole = String(decoding: text.last == UInt8(ascii: "\r") ? text.dropLast() : text[...], as: UTF8.self).unicodeScalars
            let shown = whole.prefix(quotedCharacters)
            return JSONString.quoted(String(shown) + (shown.endIndex == whole.endIndex ? "" : "…"), forTerminals: true)
        }
    }

    /// One line of an import, ready to be stored.
    private struct ImportLine: Sendable {
        var number: Int
        var id: DocumentID
        var revision: RevisionID?
        var isDeleted: Bool
        var body: [UInt8]
        var expiry: DocumentExpiry?
        /// The revision that the plugin accepted this line over; `.some(nil)` if no document was stored.
        var judgedAgainst: RevisionID??
    }

    /// `import_judgings`: how often a plugin is asked about a line whose document keeps changing.
    private static let judgings = 5

    /// Imports a batch of JSON Lines in one transaction; if a plugin is asked, several lines for one document go into separate transactions, so that
    /// each is judged against the result of the one before.
    ///
    /// A line without `_rev` is a new document. A line with `_rev` continues that revision if it is current; if the document does not exist, it is
    /// stored under that revision, so that an export can be imported elsewhere. If the document has changed since, the resolver decides, if there is
    /// one. A line that equals what is stored changes nothing, so that an interrupted import can be repeated; see
    /// ``ImportCounts/init(source:after:)`` for lines without `_id`. A line with `_collection` goes to that collection of the database, whichever
    /// this one is. A line that refers to blobs missing here fails, unless ``importsWithoutBlobs`` is set.
    ///
    /// - Parameter counts: what has been stored, even if this throws.
    package func importLines(_ lines: [ImportedLine], counts: inout ImportCounts) async throws {
        // One for each collection, in the order of first appearance.
        var batches: [ImportBatch] = []
        var next = counts
        for line in lines {
            let before = next
            guard let read = self.read(line, batches, &next) else { continue }
            let number = read.access.collection.id
            let index = batches.firstIndex { $0.access.collection.id == number } ?? batches.endIndex
            if index == batches.endIndex { batches.append(ImportBatch(access: read.access)) }
            if read.access.validation != nil, !batches[index].ids.insert(read.line.id).inserted {
                next = before
                for batch in batches { try await batch.access.store(batch.lines, &next) }
                counts = next
                next.lines += 1
                batches = [ImportBatch(access: read.access, lines: [read.line], ids: [read.line.id])]
                continue
            }
            batches[index].lines.append(read.line)
        }
        for batch in batches { try await batch.access.store(batch.lines, &next) }
        counts = next
    }

    /// The lines for one collection.
    private struct ImportBatch {
        var access: DocumentAccess
        var lines: [ImportLine] = []
        var ids: Set<DocumentID> = []
    }

    /// The collection that a line names, or this one.
    private func place(of name: CollectionName?, _ batches: [ImportBatch]) throws -> DocumentAccess {
        guard let name, name != collection.name else { return self }
        if let found = batches.first(where: { $0.access.collection.name == name }) { return found.access }
        guard let elsewhere else { throw AgentError(.invalid, "_collection: lines of \(name) are not accepted here") }
        var access = try elsewhere(name)
        access.importsWithoutBlobs = importsWithoutBlobs
        return access
    }

    /// Nil for a line that is empty, or that cannot be read, which is noted.
    private func read(_ line: ImportedLine, _ batches: [ImportBatch], _ counts: inout ImportCounts) -> (access: DocumentAccess, line: ImportLine)? {
        counts.lines += 1
        do {
            guard let line = try Self.text(of: line, number: counts.lines) else { return nil }
            let parts = try parts(line, isImported: true)
            let access = try place(of: parts.collection, batches)
            counts.hasObject = true
            let id = try Self.id(of: parts, line, counts)
            return (
                access,
                ImportLine(number: counts.lines, id: id, revision: parts.revision, isDeleted: parts.isDeleted, body: parts.body, expiry: parts.expiry)
            )
        } catch {
            counts.fail(error, of: line)
            return nil
        }
    }

    /// Nil for a line that is empty.
    static func text(of line: ImportedLine, number: Int) throws(AgentError) -> [UInt8]? {
        guard case .text(var line) = line else { throw LineSplitter.tooLong }
        // A byte order mark, which some editors put at the start of a file.
        if number == 1, line.starts(with: [0xEF, 0xBB, 0xBF]) { line.removeFirst(3) }
        return line.allSatisfy { $0 == 0x20 || $0 == 0x09 || $0 == 0x0D } ? nil : line
    }

    private func store(_ lines: [ImportLine], _ counts: inout ImportCounts) async throws {
        var left = try await withBlobs(lines, &counts)
        for _ in 1...Self.judgings where !left.isEmpty { left = try await storeOnce(left, &counts) }
        for line in left {
            counts.conflicts += 1
            counts.note(line.number, "document \"\(line.id)\" changed \(Plural.count(Self.judgings, "time")) (import_judgings), each time while the plugin was asked")
        }
    }

    /// The lines whose blobs are all here.
    private func withBlobs(_ lines: [ImportLine], _ counts: inout ImportCounts) async throws -> [ImportLine] {
        guard !importsWithoutBlobs else { return lines }
        var whole: [ImportLine] = []
        whole.reserveCapacity(lines.count)
        for line in lines {
            if !line.isDeleted, let missing = try await missingBlobs(of: line.body, line.id).first {
                counts.failed += 1
                counts.note(line.number, Self.lacks(missing, line.id, database.name))
            } else if !line.isDeleted, let wrong = try await wrongLength(in: line.body) {
                counts.failed += 1
                counts.note(line.number, "document \"\(line.id)\": \(wrong)")
            } else {
                whole.append(line)
            }
        }
        return whole
    }

    /// - Returns: the lines whose document changed while the plugin was asked.
    private func storeOnce(_ lines: [ImportLine], _ counts: inout ImportCounts) async throws -> [ImportLine] {
        let batch = try await validated(lines, &counts)
        var moved: [ImportLine] = []
        let work = batch
        let results = try await database.write { [collection] transaction in
            try work.map { line in
                let result = try Self.store(line, collection, transaction)
                if let expiry = line.expiry, !line.isDeleted, result.isStored { try transaction.setExpiry(collection, line.id, expiry) }
                return result
            }
        }
        for (line, result) in zip(batch, results) {
            switch result {
            case .saved: counts.saved += 1
            case .unchanged: counts.unchanged += 1
            case .moved: moved.append(line)
            case .conflict(let why):
                do {
                    if let saves, line.revision != nil {
                        _ = try await saves.save(
                            id: line.id, body: line.body, deleted: line.isDeleted, parent: line.revision,
                            expiry: line.isDeleted ? nil : line.expiry)
                        counts.saved += 1
                        continue
                    }
                } catch let failure as PolicyFailure {
                    counts.conflicts += 1
                    counts.note(line.number, Self.undecided(line.id, failure))
                    continue
                } catch let error as StoreError where error.kind == .conflict {
                    // The stored document stays as it was.
                }
                counts.conflicts += 1
                counts.note(line.number, why)
            case .failed(let why):
                counts.failed += 1
                counts.note(line.number, why)
            }
        }
        return moved
    }

    /// The lines that the plugin accepts. It is not asked about lines that equal what is stored.
    private func validated(_ lines: [ImportLine], _ counts: inout ImportCounts) async throws -> [ImportLine] {
        guard let validation, !lines.isEmpty else { return lines }
        // A line that changes the expiry counts as a change.
        let writes = zip(lines, try await validation.stored(lines.map(\.id))).filter { line, stored in line.expiry != nil || !Self.isUnchanged(line, stored) }
        counts.unchanged += lines.count - writes.count
        let refusals = await validation.refusals(
            writes.map { .init(id: $0.0.id, isDeleted: $0.0.isDeleted, body: $0.0.body) }, over: writes.map { $0.1 })
        return zip(writes, refusals).compactMap { write, refusal in
            var line = write.0
            line.judgedAgainst = .some(write.1?.revision)
            guard let refusal else { return line }
            counts.failed += 1
            counts.note(line.number, refusal.message)
            return nil
        }
    }

    /// The id that the line names, or one that is made for it.
    static func id(of parts: Parts, _ line: [UInt8], _ counts: ImportCounts) throws -> DocumentID {
        try documentID(parts.id ?? counts.source.map { madeID($0, counts.lines, line) } ?? Hex.encode(randomBytes(16)))
    }

    /// Derives an id for a line that has none.
    private static func madeID(_ source: String, _ number: Int, _ line: [UInt8]) -> String {
        Hex.encode(SHA256.hash(Array("\(source)\n\(number)\n".utf8) + line).prefix(16))
    }

    private enum LineResult: Sendable {
        case saved
        case unchanged
        /// The document has changed since the plugin was asked.
        case moved
        case conflict(String)
        case failed(String)

        /// The document now equals the line.
        var isStored: Bool {
            switch self {
            case .saved, .unchanged: true
            case .moved, .conflict, .failed: false
            }
        }
    }

    private static func store(_ line: ImportLine, _ collection: Collection, _ transaction: WriteTransaction) throws -> LineResult {
        do throws(StoreError) {
            let current = try transaction.document(collection, line.id)
            if isUnchanged(line, current) { return .unchanged }
            if let judged = line.judgedAgainst, judged != current?.revision { return .moved }
            guard let revision = line.revision else {
                _ = try transaction.save(collection, id: line.id, body: line.body, deleted: line.isDeleted, parent: nil)
                return .saved
            }
            guard current != nil else {
                let incoming = IncomingRevision(
                    id: line.id, revision: revision, history: [], isDeleted: line.isDeleted, body: line.body)
                _ = try transaction.insert(incoming, into: collection, conflicts: .refuse)
                return .saved
            }
            _ = try transaction.save(collection, id: line.id, body: line.body, deleted: line.isDeleted, parent: revision)
            return .saved
        } catch .conflict(_, let current) {
            return .conflict("document \"\(line.id)\" exists\(current.map { " at revision \($0)" } ?? "")")
        } catch {
            guard error.kind == .invalid || error.kind == .tooLarge else { throw error }
            return .failed("\(error)")
        }
    }

    private static func isUnchanged(_ line: ImportLine, _ stored: StoredDocument?) -> Bool {
        guard let stored else { return false }
        return stored.isDeleted == line.isDeleted && isSame(stored.body, line.body)
    }

    /// Equal as JSON, however it is formatted.
    private static func isSame(_ stored: [UInt8], _ body: [UInt8]) -> Bool {
        if stored == body { return true }
        guard let one = try? JSONValue(stored: stored), let two = try? JSONValue(stored: body) else { return false }
        return one == two
    }
}
