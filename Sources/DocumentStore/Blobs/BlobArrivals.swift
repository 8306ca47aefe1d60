import Documents
import Synchronization

/// The blobs that arrived with one request of a peer, or with its revisions on their way. They are removed at its end unless something stored names
/// them (`Database.settle`).
package final class ArrivedBlobs: Sendable {
    private struct State {
        var digests: Set<BlobDigest> = []
        var isClosed = false
    }

    private let state: Mutex<State>

    package init() { state = Mutex(State()) }

    private init(_ digests: Set<BlobDigest>) { state = Mutex(State(digests: digests)) }

    fileprivate func insert(_ digest: BlobDigest) -> Bool {
        state.withLock { $0.isClosed ? false : $0.digests.insert(digest).inserted }
    }

    /// Returns whether it was there.
    fileprivate func remove(_ digest: BlobDigest) -> Bool { state.withLock { $0.digests.remove(digest) != nil } }

    var all: [BlobDigest] {
        state.withLock { $0.digests }.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
    }

    /// Takes some of them out, to be settled separately; nil if none of them is here.
    package func take(_ digests: [BlobDigest]) -> ArrivedBlobs? {
        let taken = state.withLock { state in
            let taken = state.digests.intersection(digests)
            state.digests.subtract(taken)
            return taken
        }
        return taken.isEmpty ? nil : ArrivedBlobs(taken)
    }

    /// Blobs that arrive afterwards are not recorded here, since nothing would settle them.
    package func close() { state.withLock { $0.isClosed = true } }
}

/// Blobs that did not exist before requests in progress brought them. All others have their grace period.
final class BlobArrivals: Sendable {
    private struct Arrival {
        /// Number of requests in progress that brought it.
        var requests = 0
        /// Somebody else brought it too, or was told that it is here and is about to refer to it.
        var isKept = false
    }

    private let state = Mutex<[BlobDigest: Arrival]>([:])

    /// The blob is about to get its file.
    ///
    /// - Parameters:
    ///   - arrived: the blobs of the request that brings it; nil if the sender has the grace period to refer to it.
    ///   - wasHere: whether it already has a file.
    func comes(_ digest: BlobDigest, _ arrived: ArrivedBlobs?, wasHere: Bool) {
        state.withLock { arrivals in
            guard let arrived else {
                arrivals[digest]?.isKept = true
                return
            }
            guard arrivals[digest] != nil || !wasHere, arrived.insert(digest) else { return }
            arrivals[digest, default: Arrival()].requests += 1
        }
    }

    /// Somebody is about to refer to the blob.
    ///
    /// - Parameter arrived: the blobs of the request that asks; the blob then also belongs to that request. Nil if the asker has the grace period to
    ///   refer to it.
    func use(_ digest: BlobDigest, _ arrived: ArrivedBlobs?) {
        state.withLock { arrivals in
            guard arrivals[digest] != nil else { return }
            guard let arrived else {
                arrivals[digest]?.isKept = true
                return
            }
            if arrived.insert(digest) { arrivals[digest]?.requests += 1 }
        }
    }

    /// A request that brought the blob has ended.
    ///
    /// - Parameter remove: called to remove the file if nobody else uses it. While it runs, the blob is not reported as present to anyone.
    func end(_ digest: BlobDigest, _ arrived: ArrivedBlobs, remove: () -> Void) {
        state.withLock { arrivals in
            guard arrived.remove(digest), var arrival = arrivals[digest] else { return }
            arrival.requests -= 1
            guard arrival.requests <= 0 else {
                arrivals[digest] = arrival
                return
            }
            arrivals[digest] = nil
            if !arrival.isKept { remove() }
        }
    }
}

extension BlobStore {
    /// The sender may come back with documents that name these blobs: they have their grace period.
    package func leave(_ arrived: ArrivedBlobs) {
        for digest in arrived.all {
            arrivals.use(digest, nil)
            arrivals.end(digest, arrived) {}
        }
    }
}

extension Database {
    /// A request that brought blobs has ended: those that nothing stored names are removed, unless others use them.
    package func settle(_ arrived: ArrivedBlobs) async {
        let blobs = blobs
        let digests = arrived.all
        for start in stride(from: 0, to: digests.count, by: 200) {
            let some = digests[start..<min(start + 200, digests.count)]
            // Most are named, and that is found without waiting for the writer.
            let found: [BlobDigest]? = try? await read { transaction in try some.filter { try !transaction.isBlobReferenced($0) } }
            guard let strays = found, !strays.isEmpty else { continue }
            // On the writer, so that no revision can begin to refer to a blob in between.
            _ = try? await write { transaction -> Void in
                for digest in strays {
                    let isNamed = try transaction.isBlobReferenced(digest)
                    if !isNamed { blobs.removeArrived(digest, arrived) }
                }
            }
        }
        // The rest is named, or could not be examined and has its grace period.
        for digest in arrived.all { blobs.arrivals.end(digest, arrived) {} }
    }
}
