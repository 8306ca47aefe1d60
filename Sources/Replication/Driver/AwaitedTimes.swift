import Documents
import Environment

/// Documents that a peer refused because a version of theirs is ahead of its clock, each with the time at which it is offered again on this
/// connection: nanoseconds since 1970. A new connection offers all of them anyway.
struct AwaitedTimes {
    private var times: [DocumentID: UInt64] = [:]
    /// Somebody looks at the clock later.
    var isTimerSet = false

    var next: UInt64? { times.values.min() }

    /// - Parameter limit: beyond it only what is awaited already is.
    mutating func add(_ id: DocumentID, _ time: UInt64, limit: Int) {
        if times.count < limit || times[id] != nil { times[id] = time }
    }

    /// Those whose time has come, in the order of their times.
    mutating func take(now: UInt64) -> [DocumentID] {
        let due = times.filter { $0.value <= now }.sorted { ($0.value, $0.key) < ($1.value, $1.key) }.map(\.key)
        for id in due { times[id] = nil }
        return due
    }
}

struct ClockWaits {
    let session: SessionDriver

    /// The peer's clock is behind a version of the document. Where this machine's is not, the peer's is wrong: that may be mended any time.
    func awaitTime(of id: DocumentID, _ time: UInt64, _ link: CollectionLink) {
        let now = UInt64(clamping: session.environment.time.wallNanoseconds())
        let soon = now + UInt64(session.limits.maximumDeferralSeconds) * 1_000_000_000
        link.awaitedTimes.add(id, time > now ? time : soon, limit: session.limits.refusedDocuments)
        lookAtClock(link)
    }

    /// The clock may be set meanwhile, so it is looked at now and then. Many documents may have their times close together.
    private func lookAtClock(_ link: CollectionLink) {
        guard !link.awaitedTimes.isTimerSet, let next = link.awaitedTimes.next else { return }
        link.awaitedTimes.isTimerSet = true
        let now = UInt64(clamping: session.environment.time.wallNanoseconds())
        let seconds = Int(clamping: (next > now ? next - now : 0) / 1_000_000_000) + 1
        let delay = min(max(seconds, session.limits.deferralSeconds), session.limits.maximumDeferralSeconds)
        let (slot, generation) = (link.slot, link.generation)
        session.later(milliseconds: max(1, delay * 1_000)) { session in
            let link = session.links[slot]
            guard link.generation == generation else { return }
            link.awaitedTimes.isTimerSet = false
            let due = link.awaitedTimes.take(now: UInt64(clamping: session.environment.time.wallNanoseconds()))
            if !due.isEmpty { session.tell(link, push: .timeHasCome(due)) }
            session.clockWaits.lookAtClock(link)
        }
    }
}
