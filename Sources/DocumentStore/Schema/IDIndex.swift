import Documents
import SQLite

/// Finds documents by id.
///
/// An ordinary index on random ids (UUIDs) costs one page written to the log for each document, once there are more pages than documents in a
/// transaction: insertion slows down as the database grows. So new entries wait in memory (the tail) and go to the `ids` table in their thousands,
/// sorted, many to a page. The tail needs no storage: it consists of exactly the rows whose sequence is greater than the collection's
/// `indexed_up_to`, and each row contains its slot. Every connection keeps its own tail for its snapshot.
///
/// A slot is a hash of the id. If it is taken by another id, or by a purged document (sequence 0), the search continues with the next salt; it ends
/// at a slot that was never used.
final class IDIndex {
    /// Slot → newest sequence, for rows beyond `indexedUpTo`.
    private var tail: [Int64: Int64] = [:]
    private var indexedUpTo: Int64 = 0
    private var scannedUpTo: Int64 = 0
    private var isLoaded = false
    /// Nothing was ever written to the table: no slot needs looking up there.
    private var isTableEmpty = false
    /// The reader's snapshot to which the tail belongs.
    private var view: UInt64 = 0
    /// What to restore if the running job fails (writer only).
    private var undo: [(slot: Int64, before: Int64?)] = []

    private let n: Int
    private unowned let session: Session
    private var lookup: Statement?

    init(_ n: Int, _ session: Session) {
        self.n = n
        self.session = session
    }

    /// Where a document is, or would be.
    struct Place {
        /// 0 = the document does not exist.
        var sequence: Int64
        /// Its slot, or the one to use.
        var slot: Int64
    }

    /// Searches for the id. If found, `statement` is positioned on its row and the caller resets it.
    /// - Parameter statement: selects by sequence (?1) and returns the id in column 0.
    func seek(_ id: DocumentID, _ statement: Statement) throws(StoreError) -> Place {
        try catchUp()
        var text = id.text
        return try text.withUTF8 { utf8 -> Result<Place, StoreError> in
            Result { () throws(StoreError) in try seek(utf8, statement) }
        }.get()
    }

    private func seek(_ id: UnsafeBufferPointer<UInt8>, _ statement: Statement) throws(StoreError) -> Place {
        var free: Int64?
        for salt in 0..<StoreLimits.maxSlotTries {
            let slot = session.idHash.slot(id, salt: UInt64(salt))
            var entry = tail[slot]
            if entry == nil { entry = try indexed(slot) }
            guard let sequence = entry else { return Place(sequence: 0, slot: free ?? slot) }
            if sequence != 0 {
                statement.bind(1, sequence)
                if try session.step(statement) {
                    if statement.withText(0, { $0.elementsEqual(id) }) { return Place(sequence: sequence, slot: slot) }
                    statement.reset()
                    continue
                }
                statement.reset()
            }
            if free == nil { free = slot }
        }
        throw session.damaged("the index of ids has no end at a document")
    }

    private func indexed(_ slot: Int64) throws(StoreError) -> Int64? {
        if isTableEmpty { return nil }
        let statement: Statement
        if let lookup {
            statement = lookup
        } else {
            statement = try session.prepare("SELECT sequence FROM ids_\(n) WHERE slot = ?1")
            lookup = statement
        }
        statement.bind(1, slot)
        defer { statement.reset() }
        return try session.step(statement) ? statement.integer(0) : nil
    }

    // MARK: the tail

    /// Updates the tail to the current snapshot: the writer once, a reader in each of its transactions.
    private func catchUp() throws(StoreError) {
        if isLoaded && view == session.view { return }
        let facts = try session.cached("SELECT indexed_up_to FROM collections WHERE id = ?1")
        facts.bind(1, Int64(n))
        defer { facts.reset() }
        guard try session.step(facts) else { throw session.damaged("collection number \(n) is not listed") }
        let upTo = facts.integer(0)
        if isTableEmpty || !isLoaded {
            let any = try session.cached("SELECT 1 FROM ids_\(n) LIMIT 1")
            defer { any.reset() }
            isTableEmpty = try !session.step(any)
        }
        if !isLoaded {
            tail = [:]
            scannedUpTo = upTo
        } else if upTo != indexedUpTo {
            tail = tail.filter { $0.value > upTo }
            scannedUpTo = max(scannedUpTo, upTo)
        }
        indexedUpTo = upTo
        let rows = try session.cached("SELECT sequence, slot FROM documents_\(n) WHERE sequence > ?1")
        rows.bind(1, scannedUpTo)
        defer { rows.reset() }
        while try session.step(rows) {
            scannedUpTo = rows.integer(0)
            tail[rows.integer(1)] = scannedUpTo
        }
        isLoaded = true
        view = session.view
    }

    /// The document in the slot has a new sequence.
    @inline(__always)
    func set(_ slot: Int64, _ sequence: Int64) {
        undo.append((slot, tail.updateValue(sequence, forKey: slot)))
    }

    /// The document in the slot is purged.
    func clear(_ slot: Int64) throws(StoreError) {
        undo.append((slot, tail.removeValue(forKey: slot)))
        let statement = try session.cached("INSERT OR REPLACE INTO ids_\(n)(slot, sequence) VALUES(?1, 0)")
        statement.bind(1, slot)
        try session.run(statement)
        isTableEmpty = false
    }

    /// The job has succeeded; its changes are final.
    func keep() { undo.removeAll(keepingCapacity: true) }

    /// The job failed.
    func putBack() {
        for (slot, before) in undo.reversed() { tail[slot] = before }
        undo.removeAll(keepingCapacity: true)
    }

    /// The transaction failed: read everything again when next needed.
    func forget() {
        isLoaded = false
        tail = [:]
        undo = []
    }

    // MARK: writing the index

    /// Moves the tail into the table if it has grown long enough.
    /// - Parameter documents: number of documents in the collection: the longer the index, the more entries must be written together for many of them
    ///   to share a page.
    func flushIfLong(documents: Int64, lastSequence: Int64) throws(StoreError) {
        let limit = min(max(Int(documents / 8), StoreLimits.minIndexTail), StoreLimits.maxIndexTail)
        guard isLoaded, tail.count >= limit else { return }
        let insert = try session.cached("INSERT OR REPLACE INTO ids_\(n)(slot, sequence) VALUES(?1, ?2)")
        for (slot, sequence) in tail.sorted(by: { $0.key < $1.key }) {
            insert.bind(1, slot)
            insert.bind(2, sequence)
            try session.run(insert)
        }
        isTableEmpty = false
        let facts = try session.cached("UPDATE collections SET indexed_up_to = ?2 WHERE id = ?1")
        facts.bind(1, Int64(n))
        facts.bind(2, lastSequence)
        try session.run(facts)
        indexedUpTo = lastSequence
        scannedUpTo = lastSequence
        tail.removeAll(keepingCapacity: true)
    }
}
