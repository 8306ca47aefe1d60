import Documents
import DocumentStore
import Encodings
import HTTPServer
import Interfaces
import Replication

/// Stores the documents of a request.
struct DocumentWriting: Sendable {
    let call: CouchCall

    /// The outcome for one document.
    struct Result: Sendable {
        /// Nil if the client gave none, and nothing was stored.
        var id: String?
        var revision: RevisionID?
        /// For a `_local` document, instead of a revision.
        var token: String?
        var error: HTTPError?
    }

    /// A write, or why it is not possible.
    private enum Prepared: Sendable {
        case write(PeerWriting.Write)
        case done(Result)
    }

    /// - Parameters:
    ///   - id: nil to use the document's own id, or make one.
    ///   - parent: nil to use the document's `_rev`.
    ///   - isEdit: `new_edits`; if false, the revisions were made elsewhere.
    func prepare(
        _ document: IncomingDocument, id given: String? = nil, parent: RevisionID? = nil, isEdit: Bool, following: [String: ReceivedBlob] = [:],
        carried: [CarriedBlob] = []
    ) async throws -> PeerWriting.Write {
        let text = given ?? document.id ?? Hex.encode(call.host.environment.random.bytes(16))
        guard case .document(let id) = try CouchID(text) else { throw CouchError.illegalID("Only reserved document ids may start with underscore.") }
        if let foreign = document.foreignRevision, parent == nil || !isEdit { throw isEdit ? CouchError.conflict() : foreign }
        let before = parent ?? document.revision
        let revision: PeerWriting.Write.Revision
        let (generation, parents): (UInt64, [RevisionID])
        if isEdit {
            revision = .edit(of: before)
            (generation, parents) = ((before?.generation ?? 0) + 1, before.map { [$0] } ?? [])
        } else {
            guard let made = document.revision ?? document.history.first else {
                throw IncomingDocument.invalid("When `new_edits: false`, the document must have a revision")
            }
            revision = .made(made, history: Array(document.history.dropFirst()))
            (generation, parents) = (made.generation, Array(document.history.dropFirst().prefix(10)))
        }
        guard document.attachments != nil || document.mayHoldBlobs else {
            return PeerWriting.Write(id: id, revision: revision, isDeleted: document.isDeleted, body: document.body)
        }
        let body = try await AttachmentIntake(call, carried)
            .body(of: document, id, generation: generation, isEdit: isEdit, parents: parents, following: following)
        return PeerWriting.Write(id: id, revision: revision, isDeleted: document.isDeleted, body: body)
    }

    /// A document as the first revision of another document, or its next one.
    func copy(_ found: FoundRevision, to id: DocumentID, parent: RevisionID?) throws -> PeerWriting.Write {
        PeerWriting.Write(id: id, revision: .edit(of: parent), isDeleted: false, body: found.body)
    }

    /// Stores one document. - Throws: ``HTTPError`` with CouchDB's answer.
    func store(_ write: PeerWriting.Write) async throws -> RevisionID {
        switch try await call.writing.store([write]).first {
        case .stored(let revision)?:
            call.tell([write.id])
            return revision
        case .conflict?, nil: throw CouchError.conflict()
        case .refused(let error)?: throw CouchError.from(error)
        }
    }

    /// Stores a document of any kind except `_local`.
    func put(
        _ document: IncomingDocument, id: String? = nil, parent: RevisionID? = nil, isEdit: Bool, following: [String: ReceivedBlob] = [:],
        carried: [CarriedBlob] = []
    ) async throws -> (id: String, revision: RevisionID) {
        if let text = id ?? document.id, case .design(let design) = try CouchID(text) {
            var document = document
            if !carried.isEmpty { try await document.restoreInline(carried, call.database.blobs) }
            let revision = try await DesignDocuments(call: call).put(
                design, document, parent: parent ?? document.revision, isMade: !isEdit)
            return (design, revision)
        }
        let write = try await prepare(document, id: id, parent: parent, isEdit: isEdit, following: following, carried: carried)
        return (write.id.text, try await store(write))
    }

