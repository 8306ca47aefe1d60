import DocumentStore
import Interfaces

/// The overall state of a session: what its turns changed in its collections, and whether there is anything left to do.
final class SessionOverview {
    private unowned let session: SessionDriver
    /// Links to which something has happened since the session last looked.
    private var touched: [CollectionLink] = []
    private var busyLinks = 0
    private var incompletePulls = 0
    /// Number of links whose peer owes something that it was asked for.
    private(set) var owingPulls = 0
    private var activity = ActivityLevel.busy

    init(_ session: SessionDriver) { self.session = session }

    func touch(_ link: CollectionLink) {
        guard !link.hasActivity else { return }
        link.hasActivity = true
        touched.append(link)
    }

    /// Reviews what the turn changed: counts, back-pressure, whether everything is pulled, whether there is anything left to do.
    func review() {
        while !touched.isEmpty, !session.hasEnded {
            updateTotals()
            session.drain()
            session.pump()
        }
        session.reports.reportRefusals()
        if session.life == .running, !isBusy {
            saveCheckpoints()
            if session.life == .running, case .active(let active) = session.role, !active.replicator.isContinuous, !isBusy,
                session.links.allSatisfy({ $0.push?.isFinished ?? true })
            {
                session.reports.reportRefusals()
                let behind = session.reports.refusals.behind
                return session.finish(behind == nil ? .complete : .over, error: behind, closeCode: CloseCode.normal, reason: "")
            }
        }
        guard !session.hasEnded else { return }
        session.accounts.settleAccounts()
        guard !session.hasEnded else { return }
        session.accounts.adjustReading()
        let level: ActivityLevel = isBusy ? .busy : .idle
        if level == .idle {
            session.reports.flushDocumentEvents()
            if session.reconnecting.renewForVersionsIfDue() || session.reconnecting.endCautionIfDue() { return }
        }
        if level != activity {
            activity = level
            session.observer.activityChanged(level)
        }
    }

    private func updateTotals() {
        let touched = touched
        self.touched = []
        let wereComplete = incompletePulls == 0
        for link in touched {
            link.hasActivity = false
            session.counters.add(link.counts - link.countsSeen)
            link.countsSeen = link.counts
            if !link.incomingDeltas.isEmpty { session.deltas.applyDeltas(link) }
            session.accounts.bufferedBytes += link.bufferedBytes - link.bytesSeen
            link.bytesSeen = link.bufferedBytes
            let awaited = link.pull.tracker?.bytes ?? 0
            session.accounts.awaitedBytes += awaited - link.awaitedSeen
            link.awaitedSeen = awaited
            if session.isPassive {
                let stalls = link.push.map { ($0.feed.stall.map { [$0] } ?? []) + $0.held.first } ?? []
                session.counters.stall(link.slot, at: stalls.map { Stall(collection: link.collection.name, id: $0.id, failure: $0.failure) })
            }
            let outgoing = link.push?.ledger.heldBytes ?? 0
            session.accounts.outgoingBytes += outgoing - link.outgoingSeen
            link.outgoingSeen = outgoing
            if link.isBusy != link.wasBusy {
                busyLinks += link.wasBusy ? -1 : 1
                link.wasBusy.toggle()
            }
            if link.pull.isComplete != link.pullWasComplete {
                incompletePulls += link.pullWasComplete ? 1 : -1
                link.pullWasComplete.toggle()
            }
            if link.pull.isOwed != link.wasOwed {
                owingPulls += link.wasOwed ? -1 : 1
                link.wasOwed.toggle()
            }
            if let checkpoint = link.checkpoint, checkpoint.isIdle, link.progress != checkpoint.saved {
                session.tell(link, checkpoint: .progressed)
            }
        }
        // A one-shot push waits for the pulls: a conflict that these bring may still be decided into something to push.
        if !session.isPassive, wereComplete != (incompletePulls == 0) {
            for link in session.links where link.push != nil { session.tell(link, push: .pullIsComplete(incompletePulls == 0)) }
        }
    }

    var isBusy: Bool {
        session.pendingSetUp > 0 || !session.intake.isEmpty || busyLinks > 0 || !session.blobs.machine.isIdle || session.dialect.hasPendingOutput || !session.questions.waiting.isEmpty
            || session.life == .running && session.links.contains { $0.checkpoint.map { !$0.isSaved($0.saved) } ?? false }
    }

    private func saveCheckpoints() {
        for link in session.links where link.checkpoint.map({ !$0.isSaved(link.progress) }) ?? false { session.tell(link, checkpoint: .saveNow) }
        session.drain()
        session.pump()
    }
}
