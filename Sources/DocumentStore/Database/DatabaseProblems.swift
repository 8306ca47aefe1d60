import Documents
import Synchronization

/// A document that cannot be read: it is left out of feeds and lists until it is saved, deleted or purged.
public struct DamagedDocument: Sendable, Equatable {
    public var collection: CollectionName
    public var id: DocumentID
    /// What is wrong with it.
    public var detail: String
}

/// What is wrong with a blob that documents name.
struct BlobFault: Sendable {
    /// Of its file.
    var path: String
    /// It is gone; else its bytes are others.
    var isMissing: Bool
}

/// What is wrong with a database's files, as far as readers and the writer have met it. Not stored: whoever meets it again notes it again.
final class DatabaseProblems: Sendable {
    private struct Key: Hashable {
        var collection: CollectionName
        var id: DocumentID
    }

    private struct Met {
        var documents: [Key: String] = [:]
        var blobs: [BlobDigest: BlobFault] = [:]
        /// Somebody looked for these, and they were not there. Perhaps nothing needs them.
        var missedBlobs: Set<BlobDigest> = []
        /// There was no room for all of those.
        var hasMoreMissed = false
        var file: StoreError?
        /// SQLite found the file malformed when it was to write; and how often it did.
        var damage: StoreError?
        var damages = 0
        var writes: (error: StoreError, since: Int64)?
        /// The version of a peer that was furthest ahead of our clock, and who gave it.
        var clock: (version: VectorVersion, sender: String?)?
        /// A version under our own name that was not made here, the last one, and who gave it.
        var copy: (version: VectorVersion, sender: String?)?
        /// There was no room for all of them.
        var isCapped = false

        /// - Returns: whether that is news.
        mutating func add(_ digest: BlobDigest, _ fault: BlobFault) -> Bool {
            guard blobs[digest] != nil || blobs.count < StoreLimits.damagedDocuments else {
                isCapped = true
                return false
            }
            return blobs.updateValue(fault, forKey: digest)?.isMissing != fault.isMissing
        }

        /// - Returns: whether that is news.
        mutating func noteRight(_ digest: BlobDigest) -> Bool {
            if blobs.isEmpty, missedBlobs.isEmpty { return false }
            let wasFaulty = blobs.removeValue(forKey: digest) != nil
            return missedBlobs.remove(digest) != nil || wasFaulty
        }
    }

    private let met = Mutex(Met())
    private let report: @Sendable (StoreError) -> Void
    let mends = BlobMends()

    /// - Parameter report: told each problem when it is first met.
    init(report: @escaping @Sendable (StoreError) -> Void) { self.report = report }

    // MARK: Documents

    /// Beyond `StoreLimits.damagedDocuments` no further ones are noted.
    func note(_ collection: CollectionName, _ id: DocumentID, _ detail: String) {
        let isNew = met.withLock { met in
            let key = Key(collection: collection, id: id)
            guard met.documents[key] != nil || met.documents.count < StoreLimits.damagedDocuments else {
                met.isCapped = true
                return false
            }
            return met.documents.updateValue(detail, forKey: key) == nil
        }
        if isNew { report(.documentDamaged(id: id, detail: detail)) }
    }

    func forget(_ collection: CollectionName, _ id: DocumentID) {
        met.withLock { met in
            if !met.documents.isEmpty { met.documents[Key(collection: collection, id: id)] = nil }
        }
    }

    /// In the order of collections and ids.
    var documents: [DamagedDocument] {
        met.withLock { $0.documents.map { DamagedDocument(collection: $0.key.collection, id: $0.key.id, detail: $0.value) } }
            .sorted { ($0.collection.description, $0.id) < ($1.collection.description, $1.id) }
    }

    /// More documents or blobs are damaged than are noted.
    var isCapped: Bool { met.withLock { $0.isCapped } }

    // MARK: Clocks

    /// A peer's version is of a time that is still to come, by this machine's clock.
    ///
    /// - Parameter sender: who gave it, in words.
    func noteClock(_ version: VectorVersion, from sender: String?) {
        met.withLock { met in
            // Whoever gives it on is not the one who brought it.
            if version.time > met.clock?.version.time ?? 0 { met.clock = (version, sender) }
        }
    }

    /// The version that was furthest ahead; nil while all were within `StoreLimits.clockDriftNanoseconds`.
    var clock: (version: VectorVersion, sender: String?)? { met.withLock { $0.clock } }