    /// The documents of `_bulk_docs`, with an outcome for each; a few at a time.
    ///
    /// - Parameters:
    ///   - isLocal: for each document, whether it is a `_local` document.
    ///   - carried: attachments embedded in the documents, by their numbers.
    func bulk(_ parts: JSONParts, _ documents: [Range<Int>], isLocal: [Bool], isEdit: Bool, carried: [CarriedBlob]) async throws -> [Result] {
        var results: [Result] = []
        var prepared: [Prepared] = []
        var bytes = 0
        for (index, range) in documents.enumerated() {
            let next = try await prepare(parts, range, isLocal: isLocal[index], isEdit: isEdit, carried: carried)
            if case .write(let write) = next {
                bytes += write.body.count
                if case .made(_, let history) = write.revision { bytes += history.reduce(0) { $0 + $1.memorySize } }
            }
            prepared.append(next)
            if bytes >= 4 * CouchLimits.pageBytes || index == documents.count - 1 {
                results += try await store(prepared)
                (prepared, bytes) = ([], 0)
            }
        }
        return results
    }

    private func prepare(_ parts: JSONParts, _ range: Range<Int>, isLocal: Bool, isEdit: Bool, carried: [CarriedBlob]) async throws -> Prepared {
        do {
            if isLocal, let own = parts.id(of: range), case .local(let local) = try CouchID(own) {
                return .done(Result(id: own, token: try await LocalRoutes.store(call, local, parts, range)))
            }
            var document = try IncomingDocument(parts, range)
            if let own = document.id, own.utf8.first == UInt8(ascii: "_"), case .design(let design) = try CouchID(own) {
                if !carried.isEmpty { try await document.restoreInline(carried, call.database.blobs) }
                let revision = try await DesignDocuments(call: call).put(design, document, parent: document.revision, isMade: !isEdit)
                return .done(Result(id: design, revision: revision))
            }
            return .write(try await prepare(document, isEdit: isEdit, carried: carried))
        } catch let error as HTTPError {
            return try failed(error, parts, range, isEdit)
        } catch let error as StoreError {
            return try failed(CouchError.from(error), parts, range, isEdit)
        }
    }

    private func failed(_ error: HTTPError, _ parts: JSONParts, _ range: Range<Int>, _ isEdit: Bool) throws(HTTPError) -> Prepared {
        if let text = parts.id(of: range), case .document(let id)? = try? CouchID(text) { call.tell([id], error, isMade: !isEdit) }
        // An error that affects all documents is not reported to the client for a single one.
        if error.status == 503 || error.status == 507 { throw error }
        return .done(Result(id: parts.id(of: range), error: error))
    }

    private func tell(_ writes: [PeerWriting.Write], _ outcomes: [PeerWriting.Outcome]) {
        var stored: [DocumentID] = []
        for (write, outcome) in zip(writes, outcomes) {
            switch outcome {
            case .stored: stored.append(write.id)
            case .conflict: continue
            case .refused(let error): call.tell([write.id], CouchError.from(error), isMade: write.isMade)
            }
        }
        call.tell(stored)
    }

    private func store(_ prepared: [Prepared]) async throws -> [Result] {
        var writes: [PeerWriting.Write] = []
        for case .write(let write) in prepared { writes.append(write) }
        let found: [PeerWriting.Outcome]
        do { found = try await call.writing.store(writes) } catch {
            for write in writes { call.tell([write.id], HTTPError(couch: error), isMade: write.isMade) }
            throw error
        }
        tell(writes, found)
        var outcomes = found.makeIterator()
        return prepared.map { each in
            switch each {
            case .done(let result): return result
            case .write(let write):
                switch outcomes.next() {
                case .stored(let revision)?: return Result(id: write.id.text, revision: revision)
                case .conflict?, nil: return Result(id: write.id.text, error: CouchError.conflict())
                case .refused(let error)?: return Result(id: write.id.text, error: CouchError.from(error))
                }
            }
        }
    }
}

extension PeerWriting.Write {
    /// The revision was made elsewhere.
    fileprivate var isMade: Bool { if case .made = revision { true } else { false } }
}
