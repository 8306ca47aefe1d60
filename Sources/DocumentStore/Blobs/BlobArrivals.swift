import Documents
import Synchronization

/// The blobs that one request of a peer, or its revisions on their way, have brought. They go with it if nothing stored names them at its end
/// (`Database.settle`).
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

    /// Whether it was there.
    fileprivate func remove(_ digest: BlobDigest) -> Bool { state.withLock { $0.digests.remove(digest) != nil } }

    var all: [BlobDigest] {
        state.withLock { $0.digests }.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
    }

    /// Takes some of them out, to be settled by themselves; nil where none is here.
    package func take(_ digests: [BlobDigest]) -> ArrivedBlobs? {
        let taken = state.withLock { state in
            let taken = state.digests.intersection(digests)
            state.digests.subtract(taken)
            return taken
        }
        return taken.isEmpty ? nil : ArrivedBlobs(taken)
    }

    /// What still comes is not counted here: nobody would settle it.
    package func close() { state.withLock { $0.isClosed = true } }
}

/// Blobs that nobody had before requests under way brought them. All others have their grace time.
final class BlobArrivals: Sendable {
    private struct Arrival {
        /// Requests under way that brought it.
        var requests = 0
        /// Somebody else brought it too, or was told that it is here and is about to refer to it.
        var isKept = false
    }

    private let state = Mutex<[BlobDigest: Arrival]>([:])

    /// The blob is about to get its file.
    ///
    /// - Parameters:
    ///   - arrived: of the request that brings it; nil: whoever brings it has the grace time to refer to it.
    ///   - wasHere: whether it has a file already.
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

    /// Somebody is about to refer to it.
    ///
    /// - Parameter arrived: of the request that asks, with whose end it goes as with that of the one that brought it; nil: whoever asks has the
    ///   grace time to refer to it.
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

    /// A request that brought it is over.
    ///
    /// - Parameter remove: asked to remove the file if nobody else has to do with it; nobody is told meanwhile that it is here.
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
    /// Whoever brought these, or others, may come again with what names them: they have their grace time.
    package func leave(_ arrived: ArrivedBlobs) {
        for digest in arrived.all {
            arrivals.use(digest, nil)
            arrivals.end(digest, arrived) {}
        }
    }
}

extension Database {
    /// A request that brought blobs is over: those that nothing stored names are removed, unless others have to do with them.
    package func settle(_ arrived: ArrivedBlobs) async {
        let blobs = blobs
        let digests = arrived.all
        for start in stride(from: 0, to: digests.count, by: 200) {
            let some = digests[start..<min(start + 200, digests.count)]
            // Most are named, and nobody has to wait for the writer.
            let found: [BlobDigest]? = try? await read { transaction in try some.filter { try !transaction.isBlobReferenced($0) } }
            guard let strays = found, !strays.isEmpty else { continue }
            // On the writer: no revision can begin to refer to a blob in the meantime.
            _ = try? await write { transaction -> Void in
                for digest in strays {
                    let isNamed = try transaction.isBlobReferenced(digest)
                    if !isNamed { blobs.removeArrived(digest, arrived) }
                }
            }
        }
        // What is left is named, or was not to be found out and has its grace time.
        for digest in arrived.all { blobs.arrivals.end(digest, arrived) {} }
    }
}
