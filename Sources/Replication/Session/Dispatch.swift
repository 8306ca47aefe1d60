import BLIP
import Documents
import DocumentStore

extension ReplicationSession {
    /// Hands a peer's request to its handler: one row for each message of the protocol.
    func dispatch(_ request: IncomingRequest) {
        do {
            switch request.profile {
            case Profile.getCollections: try handleGetCollections(request)
            case Profile.getCheckpoint: try handleGetCheckpoint(request)
            case Profile.setCheckpoint: try handleSetCheckpoint(request)
            case Profile.subChanges: try handleSubChanges(request)
            case Profile.unsubChanges: try handleUnsubChanges(request)
            case Profile.changes: try handleChanges(request)
            case Profile.proposeChanges: try handleProposeChanges(request)
            case Profile.rev: try handleRev(request)
            case Profile.norev: try handleNoRev(request)
            case Profile.getAttachment: try handleGetAttachment(request)
            case Profile.proveAttachment: try handleProveAttachment(request)
            default:
                if !request.isNoReply {
                    reply(to: request.number, OutgoingReply(error: .noHandler))
                }
            }
        } catch {
            logger.notice(
                "refused \(request.profile): \(error.message)", metadata: ["peer": "\(transport.peerDescription)"])
            if !request.isNoReply { refuse(request.number, error.code, error.message, domain: error.domain) }
        }
    }

    /// The collection that a message is about. The first message of a connection decides whether messages name one.
    func sync(for request: IncomingRequest) throws(MessageError) -> CollectionSync {
        let named = request.properties[Property.collection]
        if mode == .unknown {
            guard isPassive else { throw .bad("\(request.profile) came before the session was set up") }
            guard named == nil else {
                throw .bad("the property collection needs getCollections as the first message")
            }
            try beginLegacy()
        }
        switch (mode, named) {
        case (.legacy, nil):
            guard let first = collections.first else { throw .bad("this connection has no collection") }
            return first
        case (.collections, let text?):
            guard let index = Int(text), let found = collections.first(where: { $0.wireIndex == index }) else {
                throw .bad("collection \(text.prefix(20)) was not named in getCollections")
            }
            return found
        default:
            throw .bad("inappropriate use of the collection property.")
        }
    }

    /// A peer that begins without `getCollections` means the default collection.
    private func beginLegacy() throws(MessageError) {
        mode = .legacy
        guard let collection = database.collection(.default), mayUse(.default) else {
            throw MessageError(code: 403, message: "the default collection is not open to this peer")
        }
        collections = [makePassiveSync(0, collection, wireIndex: nil)]
    }

    func makePassiveSync(_ slot: Int, _ collection: Collection, wireIndex: Int?) -> CollectionSync {
        let sync = CollectionSync(slot: slot, collection: collection, wireIndex: wireIndex, limits: limits)
        if case .passive(let passive) = role {
            sync.pushFilter = passive.pushFilter
            sync.pullFilter = passive.pullFilter
            if let resolver = passive.resolver {
                sync.resolver = ConflictDecider(
                    database: database, collection: collection, resolver: resolver, shadow: passive.shadow,
                    context: policyContext(sync, .pull), scope: .remote(.pusher), attempts: limits.resolveAttempts,
                    observer: passive.conflictObserver)
            }
        }
        return sync
    }

    /// The peer's principal may be narrowed to some collections.
    func mayUse(_ name: CollectionName) -> Bool {
        guard case .passive(let passive) = role, let allowed = passive.principal.collections else { return true }
        return allowed.contains { $0.utf8.elementsEqual(name.description.utf8) || $0.utf8.elementsEqual(name.wireName.utf8) }
    }

    /// The peer may not push: the listener or its principal is read-only.
    var refusesPush: Bool {
        guard case .passive(let passive) = role else { return false }
        return passive.isReadOnly || passive.principal.isReadOnly
    }

    func handleReply(_ waiting: PendingReply, _ reply: IncomingReply) {
        switch waiting {
        case .continuation(let continuation): continuation.resume(returning: reply)
        case .proposals(let sync, let feed, let rows): handleProposalReply(sync, feed, rows, reply)
        case .changes(let sync, let feed, let rows): handleChangesReply(sync, feed, rows, reply)
        case .revision(let sync, let feed, let row): handleRevReply(sync, feed, row, reply)
        case .ignored: break
        }
    }
}
