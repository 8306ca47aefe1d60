import Documents
import DocumentStore

/// Tracks how far each document of a push has got and who owes the next step; every question is one look-up.
///
/// A document has one entry while it is under way, so two revisions of it never are. All counters are updated where an entry begins, changes its
/// phase or ends.
struct PushLedger {
    /// Where a document is in the push, with exactly the data needed there.
    enum Phase {
        /// The filter is being asked.
        case judging(OutgoingDocument)
        /// The filter kept it back; the store is putting it on the kept-back list.
        case excluding(OutgoingDocument)
        /// It passed the filter and is about to be offered.
        case ready(OutgoingDocument)
        /// It was offered; the peer has not said whether it wants it.
        case offered(OutgoingDocument)
        /// The peer named another revision; the store is asked how ours relates to it.
        case comparing(OutgoingDocument)
        /// The peer wants it; it waits until fewer documents are in flight.
        case wanted(OutgoingDocument)
        /// It was sent and is not acknowledged yet.
        case sent(OutgoingDocument)
        /// It has to be read again: it changed in the meantime, or it is due again.
        case due(Parked)
        /// The store is reading it again.
        case reading(Parked)
        /// The peer could not take it temporarily.
        case deferred(Parked)
        /// The peer holds a revision that the pull has yet to bring.
        case awaitingPull(Parked)

        /// The document itself, if it is loaded.
        var document: OutgoingDocument? {
            switch self {
            case .judging(let it), .excluding(let it), .ready(let it), .offered(let it), .comparing(let it), .wanted(let it), .sent(let it): it
            case .due, .reading, .deferred, .awaitingPull: nil
            }
        }

        /// It was offered or sent to the peer: only the peer's answer tells what the peer has.
        var awaitsAnswer: Bool {
            switch self {
            case .ready, .offered, .comparing, .wanted, .sent: true
            case .judging, .excluding, .due, .reading, .deferred, .awaitingPull: false
            }
        }

        fileprivate var account: Account {
            switch self {
            case .deferred, .awaitingPull: .waiting
            case .excluding: .excluding
            case .sent: .sent
            default: .active
            }
        }
    }

    /// The counter that an entry belongs to.
    fileprivate enum Account { case active, excluding, sent, waiting }

    struct Entry {
        private(set) var phase: Phase
        /// The newest sequence at which it changed while under way.
        var successor: SequenceNumber?
        /// These follow from the phase; they are cached because every step needs them.
        private(set) var sequence: SequenceNumber = 0
        /// Size of the body and the history if they are loaded, in bytes.
        private(set) var bytes = 0
        /// The part of ``bytes`` that is no longer in memory.
        fileprivate private(set) var released = 0
        fileprivate private(set) var account = Account.active

        init(phase: consuming Phase, successor: SequenceNumber? = nil) {
            self.phase = phase
            self.successor = successor
            note()
        }

        mutating func change(to phase: consuming Phase) {
            self.phase = phase
            note()
        }

        /// The body was copied into a message. It still counts for what may be in flight.
        mutating func releaseBody() {
            guard case .sent(var document) = phase else { return }
            released += document.body.count
            document.body = []
            phase = .sent(document)
        }

        private mutating func note() {
            account = phase.account
            released = 0
            switch phase {
            case .judging(let it), .excluding(let it), .ready(let it), .offered(let it), .comparing(let it), .wanted(let it), .sent(let it):
                (sequence, bytes) = (it.sequence, it.heldBytes)
            case .due(let parked), .reading(let parked), .deferred(let parked), .awaitingPull(let parked):
                (sequence, bytes) = (parked.sequence, 0)
            }
        }
    }

