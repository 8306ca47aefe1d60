/// Bugs that the simulation injects in debug builds, to show that it would find them. Release builds contain none of this.
package enum PlantedFault: String, CaseIterable, Sendable {
    /// A write is answered before its transaction is durable.
    case acknowledgedBeforeCommit
    /// A peer's revision is acknowledged when it is passed to the store.
    case settledBeforeStored
    /// The checkpoint claims one sequence more than is complete.
    case checkpointTooFar
    /// Now and then the push misses a change.
    case lostWakeUp
    /// Documents received from a peer are offered back to it.
    case echo
    /// A document held by a failing filter is not put on the list, and counts as done.
    case forgottenHeldDocument
    /// A revision is stored without waiting for its blobs.
    case missingBlobs
    /// A blob gets its name before its bytes are durable.
    case blobBeforeItsBytes
    /// A blob's reply is collected completely, and everything received so far is copied with each frame: only the cost differs, not the outcome.
    case copiedReply
    /// A document that changed while it was being pushed is not read again.
    case forgottenSuccessor
    /// A document is removed although a revision of it waits to be stored; and the peer does not wait for that either, just as Sync Gateway does not.
    case overtakingPurge
    /// A listener whose filter fails moves past the document.
    case passedFailingFilter
    /// A conflict reported by the peer is left to a pull that never brings the other revision.
    case hopedForPull
    /// A write whose transaction cannot begin is never answered.
    case unansweredWrite
    /// An acknowledgement is recorded for the previous revision, as if acknowledgements were recorded out of order.
    case staleMark
    /// The parent that the peer names when it reports a conflict is not used for the next offer.
    case forgottenParent
    /// A document is offered again while its revision waits for the acknowledgement, whose record is dropped.
    case twoUnderWay
    /// An acknowledged document is counted as completed twice.
    case countedTwice
    /// A session with a push in progress reports itself idle.
    case idleWhileOwed
    /// A connection that ends keeps its part of the memory budget.
    case keptShare
}

#if DEBUG
extension Environment {
    package mutating func plant(_ fault: PlantedFault?) { planted = fault }
    package func hasPlanted(_ fault: PlantedFault) -> Bool { planted == fault }
}
#else
extension Environment {
    package mutating func plant(_ fault: PlantedFault?) {}
    @inline(__always) package func hasPlanted(_ fault: PlantedFault) -> Bool { false }
}
#endif
