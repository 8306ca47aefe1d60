import Documents

// Documents that appear or disappear because a peer's access began or ended.
extension ReadTransaction {
    /// Documents that appear or disappear because access began or ended at this sequence: those that appear at their own sequences, those that
    /// disappear at the sequence at which they first entered a revoked channel.
    final func readEvent(
        _ event: SequenceNumber, _ collection: Collection, _ access: AccessEvents, _ question: ChannelQuestion,
        _ bounds: inout PageBounds, _ page: inout ChannelPage
    ) throws(StoreError) {
        let after = page.place.inEvent ?? 0
        let ended = event <= question.activeOnlyThrough ? [] : access.revoked(at: event)
        // If access to all documents ends, documents in no channel have only their own sequences.
        let looked = access.granted(at: event).union(ended.contains("*") ? ["*"] : [])
        var changes: [ChangeRow] = []
        if !looked.isEmpty {
            let members = try members(of: looked, collection)
            changes = try self.changes(collection, since: after, limit: 200, includeBodies: false, ids: members)
            bounds.scanned += members?.count ?? changes.count
        }
        let lost = try leaving(ended, collection, event, after: after)
        bounds.scanned += 1 + lost.found.count
        let reached = min(changes.last?.sequence ?? event, lost.through)
        var steps: [(at: SequenceNumber, id: DocumentID, change: ChangeRow?)] = []
        for change in changes where change.sequence < event && change.sequence <= reached { steps.append((change.sequence, change.id, change)) }
        for (at, id) in lost.found where at <= reached { steps.append((at, id, nil)) }
        // A document in both groups is reported once: `visibility` leaves documents that were in a channel to the other group.
        steps.sort { $0.at < $1.at }
        for step in steps {
            if !bounds.hasRoom(page.rows.count) { return }
            page.place.inEvent = step.at
            guard question.wants(step.id) else { continue }
            if let change = step.change {
                guard let visibility = try visibility(of: change, collection, access, event),
                    event > question.activeOnlyThrough || visibility == .visible && !change.isDeleted
                else { continue }
                page.rows.append(
                    ChannelPage.Row(
                        change: try complete(change, collection, visibility, &bounds), sequence: step.at, visibility: visibility, event: event,
                        isFirsthand: visibility == .visible))
            } else {
                guard access.loses(try channels(of: step.id, collection), because: event) == step.at,
                    let change = try self.changes(collection, since: 0, limit: 1, includeBodies: false, ids: [step.id]).first
                else { continue }
                page.rows.append(
                    ChannelPage.Row(
                        change: try complete(change, collection, .revoked, &bounds), sequence: step.at, visibility: .revoked, event: event,
                        isFirsthand: false))
            }
        }
        page.place.inEvent = reached < event ? reached : nil
    }

    /// What the peer is told of a document, unchanged since the event, at its own sequence.
    private func visibility(
        of change: ChangeRow, _ collection: Collection, _ access: AccessEvents, _ event: SequenceNumber
    ) throws(StoreError) -> ChannelVisibility? {
        guard try routedRevision(collection, change.id) == change.revision else {
            // A document without an assignment is reported once it has one.
            return access.grantsEverything(at: event) ? .visible : nil
        }
        let rows = try channels(of: change.id, collection)
        if access.comes(rows, because: event) { return .visible }
        return rows.isEmpty && access.revoked(at: event).contains("*") && !access.isVisible(rows) ? .revoked : nil
    }

    /// One page of those that leave a single channel, at the cost of that page's rows.
    static var leavingOne: String {
        """
        SELECT entered, id FROM channels INDEXED BY channels_entered WHERE collection = ?1 AND channel = ?2 \
        AND entered > ?3 AND entered < ?4 AND (left IS NULL OR left >= ?4) ORDER BY entered LIMIT ?5
        """
    }

    /// The documents that were in one of the channels before the event and had not left it, ordered by when they first entered it.
    /// - Returns: also, up to which sequence they are complete.
    private func leaving(
        _ channels: Set<ExactName>, _ collection: Collection, _ event: SequenceNumber, after: SequenceNumber
    ) throws(StoreError) -> (found: [(SequenceNumber, DocumentID)], through: SequenceNumber) {
        var found: [(SequenceNumber, DocumentID)] = []
        var through = event
        let names: Set<ExactName> = channels.contains("*") ? ["*"] : channels
        for channel in names {
            let statement = try active().cached(
                channel == "*"
                    ? """
                    SELECT MIN(entered) AS came, id FROM channels WHERE collection = ?1 AND ?2 <> '' \
                    GROUP BY id HAVING came > ?3 AND came < ?4 ORDER BY came LIMIT ?5
                    """
                    : Self.leavingOne)
            statement.bind(1, Int64(collection.id))
            statement.bind(2, channel.text)
            statement.bind(3, Int64(clamping: after))
            statement.bind(4, Int64(clamping: event))
            statement.bind(5, Int64(StoreLimits.departuresPerRead))
            defer { statement.reset() }
            var count = 0
            while try session.step(statement) {
                count += 1
                found.append((SequenceNumber(clamping: statement.integer(0)), DocumentID(stored: statement.text(1))))
            }
            if count == StoreLimits.departuresPerRead, let last = found.last { through = min(through, last.0) }
        }
        return (found, through)
    }

    /// The documents that are or were in one of the channels; nil if these are too many to look up, or any document may be concerned.
    private func members(of channels: Set<ExactName>, _ collection: Collection) throws(StoreError) -> [DocumentID]? {
        if channels.contains("*") { return nil }
        var found: [DocumentID] = []
        for channel in channels {
            let statement = try active().cached(
                "SELECT id FROM channels INDEXED BY channels_entered WHERE collection = ?1 AND channel = ?2 LIMIT ?3")
            statement.bind(1, Int64(collection.id))
            statement.bind(2, channel.text)
            statement.bind(3, Int64(StoreLimits.membersPerEvent + 1))
            defer { statement.reset() }
            while try session.step(statement) { found.append(DocumentID(stored: statement.text(0))) }
            if found.count > StoreLimits.membersPerEvent { return nil }
        }
        return found
    }
}