    private(set) var entries = LedgerTable()
    private var tracker: LocalSequenceTracker
    /// Documents in phase `due`, in order.
    private var due: [DocumentID] = []
    /// Documents in phase `wanted`, in the order of the peer's answers.
    private var wanted = SendQueue()
    private(set) var counts = ReplicationCounts()
    /// Entries that are being worked on.
    private(set) var active = 0
    /// Entries that wait for a timer or for the pull.
    private(set) var waiting = 0
    /// Entries that the store is putting on the kept-back list.
    private(set) var excluding = 0
    /// Entries sent and not acknowledged, and the size of their bodies.
    private(set) var inFlight = 0
    private(set) var inFlightBytes = 0
    /// Size of all loaded bodies, in bytes, including those of which only the message is left.
    private(set) var bytesAtHand = 0
    /// The part of it that is no longer here.
    private var releasedBytes = 0

    private let limits: ReplicationLimits

    init(from sequence: SequenceNumber, _ limits: ReplicationLimits) {
        tracker = LocalSequenceTracker(from: sequence)
        self.limits = limits
    }

    /// Memory of all loaded bodies, in bytes.
    var heldBytes: Int { bytesAtHand - releasedBytes }

    /// Every sequence up to this one was pushed or needs no push.
    var completedThrough: SequenceNumber { tracker.completedThrough }
    /// Number of sequences beyond ``completedThrough`` that are done.
    var doneBeyond: UInt64 { UInt64(max(0, tracker.readAgain)) }
    var hasDue: Bool { !due.isEmpty }
    var dueCount: Int { due.count }
    var wantedCount: Int { wanted.count }

    func phase(of id: DocumentID) -> Phase? { entries.place(of: id).map { entries.slots[$0].phase } }

    // MARK: - Sequences

    mutating func read(_ sequence: SequenceNumber) { tracker.begin(sequence) }
    mutating func read(through sequence: SequenceNumber) { tracker.scanned(through: sequence) }

    // MARK: - A document's way

    /// Begins the trip of a document that was read, and returns whether it did. If its entry is waiting, the new row replaces it. If an earlier revision
    /// is under way, this one is read again once that trip is over.
    mutating func begin(_ document: inout OutgoingDocument) -> Bool {
        guard let place = entries.place(of: document.id) else { return true }
        let entry = entries.slots[place]
        switch entry.phase {
        case .due(let parked), .deferred(let parked), .awaitingPull(let parked):
            if case .due = entry.phase { due.removeAll { $0 == document.id } }
            remove(document.id)
            if parked.sequence != document.sequence { tracker.complete(parked.sequence) }
            document.peerVersion = document.peerVersion ?? parked.peerVersion
            return true
        case .sent where limits.hasPlanted(.twoUnderWay):
            remove(document.id)
            tracker.complete(entry.sequence)
            counts.completed += 1
            return true
        default:
            // The same row again, from the kept-back list: the trip under way settles it.
            if entry.sequence == document.sequence { return false }
            if let older = entry.successor, older != document.sequence { tracker.complete(older) }
            entries.change(place, successor: document.sequence)
            return false
        }
    }

    /// Claims a document that is to be announced, and returns whether it may be. If it was due to be read again, the row at hand will do.
    mutating func claim(_ id: DocumentID) -> Bool {
        guard let place = entries.place(of: id) else { return true }
        guard case .due = entries.slots[place].phase else { return false }
        due.removeAll { $0 == id }
        remove(id)
        return true
    }

    /// A document that needs no trip, because the peer has it.
    mutating func skip(_ document: OutgoingDocument) {
        tracker.complete(document.sequence)
        counts.total += 1
        counts.completed += 1
    }

    /// Drops a document that has begun and should not be processed yet.
    mutating func forget(_ id: DocumentID) { remove(id) }

    mutating func move(_ id: DocumentID, to phase: Phase) {
        guard let place = entries.place(of: id) else { return insert(id, Entry(phase: phase)) }
        move(place, to: phase)
    }

    private mutating func move(_ place: Int, to phase: consuming Phase) {
        count(-1, entries.slots[place].account, entries.slots[place].bytes)
        releasedBytes -= entries.slots[place].released
        entries.change(place, to: phase)
        count(1, entries.slots[place].account, entries.slots[place].bytes)
    }

