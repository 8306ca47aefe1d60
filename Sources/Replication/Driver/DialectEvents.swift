import Documents
import DocumentStore
import Interfaces

/// Dispatches what the peer said to the machine concerned.
struct DialectEvents {
    let session: SessionDriver

    /// What the peer said.
    func handle(_ event: consuming DialectEvent) {
        switch consume event {
        case .push(let slot, let event):
            session.owed.answered()
            guard slot < session.links.count else { return }
            if session.links[slot].push != nil { session.tell(session.links[slot], push: event) }
        case .revisionAnswered(let trip, let error, let taking):
            session.owed.answered()
            let fault = session.blobs.files.inFlight.fault(trip)
            session.blobs.files.inFlight.remove(trip)
            // An answer to a revision sent under an earlier subscription does not concern this one.
            guard trip.slot < session.links.count, session.links[trip.slot].push != nil, session.links[trip.slot].generation == trip.generation else { return }
            if session.deltas.resendWholeIfRefused(trip.id, error, session.links[trip.slot]) { return }
            // Without the blob the peer can only refuse, so the refusal is not its fault.
            let refusal = error.map { $0.isConflict || $0.isForbidden ? $0 : fault ?? $0 }
            let answer = refusal.map { PushEvent.refused(trip.id, $0) } ?? .acknowledged(trip.id, taking)
            session.tell(session.links[trip.slot], push: answer)
        case .pull(let slot, let event): handle(event, slot)
        case .checkpoint(let slot, let event):
            session.owed.answered()
            if slot < session.links.count { session.tell(session.links[slot], checkpoint: event) }
        case .blob(.wanted(let request)) where request.slot >= session.links.count: refuseCollection(request.handle)
        case .blob(let event):
            session.owed.answered()
            session.tell(blobs: event)
        case .passive(let slot, let handle, let request):
            guard slot < session.links.count else { return refuseCollection(handle) }
            session.service.handle(request, slot, handle)
        case .collectionsWanted(let handle, let wanted): session.service.openCollections(wanted, handle)
        case .defaultCollectionWanted: session.service.openDefaultCollection()
        case .wantsMore(let handle): session.serving.supply(handle)
        case .failed(let error, let wantsLegacy):
            guard wantsLegacy else { return session.fail(error) }
            session.finish(.wantsLegacy, error: error, closeCode: CloseCode.normal, reason: "")
        case .cannotSelectDocuments(let error): session.finish(.selectsLocally, error: error, closeCode: CloseCode.normal, reason: "")
        case .filters(let slot):
            guard slot < session.links.count else { return }
            session.observer.filters?(session.links[slot].collection.name)
        case .refuse(let handle, let error): session.dialect.refuse(handle, error)
        case .parseElsewhere(let body, let read): session.accounts.parseElsewhere(body, read)
        case .warn(let message): session.logger.notice("\(message)", metadata: ["peer": "\(session.transport.peerDescription)"])
        }
    }

    private func handle(_ event: PullEvent, _ slot: Int) {
        guard slot < session.links.count else {
            switch event {
            case .listArrived(let list): refuseCollection(list.handle)
            case .arrived(let revision): refuseCollection(revision.replyTo)
            default: break
            }
            return
        }
        let link = session.links[slot]
        note(event, link)
        switch event {
        case .listArrived(let list) where !session.isPassive && !link.pull.isSubscribed:
            session.dialect.refuse(list.handle, .forbidden("nothing was subscribed to here"))
        case .arrived(let revision):
            if let refusal = refusal(of: revision, link) {
                session.dialect.refuse(revision.replyTo, refusal)
                let error = ReplicationError(refusal)
                session.tell(link, pull: .arrivalRefused(revision.sequence, revision.id, error, isFinal: !error.isBusy))
            } else if revision.deltaSource != nil {
                session.deltas.takeDelta(revision, link)
            } else {
                session.tell(link, pull: event)
            }
        default: session.tell(link, pull: event)
        }
    }

    /// Unsolicited lists do not count as paying a debt.
    private func note(_ event: PullEvent, _ link: CollectionLink) {
        switch event {
        case .arrived, .arrivalRefused, .withdrawn, .outOfSpace: session.owed.pulled()
        case .listArrived: if !link.pull.isCaughtUp { session.owed.pulled() }
        default: break
        }
    }

    private func refusal(of revision: ReceivedRevision, _ link: CollectionLink) -> MessageError? {
        if let why = session.pushRefusalReason { return .forbidden(why) }
        if !session.isPassive, !link.pull.isSubscribed { return .forbidden("nothing was subscribed to here") }
        guard session.accounts.isOverfull else { return nil }
        return .notNow(
            "more revisions wait to be stored than max_buffered_rev_bytes (\(session.limits.maximumBufferedRevisionBytes)) allows")
    }

    private func refuseCollection(_ handle: AnswerHandle?) {
        session.dialect.refuse(handle, .forbidden("the default collection is not open to this peer"))
    }
}
