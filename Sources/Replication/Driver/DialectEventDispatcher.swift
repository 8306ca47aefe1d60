import Documents
import DocumentStore
import Interfaces

/// Dispatches what the peer said to the machine concerned.
struct DialectEventDispatcher {
    let driver: SessionDriver

    /// What the peer said.
    func handle(_ event: consuming DialectEvent) {
        switch consume event {
        case .push(let slot, let event):
            driver.owed.answered()
            guard slot < driver.links.count else { return }
            if driver.links[slot].push != nil { driver.tell(driver.links[slot], push: event) }
        case .revisionAnswered(let trip, let error, let taking):
            driver.owed.answered()
            let fault = driver.blobs.files.inFlight.fault(trip)
            driver.blobs.files.inFlight.remove(trip)
            // An answer to a revision sent under an earlier subscription does not concern this one.
            guard trip.slot < driver.links.count, driver.links[trip.slot].push != nil, driver.links[trip.slot].generation == trip.generation else { return }
            if driver.deltas.resendWholeIfRefused(trip.id, error, driver.links[trip.slot]) { return }
            // Without the blob the peer can only refuse, so the refusal is not its fault.
            let refusal = error.map { $0.isConflict || $0.isForbidden ? $0 : fault ?? $0 }
            let answer = refusal.map { PushEvent.refused(trip.id, $0) } ?? .acknowledged(trip.id, taking)
            driver.tell(driver.links[trip.slot], push: answer)
        case .pull(let slot, let event): handle(event, slot)
        case .checkpoint(let slot, let event):
            driver.owed.answered()
            if slot < driver.links.count { driver.tell(driver.links[slot], checkpoint: event) }
        case .blob(.wanted(let request)) where request.slot >= driver.links.count: refuseCollection(request.handle)
        case .blob(let event):
            driver.owed.answered()
            driver.tell(blobs: event)
        case .passive(let slot, let handle, let request):
            guard slot < driver.links.count else { return refuseCollection(handle) }
            driver.service.handle(request, slot, handle)
        case .collectionsWanted(let handle, let wanted): driver.service.openCollections(wanted, handle)
        case .defaultCollectionWanted: driver.service.openDefaultCollection()
        case .wantsMore(let handle): driver.serving.supply(handle)
        case .failed(let error, let wantsLegacy):
            guard wantsLegacy else { return driver.fail(error) }
            driver.finish(.wantsLegacy, error: error, closeCode: CloseCode.normal, reason: "")
        case .cannotSelectDocuments(let error): driver.finish(.selectsLocally, error: error, closeCode: CloseCode.normal, reason: "")
        case .filters(let slot):
            guard slot < driver.links.count else { return }
            driver.observer.filters?(driver.links[slot].collection.name)
        case .refuse(let handle, let error): driver.dialect.refuse(handle, error)
        case .parseElsewhere(let body, let read): driver.accounts.parseElsewhere(body, read)
        case .warn(let message): driver.logger.notice("\(message)", metadata: ["peer": "\(driver.transport.peerDescription)"])
        }
    }

    private func handle(_ event: PullEvent, _ slot: Int) {
        guard slot < driver.links.count else {
            switch event {
            case .listArrived(let list): refuseCollection(list.handle)
            case .arrived(let revision): refuseCollection(revision.replyTo)
            default: break
            }
            return
        }
        let link = driver.links[slot]
        note(event, link)
        switch event {
        case .listArrived(let list) where !driver.isPassive && !link.pull.isSubscribed:
            driver.dialect.refuse(list.handle, .forbidden("nothing was subscribed to here"))
        case .arrived(let revision):
            if let refusal = refusal(of: revision, link) {
                driver.dialect.refuse(revision.replyTo, refusal)
                let error = ReplicationError(refusal)
                driver.tell(link, pull: .arrivalRefused(revision.sequence, revision.id, error, isFinal: !error.isBusy))
            } else if revision.deltaSource != nil {
                driver.deltas.takeDelta(revision, link)
            } else {
                driver.tell(link, pull: event)
            }
        default: driver.tell(link, pull: event)
        }
    }

    /// Unsolicited lists do not count as paying a debt.
    private func note(_ event: PullEvent, _ link: CollectionLink) {
        switch event {
        case .arrived, .arrivalRefused, .withdrawn, .outOfSpace: driver.owed.pulled()
        case .listArrived: if !link.pull.isCaughtUp { driver.owed.pulled() }
        default: break
        }
    }

    private func refusal(of revision: ReceivedRevision, _ link: CollectionLink) -> MessageError? {
        if let why = driver.pushRefusalReason { return .forbidden(why) }
        if !driver.isPassive, !link.pull.isSubscribed { return .forbidden("nothing was subscribed to here") }
        guard driver.accounts.isOverfull else { return nil }
        return .notNow(
            "more revisions wait to be stored than max_buffered_rev_bytes (\(driver.limits.maximumBufferedRevisionBytes)) allows")
    }

    private func refuseCollection(_ handle: AnswerHandle?) {
        driver.dialect.refuse(handle, .forbidden("the default collection is not open to this peer"))
    }
}