    /// The peer wants it: it is sent as soon as the limits in flight allow.
    mutating func want(_ document: OutgoingDocument) {
        move(document.id, to: .wanted(document))
        wanted.append(document.id)
    }

    /// Takes the next document to send; nil if none is waiting, or the limits in flight are reached.
    mutating func sendNext() -> OutgoingDocument? {
        while wanted.count > 0, inFlight < limits.revisionsInFlight, inFlightBytes < limits.revisionBytesInFlight {
            guard let id = wanted.next(), let place = entries.place(of: id), case .wanted(let document) = entries.slots[place].phase else { continue }
            move(place, to: .sent(document))
            return document
        }
        return nil
    }

    /// The document's message was created, and has a copy of the body.
    mutating func releaseBody(of id: DocumentID) {
        guard let place = entries.place(of: id) else { return }
        let before = entries.slots[place].released
        entries.releaseBody(place)
        releasedBytes += entries.slots[place].released - before
    }

    /// The trip is over: the sequence is complete, and if the document changed in the meantime, it is read again.
    mutating func finish(_ id: DocumentID, peerVersion: Version? = nil) {
        guard let entry = remove(id) else { return }
        tracker.complete(entry.sequence)
        counts.completed += limits.hasPlanted(.countedTwice) ? 2 : 1
        readSuccessor(id, entry, peerVersion)
    }

    /// The trip is interrupted; the sequence stays open until a later trip completes it.
    mutating func park(_ id: DocumentID, _ phase: (Parked) -> Phase) {
        guard let entry = remove(id) else { return }
        counts.completed += 1
        guard entry.successor == nil else {
            tracker.complete(entry.sequence)
            readSuccessor(id, entry, nil)
            return
        }
        insert(id, Entry(phase: phase(Parked(sequence: entry.sequence))))
    }

    /// Part of the trip is over; the document is read and judged again for the rest of it.
    ///
    /// - Parameter wasForbidden: the peer refused it, perhaps temporarily. A newer change of the document starts without this mark.
    mutating func readAgainForRest(_ id: DocumentID, peerVersion: Version? = nil, wasForbidden: Bool = false) {
        guard let entry = remove(id) else { return }
        counts.completed += 1
        let latest = entry.successor ?? entry.sequence
        if latest != entry.sequence { tracker.complete(entry.sequence) }
        let isForbidden = wasForbidden && entry.successor == nil
        becomeDue(id, Entry(phase: .due(Parked(sequence: latest, peerVersion: peerVersion, wasForbidden: isForbidden))))
    }

    /// Documents to be offered to the peer once more, unless they are under way; those that wait for a timer wait no longer. A document that is being put
    /// on the kept-back list is read again once it is on it.
    mutating func callBack(_ ids: [DocumentID]) {
        for id in ids {
            guard let place = entries.place(of: id) else {
                becomeDue(id, Entry(phase: .due(Parked(sequence: 0))))
                continue
            }
            let entry = entries.slots[place]
            switch entry.phase {
            case .excluding where entry.successor == nil: entries.change(place, successor: entry.sequence)
            case .deferred(let parked): becomeDue(id, Entry(phase: .due(parked), successor: entry.successor))
            default: break
            }
        }
    }

    private mutating func becomeDue(_ id: DocumentID, _ entry: Entry) {
        insert(id, entry)
        due.append(id)
    }

    /// The revision that the pull had to bring has arrived; nothing is owed for the document any more.
    mutating func finishWaiting(_ id: DocumentID) {
        guard let entry = remove(id) else { return }
        tracker.complete(entry.sequence)
        readSuccessor(id, entry, nil)
    }

