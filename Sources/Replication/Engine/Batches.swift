import Documents
import DocumentStore

/// Revisions that arrived and belong to no batch yet, in order.
struct ArrivalQueue {
    private var revisions: [ReceivedRevision] = []
    private(set) var bytes = 0

    var isEmpty: Bool { revisions.isEmpty }
    var count: Int { revisions.count }

    mutating func append(_ revision: ReceivedRevision) {
        revisions.append(revision)
        bytes += revision.bytes
    }

    func hasAny(where isFree: (DocumentID) -> Bool) -> Bool { revisions.contains { isFree($0.id) } }
    func contains(_ id: DocumentID) -> Bool { revisions.contains { $0.id == id } }
    func ids(among ids: Set<DocumentID>) -> Set<DocumentID> { Set(revisions.lazy.map(\.id).filter { ids.contains($0) }) }

    /// Takes those at the front whose document is free; the others keep their positions.
    ///
    /// - Parameter onePerDocument: take one revision of a document at a time; the next one waits until that one has ended.
    mutating func take(rows: Int, bytes limit: Int, onePerDocument: Bool, where isFree: (DocumentID) -> Bool) -> [ReceivedRevision] {
        if revisions.count <= rows, bytes <= limit, !onePerDocument, revisions.allSatisfy({ isFree($0.id) }) {
            defer { (revisions, bytes) = ([], 0) }
            return revisions
        }
        var taken: [ReceivedRevision] = []
        var left: [ReceivedRevision] = []
        /// If an earlier revision of a document was passed over, no later one may be taken either.
        var passedOver: Set<DocumentID> = []
        var size = 0
        for (index, revision) in revisions.enumerated() {
            if taken.count == rows || size >= limit {
                left += revisions[index...]
                break
            }
            if passedOver.isEmpty || !passedOver.contains(revision.id), isFree(revision.id) {
                taken.append(revision)
                size += revision.bytes
                if onePerDocument { passedOver.insert(revision.id) }
            } else {
                passedOver.insert(revision.id)
                left.append(revision)
            }
        }
        revisions = left
        bytes -= size
        return taken
    }
}

/// Groups of revisions between arrival and store, and those that wait for their blobs: each with its step and the data for it.
struct Batches {
    enum Step {
        /// Bodies are being checked.
        case checking([(id: DocumentID, bytes: Int)])
        /// The filter is being asked. `isStale`: another version replaced it in the meantime, and has to be asked as well.
        case judging([CheckedRevision], isStale: Bool)
        /// Revisions that the filter kept back are being put on the list; the others continue afterwards. `isStale`: another version replaced the
        /// filter in the meantime.
        case keeping([HeldRevision], passed: [CheckedRevision], isStale: Bool)
        /// The sync function is being asked.
        case assigning([CheckedRevision], attempt: Int)
        /// The store is writing.
        case storing([StorableRevision], attempt: Int)
    }

    private var batches: [BatchID: Step] = [:]
    /// Revisions that wait for their blobs, each with later ones of its document.
    private var fetches: [FetchID: (revision: CheckedRevision, behind: [CheckedRevision])] = [:]
    private var fetching: [DocumentID: FetchID] = [:]
    private var ready: [CheckedRevision] = []
    /// Number of revisions of each document.
    private var documents: [DocumentID: Int] = [:]
    private var last = 0
    private(set) var bytes = 0
    private(set) var count = 0

    /// Batches in progress; revisions that wait for blobs do not count.
    var running: Int { batches.count }
    var isEmpty: Bool { count == 0 && batches.isEmpty }

    /// Bytes of the revisions that policies and the store are working on. Those still being checked are dropped with their connection.
    var bytesElsewhere: Int {
        var bytes = 0
        for step in batches.values {
            switch step {
            case .checking: break
            case .judging(let revisions, _), .assigning(let revisions, _): for each in revisions { bytes += each.bytes }
            case .keeping(let held, let passed, _):
                for each in held { bytes += each.revision.bytes }
                for each in passed { bytes += each.bytes }
            case .storing(let revisions, _): for each in revisions { bytes += each.revision.bytes }
            }
        }
        return bytes
    }

