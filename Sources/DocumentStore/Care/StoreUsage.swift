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
    private let incoming = Atomic(0)
    private let promised = Atomic(0)
    private let moved = Atomic(0)
    private let short = Atomic(false)
    private let logged = Atomic(StoreLimits.checkpointPages)

    public init() {}

    static let pageBytes = 4096

    /// Bytes of documents and all that belongs to them, of pages that are in use.
    public var documentBytes: Int { Self.pageBytes * max(0, pages.load(ordering: .relaxed) - freePages) }
    /// Pages of the file that nothing uses; compaction gives them back to the disk.
    public var freePages: Int { free.load(ordering: .relaxed) }
    /// Bytes of blobs. Known after ``BlobStore/count()``.
    public var blobBytes: Int { max(0, blobs.load(ordering: .relaxed)) }
    /// Bytes that were admitted and are neither in the log nor in a file yet.
    public var pendingBytes: Int { open.load(ordering: .relaxed) + max(0, promised.load(ordering: .relaxed)) }
    /// Bytes of blobs on their way, as far as they have come or were announced.
    public var incomingBytes: Int { max(0, incoming.load(ordering: .relaxed)) }
    /// What the database holds, and what was admitted to it.
    public var heldBytes: Int { documentBytes + open.load(ordering: .relaxed) + blobBytes + incomingBytes }
    /// What the database holds without what was admitted and is not committed: that may yet be taken back.
    public var settledBytes: Int { documentBytes + blobBytes + incomingBytes }
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
    func countedBlobs(_ bytes: Int) { blobs.store(bytes, ordering: .relaxed) }

    /// What a blob on its way takes, as far as it has come or its length is known. Given back when nobody holds it any more.
    final class Incoming: Sendable {
        private let usage: StoreUsage
        private let bytes: Mutex<(announced: Int, come: Int)>

        init(_ usage: StoreUsage, announced: Int) {
            self.usage = usage
            bytes = Mutex((announced, 0))
            usage.incoming.add(announced, ordering: .relaxed)
            usage.promised.add(announced, ordering: .relaxed)
            usage.moved.add(announced, ordering: .relaxed)
        }

        deinit {
            let (announced, come) = bytes.withLock { $0 }
            usage.incoming.subtract(max(announced, come), ordering: .relaxed)
            usage.promised.subtract(max(0, announced - come), ordering: .relaxed)
        }

        /// So many more bytes are to come, whatever was announced before.
        func announce(_ count: Int) {
            bytes.withLock { bytes in
                let change = bytes.come + count - max(bytes.announced, bytes.come)
                usage.incoming.add(change, ordering: .relaxed)
                usage.promised.add(change, ordering: .relaxed)
                usage.moved.add(count, ordering: .relaxed)
                bytes.announced = bytes.come + count
            }
        }

        /// Of so many more bytes those that were not announced.
        func excess(_ count: Int) -> Int { bytes.withLock { max(0, $0.come + count - max($0.announced, $0.come)) } }

        /// So many more bytes are written.
        func came(_ count: Int) {
            bytes.withLock { bytes in
                let excess = max(0, bytes.come + count - max(bytes.announced, bytes.come))
                usage.incoming.add(excess, ordering: .relaxed)
                usage.moved.add(excess, ordering: .relaxed)
                usage.promised.subtract(count - excess, ordering: .relaxed)
                bytes.come += count
            }
        }
    }
}
