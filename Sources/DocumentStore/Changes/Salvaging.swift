import Documents
import SQLite

/// A part of a collection that cannot be read.
public struct UnreadablePart: Sendable, Equatable {
    /// It lies in this range; there may be fewer documents than sequences.
    public var sequences: ClosedRange<SequenceNumber>
    /// The id, if the part is a single document whose id can be read.
    public var id: String?
    /// What is wrong.
    public var detail: String

    public init(sequences: ClosedRange<SequenceNumber>, id: String?, detail: String) {
        (self.sequences, self.id, self.detail) = (sequences, id, detail)
    }
}

/// A page of everything that can be read of a collection.
public struct SalvagedPage: Sendable {
    public var rows: [ChangeRow] = []
    public var unreadable: [UnreadablePart] = []
    /// Where the next page begins; nil if this was the last.
    public var next: SequenceNumber?
}

extension ReadTransaction {
    /// `salvage_steps`: sequences after a damaged part that are tried one by one. After that the steps grow, so that a damage over millions of
    /// documents comes to an end.
    private static let singleSteps: Int64 = 1 << 16

    /// Current revisions with their bodies in order of sequence, as far as they can be read, and the parts that cannot be: reading continues after a
    /// damaged part of the file. A document whose stored data cannot be valid is left out too.
    ///
    /// - Throws: ``StoreError`` for errors other than damage.
    public final func salvage(
        _ collection: Collection, since: SequenceNumber, limit: Int, includeDeleted: Bool
    ) throws(StoreError) -> SalvagedPage {
        guard let start = Int64(exactly: since) else { return SalvagedPage() }
        let statement = try tables(collection).statement(.changesWithBodies)
        statement.bind(1, start)
        statement.bind(2, -1)
        defer { statement.reset() }
        var page = SalvagedPage()
        var (at, bytes) = (start, 0)
        do throws(StoreError) {
            while try session.step(statement) {
                at = max(at, statement.integer(0))
                if !includeDeleted && statement.integer(3) & DocumentFlags.deleted != 0 { continue }
                switch salvagedRow(statement) {
                case .success(let row):
                    page.rows.append(row)
                    bytes += row.bodySize
                case .failure(let found):
                    page.unreadable.append(found.part)
                    if let id = found.part.id.flatMap({ try? DocumentID($0) }) { setAside(collection, .documentDamaged(id: id, detail: found.part.detail)) }
                }
                if page.rows.count + page.unreadable.count >= limit || bytes >= StoreLimits.maxBodyBytesPerRead { break }
            }
            page.next = at > start ? SequenceNumber(at) : nil
        } catch {
            guard error.isDamageError else { throw error }
            session.failure = nil
            page.next = SequenceNumber(at)
            if at == start { try skipDamage(behind: start, collection, error, &page) }
        }
        return page
    }

    /// Finds the sequence at which reading can continue.
    private func skipDamage(behind start: Int64, _ collection: Collection, _ why: StoreError, _ page: inout SalvagedPage) throws(StoreError) {
        var last = Int64.max - 1
        do throws(StoreError) { last = Int64(clamping: try lastSequence(collection)) } catch {
            guard error.isDamageError else { throw error }
            session.failure = nil
        }
        // Nothing after `bad` can be read; after `good`, something can be, or nothing exists.
        var (bad, step) = (start, Int64(1))
        var good: Int64?
        while good == nil, bad < last {
            let tried = bad > last - step ? last : bad + step
            if try isReadable(behind: tried, collection) { good = tried } else { bad = tried }
            if bad - start >= Self.singleSteps { step *= 2 }
        }
        while let found = good, found - bad > 1 {
            let middle = bad + (found - bad) / 2
            if try isReadable(behind: middle, collection) { good = middle } else { bad = middle }
        }
        let first = start == .max ? start : start + 1
        let end = max(good ?? last, first)
        page.unreadable.append(UnreadablePart(sequences: SequenceNumber(first)...SequenceNumber(end), id: nil, detail: why.damageDetail))
        page.next = good.map { SequenceNumber($0) }
    }

    private func isReadable(behind sequence: Int64, _ collection: Collection) throws(StoreError) -> Bool {
        let statement = try tables(collection).statement(.changesWithBodies)
        statement.reset()
        statement.bind(1, sequence)
        statement.bind(2, 1)
        defer { statement.reset() }
        do throws(StoreError) {
            _ = try session.step(statement)
            return true
        } catch {
            guard error.isDamageError else { throw error }
            session.failure = nil
            return false
        }
    }

    private struct Unreadable: Error { var part: UnreadablePart }

    /// The row, if all of it can be valid.
    private func salvagedRow(_ statement: Statement) -> Result<ChangeRow, Unreadable> {
        func text(_ column: Int32) -> String? { statement.withText(column) { String(validating: $0, as: UTF8.self) } }
        let sequence = SequenceNumber(max(0, statement.integer(0)))
        func unreadable(_ id: String?, _ detail: String) -> Result<ChangeRow, Unreadable> {
            .failure(Unreadable(part: UnreadablePart(sequences: sequence...sequence, id: id, detail: detail)))
        }
        guard let idText = text(1), let id = try? DocumentID(idText) else { return unreadable(nil, "its id is invalid") }
        guard let revisionText = text(2), let revision = try? RevisionID(known: revisionText) else { return unreadable(idText, "its revision is invalid") }
        let body = statement.blob(6)
        do throws(JSONError) { _ = try JSONScanner.scanDocument(body) } catch { return unreadable(idText, "its body is not JSON object: \(error)") }
        let flags = statement.integer(3)
        return .success(
            ChangeRow(
                sequence: sequence, id: id, revision: revision, isDeleted: flags & DocumentFlags.deleted != 0,
                hasConflict: flags & DocumentFlags.conflicted != 0, hasBlobs: flags & DocumentFlags.blobs != 0, bodySize: body.count, body: body,
                remoteRevision: nil, tree: nil))
    }
}

extension StoreError {
    /// Whether stored data is damaged, while other parts of the file may be readable.
    fileprivate var isDamageError: Bool {
        switch self {
        case .corrupt, .inputOutput: true
        default: false
        }
    }

    fileprivate var damageDetail: String {
        switch self {
        case .corrupt(let path, let detail), .inputOutput(let path, let detail): "\(path): \(detail)"
        default: "\(self)"
        }
    }
}
