import Documents

// Clocks that are or were wrong, as reported by health.
extension Database {
    /// The peer's version that was furthest ahead of this machine's clock, by how many nanoseconds it still is (if more than
    /// `StoreLimits.clockDriftNanoseconds`), and a description of its sender. Nil if this machine's clock is not set.
    public var fastestClock: (version: VectorVersion, ahead: UInt64, sender: String?)? {
        guard let now = setClock, let fastest = problems.clock, StoreLimits.isAhead(fastest.version.time, of: now) else { return nil }
        return (fastest.version, fastest.version.time - now, fastest.sender)
    }

    /// Versions with a time in the future were made here: this machine's clock was ahead.
    ///
    /// - Returns: up to which time (seconds since 1970), by how many nanoseconds that is ahead, and since when edits use another source id; the last
    ///   is nil if no edit was made since the clock was corrected.
    public var versionsAhead: (through: Int64, ahead: UInt64, since: Int64?)? {
        let known = versions.ahead
        // The reservation beyond the actual versions does not count.
        guard let now = setClock, StoreLimits.isAhead(known.through, of: now + VersionClock.reservation) else { return nil }
        return (Int64(clamping: known.through / 1_000_000_000), known.through - now, known.since)
    }

    /// The last version with this database's source id that was not made here, and a description of its sender: a copy of the database is in use, or
    /// this one was restored to an earlier state. In that case it continues with another source id.
    public var versionOfCopy: (version: VectorVersion, sender: String?)? { problems.copy }

    /// Nanoseconds since 1970; nil if the clock is certainly wrong.
    private var setClock: UInt64? {
        let now = UInt64(clamping: environment.time.wallNanoseconds())
        return now >= StoreLimits.earliestNanoseconds ? now : nil
    }
}
