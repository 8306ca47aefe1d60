import Documents
import Synchronization

/// An unreadable document: it is left out of feeds and lists until it is saved, deleted or purged.
public struct DamagedDocument: Sendable, Equatable {
    public var collection: CollectionName
    public var id: DocumentID
    /// What is wrong with it.
    public var detail: String
}

/// A problem of a blob that documents name.
struct BlobFault: Sendable {
    /// Path of its file.
    var path: String
    /// Whether the file is missing; otherwise its bytes are altered.
    var isMissing: Bool
}

/// Problems of a database's files, as encountered by readers and the writer. Not stored: a problem that is encountered again is recorded again.
final class DatabaseProblems: Sendable {
    private struct Key: Hashable {
        var collection: CollectionName
        var id: DocumentID
    }

    private struct Met {
        var documents: [Key: String] = [:]
        var blobs: [BlobDigest: BlobFault] = [:]
        /// Blobs that were looked up and not found. Possibly nothing needs them.
        var missedBlobs: Set<BlobDigest> = []
        /// There was no room for all of those.
        var hasMoreMissed = false
        var file: StoreError?
        /// Set if SQLite found the file malformed while writing, with the number of times.
        var damage: StoreError?
        var damages = 0
        var writes: (error: StoreError, since: Int64)?
        /// The peer's version that was furthest ahead of our clock, and its sender.
        var clock: (version: VectorVersion, sender: String?)?
        /// The last version with our own source id that was not made here, and its sender.
        var copy: (version: VectorVersion, sender: String?)?
        /// There was no room for all of them.
        var isCapped = false

        /// - Returns: whether it is new.
        mutating func add(_ digest: BlobDigest, _ fault: BlobFault) -> Bool {
            guard blobs[digest] != nil || blobs.count < StoreLimits.damagedDocuments else {
                isCapped = true
                return false
            }
            return blobs.updateValue(fault, forKey: digest)?.isMissing != fault.isMissing
        }

        /// - Returns: whether it is new.
        mutating func noteIntact(_ digest: BlobDigest) -> Bool {
            if blobs.isEmpty, missedBlobs.isEmpty { return false }
            let wasFaulty = blobs.removeValue(forKey: digest) != nil
            return missedBlobs.remove(digest) != nil || wasFaulty
        }
    }

    private let met = Mutex(Met())
    private let report: @Sendable (StoreError) -> Void
    let mends = BlobMends()

    /// - Parameter report: called when a problem is first encountered.
    init(report: @escaping @Sendable (StoreError) -> Void) { self.report = report }

    // MARK: Documents

    /// At most `StoreLimits.damagedDocuments` are recorded.
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

    /// In order of collection and id.
    var documents: [DamagedDocument] {
        met.withLock { $0.documents.map { DamagedDocument(collection: $0.key.collection, id: $0.key.id, detail: $0.value) } }
            .sorted { ($0.collection.description, $0.id) < ($1.collection.description, $1.id) }
    }

    /// Whether more documents or blobs are damaged than are recorded.
    var isCapped: Bool { met.withLock { $0.isCapped } }

    // MARK: Clocks

    /// A peer's version has a time in the future of this machine's clock.
    ///
    /// - Parameter sender: a description of the peer that sent it.
    func noteClock(_ version: VectorVersion, from sender: String?) {
        met.withLock { met in
            // A peer that only passes the version on is not its origin.
            if version.time > met.clock?.version.time ?? 0 { met.clock = (version, sender) }
        }
    }

    /// The version that was furthest ahead; nil while all were within `StoreLimits.clockDriftNanoseconds`.
    var clock: (version: VectorVersion, sender: String?)? { met.withLock { $0.clock } }

    /// Somebody else creates versions with this database's source id.
    ///
    /// - Parameter sender: a description of the peer that sent it.
    func noteCopy(_ version: VectorVersion, from sender: String?) { met.withLock { $0.copy = (version, sender) } }

    /// The last such version; nil if there was none.
    var copy: (version: VectorVersion, sender: String?)? { met.withLock { $0.copy } }

    // MARK: Files

    /// The database's file is damaged or missing.
    func note(_ error: StoreError) {
        let isNew = met.withLock { met in
            defer { met.file = error }
            return met.file == nil
        }
        if isNew { report(error) }
    }

    /// SQLite found the file malformed while writing: data written to it may be unreadable later although it was acknowledged.
    func noteDamage(_ error: StoreError) {
        let isNew = met.withLock { met in
            met.damages += 1
            defer { met.damage = met.damage ?? error }
            return met.damage == nil
        }
        if isNew { report(error) }
    }

    /// Why nothing may be written; nil if writes are allowed.
    var damage: StoreError? { met.withLock { $0.damage } }

    /// How often ``noteDamage(_:)`` was called.
    var damages: Int { met.withLock { $0.damages } }

    /// The whole file was checked, and it is sound.
    ///
    /// - Parameter damages: the value of ``damages`` before the check.
    /// - Returns: whether writes were blocked and are allowed again.
    func fileIsSound(_ damages: Int) -> Bool {
        met.withLock { met in
            guard met.damage != nil, met.damages == damages else { return false }
            met.damage = nil
            return true
        }
    }

    /// The disk failed for a write, or (nil) completed one.
    func noteWrite(_ error: StoreError?, now: Int64) {
        met.withLock { met in
            if let error {
                met.writes = (error, met.writes?.since ?? now)
            } else if met.writes != nil {
                met.writes = nil
            }
        }
    }

    /// The disk's error in the last write, if it failed, and since when no write has succeeded.
    var writesFailing: (error: StoreError, since: Int64)? { met.withLock { $0.writes } }

    /// A file that was missing is back.
    func fileIsBack() {
        met.withLock { met in
            if case .fileGone? = met.file { met.file = nil }
        }
    }

    /// A blob was read completely. At most `StoreLimits.damagedDocuments` problems are recorded.
    func note(_ digest: BlobDigest, _ error: StoreError?) {
        guard let error else {
            if met.withLock({ $0.noteIntact(digest) }) { mends.mended([digest]) }
            return
        }
        guard case .blobAltered(_, let path) = error else { return }
        if met.withLock({ $0.add(digest, BlobFault(path: path, isMissing: false)) }) { report(error) }
    }

    /// A blob was looked up in vain.
    func noteMissed(_ digest: BlobDigest) {
        met.withLock { met in
            guard met.missedBlobs.count < StoreLimits.damagedDocuments || met.missedBlobs.contains(digest) else {
                met.hasMoreMissed = true
                return
            }
            met.missedBlobs.insert(digest)
        }
    }

    /// Blobs that were looked up in vain, and those already known to be missing from documents.
    var missedBlobs: [BlobDigest] {
        met.withLock { met in met.missedBlobs.union(met.blobs.filter { $0.value.isMissing }.keys).sorted { $0.hex < $1.hex } }
    }

    /// - Parameters:
    ///   - missed: the blobs that were looked up.
    ///   - lost: of these, with the paths of their files, those that documents need and that are missing.
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

    /// The problem of the database's file.
    var file: StoreError? { met.withLock { $0.damage ?? $0.file } }

    /// Blobs that are altered or missing.
    var blobs: [(digest: BlobDigest, fault: BlobFault)] {
        met.withLock { met in met.blobs.sorted { $0.key.hex < $1.key.hex }.map { (digest: $0.key, fault: $0.value) } }
    }
}
