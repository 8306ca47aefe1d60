/// Bugs that the simulation plants in a debug build, to show that it would find them. A release build has none of this.
package enum PlantedFault: String, CaseIterable, Sendable {
    /// A write is answered before its transaction is durable.
    case acknowledgedBeforeCommit
    /// A peer's revision is acknowledged when it goes to the store.
    case settledBeforeStored
    /// The checkpoint claims one sequence more than is done.
    case checkpointTooFar
    /// Now and then the push does not hear of a change.
    case lostWakeUp
    /// What a peer gave us is offered back to it.
    case echo
    /// What a failing filter holds is not put on the list, and passes for done.
    case forgottenHeldDocument
    /// A revision is stored without waiting for its blobs.
    case missingBlobs
    /// A blob gets its name before its bytes are durable.
    case blobBeforeItsBytes
    /// A blob's reply is gathered to its end, and what is there of it is copied with each frame: a cost, and no other outcome.
    case copiedReply
    /// What changed on its way is not read again.
    case forgottenSuccessor
    /// A document is taken away although a revision of it waits to be stored; and the peer does not wait for that either, as
    /// Sync Gateway does not.
    case overtakingPurge
    /// A listener whose filter fails goes on behind the document.
    case passedFailingFilter
    /// A conflict that the peer reports is left to a pull that never brings it.
    case hopedForPull
    /// A write whose transaction cannot begin is never answered.
    case unansweredWrite
    /// What the peer acknowledged is noted for the revision before, as when acknowledgements are noted in another order than they came.
    case staleMark
    /// The parent that the peer names where it reports a conflict is not taken for the next offer.
    case forgottenParent
    /// A document is offered again while its revision waits for the acknowledgement, and the mark of that is dropped.
    case twoUnderWay
    /// A document that the peer acknowledged is counted as completed twice.
    case countedTwice
    /// A session whose push is under way says that it is idle.
    case idleWhileOwed
    /// A connection that ends keeps its part of the memory budget.
    case keptShare
}

#if DEBUG
extension Environment {
    package mutating func plant(_ fault: PlantedFault?) { planted = fault }
    package func has(_ fault: PlantedFault) -> Bool { planted == fault }
}
#else
extension Environment {
    package mutating func plant(_ fault: PlantedFault?) {}
    @inline(__always) package func has(_ fault: PlantedFault) -> Bool { false }
}
#endif