    /// If the document changed while it was under way, it is due once more.
    private mutating func readSuccessor(_ id: DocumentID, _ entry: Entry, _ peerVersion: Version?) {
        guard let successor = entry.successor else { return }
        if limits.hasPlanted(.forgottenSuccessor) { return tracker.complete(successor) }
        becomeDue(id, Entry(phase: .due(Parked(sequence: successor, peerVersion: peerVersion))))
    }

    // MARK: - Reading again

    /// The delay for what the peer could not take is over.
    mutating func wakeDeferred() {
        wake { if case .deferred(let parked) = $0 { parked } else { nil } }
    }

    /// The pull is complete: documents that wait for it are offered once more, and do not wait for it again.
    mutating func wakeAwaitingPull() {
        wake { phase in
            guard case .awaitingPull(var parked) = phase, !parked.wasOfferedAfterPull else { return nil }
            parked.wasOfferedAfterPull = true
            return parked
        }
    }

    /// Marks the chosen waiting entries as due.
    private mutating func wake(where chosen: (Phase) -> Parked?) {
        guard waiting > 0 else { return }
        for (id, entry) in entries.sorted {
            if let parked = chosen(entry.phase) { becomeDue(id, Entry(phase: .due(parked), successor: entry.successor)) }
        }
    }

    /// A document that was read too early is read again.
    mutating func readAgain(_ document: OutgoingDocument, peerVersion: Version) {
        becomeDue(document.id, Entry(phase: .due(Parked(sequence: document.sequence, peerVersion: peerVersion))))
    }

    /// The documents to read again, each with the revision that the peer is known to hold.
    mutating func takeDue(limit: Int) -> [(id: DocumentID, peerVersion: Version?)] {
        let ids = Array(due.prefix(limit))
        due.removeFirst(ids.count)
        return ids.compactMap { id in
            guard let place = entries.place(of: id), case .due(let parked) = entries.slots[place].phase else { return nil }
            entries.change(place, to: .reading(parked))
            return (id, parked.peerVersion)
        }
    }

    /// The requested documents were not part of this read, and remain due.
    mutating func postpone(_ ids: [DocumentID]) {
        let ids = ids.filter { id in
            guard let place = entries.place(of: id), case .reading(let parked) = entries.slots[place].phase else { return false }
            entries.change(place, to: .due(parked))
            return true
        }
        due.insert(contentsOf: ids, at: 0)
    }

    /// A requested document was read, or is gone. Returns what is known of it if it may begin a trip.
    mutating func readAgain(_ id: DocumentID, _ document: OutgoingDocument?) -> Parked? {
        guard let place = entries.place(of: id), case .reading(let parked) = entries.slots[place].phase, let entry = remove(id) else { return nil }
        guard let document else {
            tracker.complete(parked.sequence)
            if let successor = entry.successor { tracker.complete(successor) }
            return nil
        }
        tracker.begin(document.sequence)
        for sequence in [parked.sequence, entry.successor] {
            if let sequence, sequence != document.sequence { tracker.complete(sequence) }
        }
        return parked
    }

    // MARK: - Counts

    mutating func count(_ change: (inout ReplicationCounts) -> Void) { change(&counts) }

    private mutating func insert(_ id: DocumentID, _ entry: Entry) {
        count(1, entry.account, entry.bytes)
        if let replaced = entries.insert(id, entry) {
            count(-1, replaced.account, replaced.bytes)
            releasedBytes -= replaced.released
        }
    }

    @discardableResult
    private mutating func remove(_ id: DocumentID) -> Entry? {
        guard let entry = entries.remove(id) else { return nil }
        count(-1, entry.account, entry.bytes)
        releasedBytes -= entry.released
        return entry
    }

    private mutating func count(_ sign: Int, _ account: Account, _ bytes: Int) {
        bytesAtHand += sign * bytes
        if account == .waiting { waiting += sign } else { active += sign }
        switch account {
        case .excluding: excluding += sign
        case .sent:
            inFlight += sign
            inFlightBytes += sign * bytes
        case .active, .waiting: break
        }
    }
}
