import Documents
import Environment

/// Has a document that the peer refused because of its clock offered again when its time has come.
struct ClockRetries {
    let driver: SessionDriver

    /// The peer's clock is behind a version of the document. If this machine's is not, the peer's is wrong, and may be corrected at any time.
    func awaitTime(of id: DocumentID, _ time: UInt64, _ link: CollectionLink) {
        let now = UInt64(clamping: driver.environment.time.wallNanoseconds())
        let soon = now + UInt64(driver.limits.maximumDeferralSeconds) * 1_000_000_000
        link.awaitedTimes.add(id, time > now ? time : soon, limit: driver.limits.refusedDocuments)
        checkClock(link)
    }

    /// The clock may be set in the meantime, so it is checked now and then. Many documents may have times close together.
    private func checkClock(_ link: CollectionLink) {
        guard !link.awaitedTimes.isTimerSet, let next = link.awaitedTimes.next else { return }
        link.awaitedTimes.isTimerSet = true
        let now = UInt64(clamping: driver.environment.time.wallNanoseconds())
        let seconds = Int(clamping: (next > now ? next - now : 0) / 1_000_000_000) + 1
        let delay = min(max(seconds, driver.limits.deferralSeconds), driver.limits.maximumDeferralSeconds)
        let (slot, generation) = (link.slot, link.generation)
        driver.later(milliseconds: max(1, delay * 1_000)) { driver in
            let link = driver.links[slot]
            guard link.generation == generation else { return }
            link.awaitedTimes.isTimerSet = false
            let due = link.awaitedTimes.take(now: UInt64(clamping: driver.environment.time.wallNanoseconds()))
            if !due.isEmpty { driver.tell(link, push: .retryTimeReached(due)) }
            driver.clockRetries.checkClock(link)
        }
    }
}
