import Documents

/// Documents that a peer refused because one of their versions is ahead of its clock, each with the time at which it is offered again on this
/// connection, in nanoseconds since 1970. A new connection offers all of them in any case.
struct AwaitedTimes {
    private var times: [DocumentID: UInt64] = [:]
    /// A check of the clock is scheduled.
    var isTimerSet = false

    var next: UInt64? { times.values.min() }

    /// - Parameter limit: at the limit, only documents already in the table are updated.
    mutating func add(_ id: DocumentID, _ time: UInt64, limit: Int) {
        if times.count < limit || times[id] != nil { times[id] = time }
    }

    /// Takes the documents whose time has come, in order of time.
    mutating func take(now: UInt64) -> [DocumentID] {
        let due = times.filter { $0.value <= now }.sorted { ($0.value, $0.key) < ($1.value, $1.key) }.map(\.key)
        for id in due { times[id] = nil }
        return due
    }
}