    /// Somebody else makes versions under the name of this database.
    ///
    /// - Parameter sender: who gave it, in words.
    func noteCopy(_ version: VectorVersion, from sender: String?) { met.withLock { $0.copy = (version, sender) } }

    /// The last one of those; nil while none came.
    var copy: (version: VectorVersion, sender: String?)? { met.withLock { $0.copy } }

    // MARK: Files

    /// The database's file is damaged, or is not there any more.
    func note(_ error: StoreError) {
        let isNew = met.withLock { met in
            defer { met.file = error }
            return met.file == nil
        }
        if isNew { report(error) }
    }

    /// SQLite found the file malformed when it was to write: what is written to it may be found by nobody again, though it was acknowledged.
    func noteDamage(_ error: StoreError) {
        let isNew = met.withLock { met in
            met.damages += 1
            defer { met.damage = met.damage ?? error }
            return met.damage == nil
        }
        if isNew { report(error) }
    }

    /// Why nothing may be written; nil where it may be.
    var damage: StoreError? { met.withLock { $0.damage } }

    /// How often ``noteDamage(_:)`` was said.
    var damages: Int { met.withLock { $0.damages } }

    /// All of the file was looked at, and it is sound.
    ///
    /// - Parameter damages: as before the look.
    /// - Returns: writes may go on that might not.
    func fileIsSound(_ damages: Int) -> Bool {
        met.withLock { met in
            guard met.damage != nil, met.damages == damages else { return false }
            met.damage = nil
            return true
        }
    }

    /// The disk failed for a write, or (nil) took one.
    func noteWrite(_ error: StoreError?, now: Int64) {
        met.withLock { met in
            if let error {
                met.writes = (error, met.writes?.since ?? now)
            } else if met.writes != nil {
                met.writes = nil
            }
        }
    }

    /// The error of the last write, where the disk failed for it, and since when no write has worked.
    var writesFailing: (error: StoreError, since: Int64)? { met.withLock { $0.writes } }

    /// A file that was gone is there again.
    func fileIsBack() {
        met.withLock { met in
            if case .fileGone? = met.file { met.file = nil }
        }
    }

    /// A blob was read to its end. Beyond `StoreLimits.damagedDocuments` no further ones are noted.
    func note(_ digest: BlobDigest, _ error: StoreError?) {
        guard let error else {
            if met.withLock({ $0.noteRight(digest) }) { mends.mended([digest]) }
            return
        }
        guard case .blobAltered(_, let path) = error else { return }
        if met.withLock({ $0.add(digest, BlobFault(path: path, isMissing: false)) }) { report(error) }
    }

    /// Somebody looked for a blob in vain.
    func noteMissed(_ digest: BlobDigest) {
        met.withLock { met in
            guard met.missedBlobs.count < StoreLimits.damagedDocuments || met.missedBlobs.contains(digest) else {
                met.hasMoreMissed = true
                return
            }
            met.missedBlobs.insert(digest)
        }
    }

    /// Blobs that somebody looked for in vain, and those that were found to be missed by documents before.
    var missedBlobs: [BlobDigest] {
        met.withLock { met in met.missedBlobs.union(met.blobs.filter { $0.value.isMissing }.keys).sorted { $0.hex < $1.hex } }
    }

    /// - Parameters:
    ///   - missed: those that were looked for.
    ///   - lost: of these, with the paths of their files, those that documents need and that are not there.
    func settle(missed: [BlobDigest], lost: [(digest: BlobDigest, path: String)]) {
        let still = Set(lost.map(\.digest))
        let new: [BlobDigest] = met.withLock { met in
            for digest in missed {
                met.missedBlobs.remove(digest)
                if !still.contains(digest), met.blobs[digest]?.isMissing == true { met.blobs[digest] = nil }
            }
            if met.hasMoreMissed, !lost.isEmpty { met.isCapped = true }
            met.hasMoreMissed = false
            var new: [BlobDigest] = []
            for each in lost where met.add(each.digest, BlobFault(path: each.path, isMissing: true)) { new.append(each.digest) }
            return new
        }
        for digest in new { report(.blobMissing(digest: digest.text)) }
        mends.mended(missed.filter { !still.contains($0) })
    }

    /// Of the database's file.
    var file: StoreError? { met.withLock { $0.damage ?? $0.file } }

    /// Blobs whose bytes are others or gone.
    var blobs: [(digest: BlobDigest, fault: BlobFault)] {
        met.withLock { met in met.blobs.sorted { $0.key.hex < $1.key.hex }.map { (digest: $0.key, fault: $0.value) } }
    }
}
