import SQLite
import Synchronization

/// How much a database holds and has written, counted as it happens: code that admits writes need not query the disk before each of them.
///
/// File sizes differ from this: they shrink only at compaction, and the write-ahead log contains pages that the file contains too.
public final class StoreUsage: Sendable {
    /// Number of pages, of 4096 bytes each.
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

    /// Bytes of documents and everything belonging to them: the pages in use.
    public var documentBytes: Int { Self.pageBytes * max(0, pages.load(ordering: .relaxed) - freePages) }
    /// Unused pages of the file; compaction returns them to the file system.
    public var freePages: Int { free.load(ordering: .relaxed) }
    /// Bytes of blobs, once ``areBlobsKnown``.
    public var blobBytes: Int { max(0, blobs.load(ordering: .relaxed)) }
    /// Whether the blobs that existed when the database was opened have been counted. True from the start for a database without blobs; otherwise
    /// after ``BlobStore/count()`` or ``BlobStore/countConcurrently()``.
    public internal(set) var areBlobsKnown: Bool {
        get { known.load(ordering: .relaxed) }
        set { known.store(newValue, ordering: .relaxed) }
    }
    /// Bytes that were admitted and are not yet in the log or in a file.
    public var pendingBytes: Int { open.load(ordering: .relaxed) + max(0, underWay.load(ordering: .relaxed)) }
    /// Received bytes of incomplete blobs. Bytes that are only announced do not count, since they may never arrive.
    public var incomingBytes: Int { max(0, incoming.load(ordering: .relaxed)) }
    /// What the database holds, including what was admitted to it.
    public var heldBytes: Int { storedBytes + open.load(ordering: .relaxed) + incomingBytes }
    /// The same without what may still be undone: admitted and uncommitted writes, and incomplete blobs.
    public var storedBytes: Int { documentBytes + blobBytes }
    /// Bytes admitted or written to the log since the database was opened: how much the disk may have changed since it was last examined.
    public var writtenBytes: Int { moved.load(ordering: .relaxed) }

    /// Whether space is short, so that what is kept only for convenience is given up. Set by the code that admits writes.
    public var isShort: Bool {
        get { short.load(ordering: .relaxed) }
        set { short.store(newValue, ordering: .relaxed) }
    }

    /// Pages of write-ahead log after which they are moved into the database, at most `StoreLimits.checkpointPages`: fewer if the disk is nearly
    /// full. Set by the code that admits writes.
    public var logPages: Int32 {
        get { logged.load(ordering: .relaxed) }
        set { logged.store(min(max(newValue, StoreLimits.minimumCheckpointPages), StoreLimits.checkpointPages), ordering: .relaxed) }
    }

    // MARK: counting

    /// Called in a transaction before it is committed: SQLite then knows both numbers without examining the file.
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
    /// - Parameter log: pages that it added to the log.
    func ended(log: Int32) {
        open.store(0, ordering: .relaxed)
        moved.add(Self.pageBytes * Int(log), ordering: .relaxed)
    }

    func changedBlobs(by bytes: Int) { blobs.add(bytes, ordering: .relaxed) }
    /// The existing blobs are about to be counted, all of them.
    func forgetBlobs() {
        areBlobsKnown = false
        blobs.store(0, ordering: .relaxed)
    }
    /// - Parameter bytes: total size of the blobs that existed.
    func countedBlobs(_ bytes: Int) {
        changedBlobs(by: bytes)
        areBlobsKnown = true
    }

    /// The space taken by a blob being received, as far as it has arrived. Released with the last reference.
    final class Incoming: Sendable {
        private let usage: StoreUsage
        private let come = Atomic(0)

        init(_ usage: StoreUsage) { self.usage = usage }

        deinit { usage.incoming.subtract(come.load(ordering: .relaxed), ordering: .relaxed) }

        /// More bytes have arrived and are about to be written: counted first, so that others see it before they request the same space.
        func came(_ count: Int) {
            come.add(count, ordering: .relaxed)
            usage.incoming.add(count, ordering: .relaxed)
            usage.moved.add(count, ordering: .relaxed)
            usage.underWay.add(count, ordering: .relaxed)
        }

        /// The bytes are in the file, or could not be written.
        func wrote(_ count: Int) { usage.underWay.subtract(count, ordering: .relaxed) }
    }
}
