import Digests
import Documents
import Environment
import Synchronization

/// The beginning of a blob whose connection broke. It has one owner at a time: the writer that received it, the list that keeps it, the writer that
/// continues it. Its file is open, and gives way to others like that of a blob being received.
///
/// Unchecked: the hasher is used only by the writer that has it, under its lock.
final class UnfinishedBlob: BlobUser, @unchecked Sendable {
    typealias Opened = (file: any OpenFile, place: OpenBlobs.Place?)

    let path: String
    /// Nil once it gave way, or a writer has taken it.
    private let opened: Mutex<Opened?>
    let hasher: SHA1Hasher
    /// Number of bytes in the file, and in the hasher.
    let count: UInt64
    /// The space that it takes.
    let incoming: StoreUsage.Incoming
    /// The note of the writer.
    let note: (any Sendable)?

    init(path: String, _ opened: Opened, hasher: SHA1Hasher, count: UInt64, _ incoming: StoreUsage.Incoming, note: (any Sendable)?) {
        (self.path, self.hasher, self.count, self.incoming, self.note) = (path, hasher, count, incoming, note)
        self.opened = Mutex(opened)
        opened.place?.belongs(to: self)
    }

    func yieldResources() { opened.withLock { $0 = nil } }

    /// The file, to continue it; nil if others needed its descriptor.
    func take() -> Opened? {
        opened.withLock { $0.take() }
    }
}

/// Parts of blobs left by broken connections, until the sender comes back and sends the rest, or something else needs the room. Lost on a restart.
struct UnfinishedBlobs: Sendable {
    enum Limits {
        /// `unfinished_blobs` per database; beyond that, the oldest one is dropped and has to start over.
        static let count = 16
        /// `unfinished_blob_bytes`: smaller parts are not kept, since they are quickly sent again.
        static let leastBytes: UInt64 = 64 << 10
        /// `unfinished_blob_time`: seconds after which the sender is not expected to come back.
        static let seconds: Int64 = 24 * 3_600
    }

    private struct Entry: Sendable {
        var digest: BlobDigest
        var owner: String
        var since: Int64
        var part: UnfinishedBlob
    }

    private var entries: [Entry] = []

    /// - Returns: files that are no longer needed.
    mutating func add(_ part: UnfinishedBlob, _ digest: BlobDigest, of owner: String, now: Int64, maxBytes: UInt64) -> [String] {
        var gone = expire(now: now)
        gone += remove { $0.digest == digest && $0.owner.utf8.elementsEqual(owner.utf8) }
        entries.append(Entry(digest: digest, owner: owner, since: now, part: part))
        while let oldest = entries.first, entries.count > Limits.count || entries.reduce(0, { $0 + $1.part.count }) > maxBytes {
            entries.removeFirst()
            gone.append(oldest.part.path)
        }
        return gone
    }

    /// Only for the same owner: a peer that sends the end of a blob has not shown that it has the beginning.
    mutating func take(_ digest: BlobDigest, of owner: String) -> UnfinishedBlob? {
        guard let place = entries.firstIndex(where: { $0.digest == digest && $0.owner.utf8.elementsEqual(owner.utf8) }) else { return nil }
        return entries.remove(at: place).part
    }

    var bytes: UInt64 { entries.reduce(0) { $0 + $1.part.count } }

    /// - Returns: its file; nil if there is none.
    mutating func removeOldest() -> String? { entries.isEmpty ? nil : entries.removeFirst().part.path }

    mutating func expire(now: Int64) -> [String] { remove { now - $0.since >= Limits.seconds } }

    private mutating func remove(_ isMeant: (Entry) -> Bool) -> [String] {
        let gone = entries.filter(isMeant).map(\.part.path)
        entries.removeAll(where: isMeant)
        return gone
    }
}

extension BlobStore {
    /// Keeps the received part of a blob for its owner; the writer is unusable afterwards. Blocks: call it inside ``perform(_:)``.
    public func keepUnfinished(_ writer: BlobWriter, _ digest: BlobDigest, of owner: String) {
        guard let part = writer.handOver(leastBytes: UnfinishedBlobs.Limits.leastBytes) else { return }
        let now = environment.time.wallSeconds()
        remove(unfinished.withLock { $0.add(part, digest, of: owner, now: now, maxBytes: maxBytes) })
    }

    /// A writer that continues after what its owner has sent of the blob; nil if there is no such part. Blocks.
    ///
    /// - Parameter length: size of the whole blob, if known.
    /// - Throws: `StoreError.diskFull` as ``writer(_:)`` does.
    public func resumedWriter(_ digest: BlobDigest, of owner: String, length: UInt64? = nil) throws(StoreError) -> BlobWriter? {
        guard let part = unfinished.withLock({ $0.take(digest, of: owner) }) else { return nil }
        let left = Int(clamping: min(length ?? 0, maxBytes)) - Int(clamping: part.count)
        do throws(StoreError) { try checkRoom(.peers, max(0, left)) } catch {
            // It is kept until there is disk space.
            remove(unfinished.withLock { $0.add(part, digest, of: owner, now: now, maxBytes: maxBytes) })
            throw error
        }
        guard let opened = part.take() else {
            remove([part.path])
            return nil
        }
        return BlobWriter(store: self, resuming: part, opened)
    }

    /// Why a write is refused; nil if it is not. The parts that nobody is sending give way to it, the oldest first, if it fits then.
    func refusal(of write: StoreWrite, bytes: Int) -> String? {
        guard let reason = refusal(write, bytes) else { return nil }
        // Otherwise a write that can never fit would cost everybody what they have sent.
        let parts = Int(clamping: unfinished.withLock { $0.bytes })
        guard parts > 0, refusal(write, max(0, bytes - parts)) == nil else { return reason }
        while let reason = refusal(write, bytes) {
            guard let path = unfinished.withLock({ $0.removeOldest() }) else { return reason }
            remove([path])
        }
        return nil
    }

    /// Drops those whose sender has not come back.
    func expireUnfinished() {
        let now = environment.time.wallSeconds()
        remove(unfinished.withLock { $0.expire(now: now) })
    }

    private func remove(_ paths: [String]) { for path in paths { try? files.remove(path) } }
}
