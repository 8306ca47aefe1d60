import SQLite
import Synchronization

/// What a database holds and has written, counted as it happens: who admits writes need not ask the disk before each of them.
///
/// Files say something else: they shrink at compaction only, and the write-ahead log holds pages that the file has too.
public final class StoreUsage: Sendable {
    /// Pages of 4096 bytes.
    private let pages = Atomic(0)
    private let free = Atomic(0)
    private let open = Atomic(0)
    private let blobs = Atomic(0)
    private let known = Atomic(true)
    private let incoming = Atomic(0)
    private let underWay = Atomic(0)
    private let moved = Atomic(0)
    private let short = Atomic(false)
    private let logged = Atomic(StoreLimits.checkpointPages)

    public init() {}

    static let pageBytes = 4096

    /// Bytes of documents and all that belongs to them, of pages that are in use.
    public var documentBytes: Int { Self.pageBytes * max(0, pages.load(ordering: .relaxed) - freePages) }
    /// Pages of the file that nothing uses; compaction gives them back to the disk.
    public var freePages: Int { free.load(ordering: .relaxed) }
    /// Bytes of blobs, once ``areBlobsKnown``.
    public var blobBytes: Int { max(0, blobs.load(ordering: .relaxed)) }
    /// Those that were there when the database was opened are counted. Of one without blobs it is true from the start; else after
    /// ``BlobStore/count()`` or ``BlobStore/countMeanwhile()``.
    public internal(set) var areBlobsKnown: Bool {
        get { known.load(ordering: .relaxed) }
        set { known.store(newValue, ordering: .relaxed) }
    }
    /// Bytes that were admitted and are neither in the log nor in a file yet.
    public var pendingBytes: Int { open.load(ordering: .relaxed) + max(0, underWay.load(ordering: .relaxed)) }
    /// Bytes of blobs on their way, as far as they have come: what is announced only takes nobody's room, since it may never come.
    public var incomingBytes: Int { max(0, incoming.load(ordering: .relaxed)) }
    /// What the database holds, and what was admitted to it.
    public var heldBytes: Int { storedBytes + open.load(ordering: .relaxed) + incomingBytes }
    /// The same without what may be taken back yet: what was admitted and is not committed, and blobs on their way.
    public var storedBytes: Int { documentBytes + blobBytes }
    /// Bytes that were admitted or written to the log since the database was opened: how much the disk may have changed since it was looked at.
    public var writtenBytes: Int { moved.load(ordering: .relaxed) }

    /// Room is short: what is kept for convenience only is given up. Set by who admits writes.
    public var isShort: Bool {
        get { short.load(ordering: .relaxed) }
        set { short.store(newValue, ordering: .relaxed) }
    }

    /// Pages of write-ahead log after which they are moved into the database, at most `StoreLimits.checkpointPages`: fewer where the disk is
    /// short. Set by who admits writes.
    public var logPages: Int32 {
        get { logged.load(ordering: .relaxed) }
        set { logged.store(min(max(newValue, StoreLimits.leastCheckpointPages), StoreLimits.checkpointPages), ordering: .relaxed) }
    }

    // MARK: counting

    /// In a transaction, before it is committed: SQLite knows both numbers then, without a look at the file.
    func count(_ session: Session) throws(StoreError) {
        let (all, unused) = (try session.cached("PRAGMA page_count"), try session.cached("PRAGMA freelist_count"))
        defer {
            all.reset()
            unused.reset()
        }
        if try session.step(all) { pages.store(Int(clamping: all.integer(0)), ordering: .relaxed) }
        if try session.step(unused) { free.store(Int(clamping: unused.integer(0)), ordering: .relaxed) }
    }

    /// A document was admitted.
    func admitted(_ bytes: Int) {
        open.add(bytes, ordering: .relaxed)
        moved.add(bytes, ordering: .relaxed)
    }

    /// A transaction has ended.
    /// - Parameter log: pages that it has added to the log.
    func ended(log: Int32) {
        open.store(0, ordering: .relaxed)
        moved.add(Self.pageBytes * Int(log), ordering: .relaxed)
    }

    func changedBlobs(by bytes: Int) { blobs.add(bytes, ordering: .relaxed) }
    /// Those that are there are about to be counted, all of them.
    func forgetBlobs() {
        areBlobsKnown = false
        blobs.store(0, ordering: .relaxed)
    }
    /// - Parameter bytes: of those that were there.
    func countedBlobs(_ bytes: Int) {
        changedBlobs(by: bytes)
        areBlobsKnown = true
    }

    /// What a blob on its way takes, as far as it has come. Given back when nobody holds it any more.
    final class Incoming: Sendable {
        private let usage: StoreUsage
        private let come = Atomic(0)

        init(_ usage: StoreUsage) { self.usage = usage }

        deinit { usage.incoming.subtract(come.load(ordering: .relaxed), ordering: .relaxed) }

        /// So many more bytes have come and are about to be written: others see it before they ask for the same room.
        func came(_ count: Int) {
            come.add(count, ordering: .relaxed)
            usage.incoming.add(count, ordering: .relaxed)
            usage.moved.add(count, ordering: .relaxed)
            usage.underWay.add(count, ordering: .relaxed)
        }

        /// They are in the file, or could not be written.
        func wrote(_ count: Int) { usage.underWay.subtract(count, ordering: .relaxed) }
    }
}
