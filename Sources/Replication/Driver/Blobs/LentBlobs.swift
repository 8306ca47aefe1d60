import Documents
import Interfaces

/// The blobs of revisions that are on their way to the peer: sent, and not answered. It may ask for these, whoever it is; that
/// is when every peer asks, since it answers a revision only when it has the blobs, and Sync Gateway gives no others.
///
/// What the peer may have was decided when the revision was sent, and its bytes are on their way too. It holds no more than the
/// revisions in flight do, whose number and bytes are bounded.
struct LentBlobs {
    private var byTrip: [RevisionTrip: [BlobDigest]] = [:]
    private var trips: [BlobDigest: Int] = [:]
    /// What is wrong here with those that the peer asked for and did not get.
    private var faults: [BlobDigest: ReplicationError] = [:]

    mutating func lend(_ blobs: [BlobDigest], _ trip: RevisionTrip) {
        takeBack(trip)
        if blobs.isEmpty { return }
        byTrip[trip] = blobs
        for digest in blobs { trips[digest, default: 0] += 1 }
    }

    /// The peer has answered.
    mutating func takeBack(_ trip: RevisionTrip) {
        guard !byTrip.isEmpty, let blobs = byTrip.removeValue(forKey: trip) else { return }
        for digest in blobs {
            guard let count = trips[digest] else { continue }
            trips[digest] = count > 1 ? count - 1 : nil
            if count == 1, !faults.isEmpty { faults[digest] = nil }
        }
    }

    /// A push is over: what the peer still wants of it, it asks for by the document.
    mutating func takeBack(slot: Int) {
        for trip in byTrip.keys where trip.slot == slot { takeBack(trip) }
    }

    func contains(_ digest: BlobDigest) -> Bool { trips[digest] != nil }

    mutating func note(_ digest: BlobDigest, _ fault: ReplicationError) { if contains(digest) { faults[digest] = fault } }

    /// It is right now.
    mutating func given(_ digest: BlobDigest) { if !faults.isEmpty { faults[digest] = nil } }

    /// Why the peer could not have all blobs of a revision, where that is known to be our fault.
    func fault(_ trip: RevisionTrip) -> ReplicationError? {
        faults.isEmpty ? nil : byTrip[trip]?.lazy.compactMap { faults[$0] }.first
    }
}