    func contains(_ id: DocumentID) -> Bool { !documents.isEmpty && documents[id] != nil }
    /// Revisions kept back by an earlier version of the filter are on their way to the list.
    var areKeepingBack: Bool { batches.values.contains { if case .keeping(_, _, isStale: true) = $0 { true } else { false } } }
    func step(_ batch: BatchID) -> Step? { batches[batch] }

    mutating func begin(_ revisions: [ReceivedRevision]) -> BatchID {
        let received = revisions.map { (id: $0.id, bytes: $0.bytes) }
        for revision in received { enter(revision.id, revision.bytes) }
        return add(.checking(received))
    }

    /// Starts a batch with revisions that were checked before.
    mutating func begin(checked revisions: [CheckedRevision]) -> BatchID {
        for revision in revisions { enter(revision.id, revision.bytes) }
        return add(.judging(revisions, isStale: false))
    }

    /// Starts a batch with a revision that cannot be stored and is put on the list of held revisions.
    mutating func begin(keeping held: HeldRevision) -> BatchID { add(.keeping([held], passed: [], isStale: false)) }

    mutating func move(_ batch: BatchID, to step: Step) { if batches[batch] != nil { batches[batch] = step } }

    /// The batch is over; its revisions have left one by one.
    mutating func end(_ batch: BatchID) { batches[batch] = nil }

    mutating func filterChanged() {
        for (batch, step) in batches {
            switch step {
            case .judging(let revisions, _): batches[batch] = .judging(revisions, isStale: true)
            case .keeping(let held, let passed, _): batches[batch] = .keeping(held, passed: passed, isStale: true)
            default: break
            }
        }
    }

    /// A revision is settled.
    mutating func leave(_ id: DocumentID, _ size: Int) {
        count -= 1
        bytes -= size
        guard let index = documents.index(forKey: id) else { return }
        if documents.values[index] > 1 { documents.values[index] -= 1 } else { documents.remove(at: index) }
    }

    /// Takes a revision out of its batch until its blobs are here.
    mutating func fetch(_ revision: CheckedRevision) -> FetchID {
        last += 1
        fetches[FetchID(number: last)] = (revision, [])
        fetching[revision.id] = FetchID(number: last)
        return FetchID(number: last)
    }

    /// Queues a revision behind an earlier one of its document that waits for blobs. False if there is none.
    mutating func wait(_ revision: CheckedRevision) -> Bool {
        guard !fetching.isEmpty, let earlier = fetching[revision.id] else { return false }
        fetches[earlier]?.behind.append(revision)
        return true
    }

    /// Whether a revision of the document waits for its blobs.
    func isFetching(_ id: DocumentID) -> Bool { !fetching.isEmpty && fetching[id] != nil }

    mutating func fetched(_ fetch: FetchID) -> (revision: CheckedRevision, behind: [CheckedRevision])? {
        guard let fetched = fetches.removeValue(forKey: fetch) else { return nil }
        fetching[fetched.revision.id] = nil
        return fetched
    }

    /// Its blobs are here: it joins the next batch.
    mutating func makeReady(_ revision: CheckedRevision) { ready.append(revision) }

    mutating func beginReady() -> (BatchID, [CheckedRevision])? {
        guard !ready.isEmpty else { return nil }
        defer { ready = [] }
        return (add(.judging(ready, isStale: false)), ready)
    }

    /// The checked body may be smaller than the received one, and the blobs that it names are known.
    mutating func resize(by difference: Int) { bytes += difference }

    private mutating func enter(_ id: DocumentID, _ size: Int) {
        count += 1
        bytes += size
        documents[id, default: 0] += 1
    }

    private mutating func add(_ step: Step) -> BatchID {
        last += 1
        batches[BatchID(number: last)] = step
        return BatchID(number: last)
    }
}
