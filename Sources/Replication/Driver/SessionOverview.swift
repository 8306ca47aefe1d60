import DocumentStore
import Interfaces

/// The overall state of a session: what its turns changed in its collections, and whether there is anything left to do.
final class SessionOverview {
    private unowned let driver: SessionDriver
    /// Links to which something has happened since the session last looked.
    private var touched: [CollectionLink] = []
    private var busyLinks = 0
    private var incompletePulls = 0
    /// Number of links whose peer owes something that it was asked for.
    private(set) var owingPulls = 0
    private var activity = ActivityLevel.busy

    init(_ driver: SessionDriver) { self.driver = driver }

    func touch(_ link: CollectionLink) {
        guard !link.hasActivity else { return }
        link.hasActivity = true
        touched.append(link)
    }

    /// Reviews what the turn changed: counts, back-pressure, whether everything is pulled, whether there is anything left to do.
    func review() {
        while !touched.isEmpty, !driver.hasEnded {
            updateTotals()
            driver.drain()
            driver.pump()
        }
        driver.reports.reportRefusals()
        if driver.life == .running, !isBusy {
            saveCheckpoints()
            if driver.life == .running, case .active(let active) = driver.role, !active.replicator.isContinuous, !isBusy,
                driver.links.allSatisfy({ $0.push?.isFinished ?? true })
            {
                driver.reports.reportRefusals()
                let behind = driver.reports.refusals.behind
                return driver.finish(behind == nil ? .complete : .over, error: behind, closeCode: CloseCode.normal, reason: "")
            }
        }
        guard !driver.hasEnded else { return }
        driver.accounts.settleAccounts()
        guard !driver.hasEnded else { return }
        driver.accounts.adjustReading()
        let level: ActivityLevel = isBusy ? .busy : .idle
        if level == .idle {
            driver.reports.flushDocumentEvents()
            if driver.reconnecting.renewForVersionsIfDue() || driver.reconnecting.endCautionIfDue() { return }
        }
        if level != activity {
            activity = level
            driver.observer.activityChanged(level)
        }
    }

    private func updateTotals() {
        let touched = touched
        self.touched = []
        let wereComplete = incompletePulls == 0
        for link in touched {
            link.hasActivity = false
            driver.counters.add(link.counts - link.countsSeen)
            link.countsSeen = link.counts
            if !link.incomingDeltas.isEmpty { driver.deltas.applyDeltas(link) }
            driver.accounts.bufferedBytes += link.bufferedBytes - link.bytesSeen
            link.bytesSeen = link.bufferedBytes
            let awaited = link.pull.tracker?.bytes ?? 0
            driver.accounts.awaitedBytes += awaited - link.awaitedSeen
            link.awaitedSeen = awaited
            if driver.isPassive {
                let stalls = link.push.map { ($0.feed.stall.map { [$0] } ?? []) + $0.held.first } ?? []
                driver.counters.stall(link.slot, at: stalls.map { Stall(collection: link.collection.name, id: $0.id, failure: $0.failure) })
            }
            let outgoing = link.push?.ledger.heldBytes ?? 0
            driver.accounts.outgoingBytes += outgoing - link.outgoingSeen
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
                driver.tell(link, checkpoint: .progressed)
            }
        }
        // A one-shot push waits for the pulls: a conflict that these bring may still be decided into something to push.
        if !driver.isPassive, wereComplete != (incompletePulls == 0) {
            for link in driver.links where link.push != nil { driver.tell(link, push: .pullIsComplete(incompletePulls == 0)) }
        }
    }

    var isBusy: Bool {
        driver.pendingSetUp > 0 || !driver.intake.isEmpty || busyLinks > 0 || !driver.blobs.machine.isIdle || driver.dialect.hasPendingOutput || !driver.questions.waiting.isEmpty
            || driver.life == .running && driver.links.contains { $0.checkpoint.map { !$0.isSaved($0.saved) } ?? false }
    }

    private func saveCheckpoints() {
        for link in driver.links where link.checkpoint.map({ !$0.isSaved(link.progress) }) ?? false { driver.tell(link, checkpoint: .saveNow) }
        driver.drain()
        driver.pump()
    }
}
