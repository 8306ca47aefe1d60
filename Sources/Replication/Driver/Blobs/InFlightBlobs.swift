import Documents
import Interfaces

/// The blobs of revisions in flight to the peer: sent, and not answered. Any peer may request these. That is when every peer requests them, since it
/// answers a revision only once it has the blobs; Sync Gateway serves no others.
///
/// Access was decided when the revision was sent, and the revision's body is in flight as well. The table is bounded by the revisions in flight,
/// whose number and size are bounded.
struct InFlightBlobs {
    private var byInFlightRevision: [InFlightRevision: [BlobDigest]] = [:]
    private var trips: [BlobDigest: Int] = [:]
    /// Errors here for the blobs that the peer requested and did not get.
    private var faults: [BlobDigest: ReplicationError] = [:]

    mutating func add(_ blobs: [BlobDigest], _ trip: InFlightRevision) {
        remove(trip)
        if blobs.isEmpty { return }
        byInFlightRevision[trip] = blobs
        for digest in blobs { trips[digest, default: 0] += 1 }
    }

    /// The peer has answered the revision.
    mutating func remove(_ trip: InFlightRevision) {
        guard !byInFlightRevision.isEmpty, let blobs = byInFlightRevision.removeValue(forKey: trip) else { return }
        for digest in blobs {
            guard let count = trips[digest] else { continue }
            trips[digest] = count > 1 ? count - 1 : nil
            if count == 1, !faults.isEmpty { faults[digest] = nil }
        }
    }

    /// A push has ended: blobs that the peer still wants from it have to be requested for the document.
    mutating func remove(slot: Int) {
        for trip in byInFlightRevision.keys where trip.slot == slot { remove(trip) }
    }

    func contains(_ digest: BlobDigest) -> Bool { trips[digest] != nil }

    mutating func note(_ digest: BlobDigest, _ fault: ReplicationError) { if contains(digest) { faults[digest] = fault } }

    /// The blob is intact again.
    mutating func given(_ digest: BlobDigest) { if !faults.isEmpty { faults[digest] = nil } }

    /// Why the peer could not get all blobs of a revision, if that is known to be our fault.
    func fault(_ trip: InFlightRevision) -> ReplicationError? {
        faults.isEmpty ? nil : byInFlightRevision[trip]?.lazy.compactMap { faults[$0] }.first
    }
}
