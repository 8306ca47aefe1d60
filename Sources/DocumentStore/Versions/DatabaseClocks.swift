import Documents

// Clocks that are or were wrong, as health tells of them.
extension Database {
    /// The version of a peer that was further ahead of this machine's clock than any other, by how many nanoseconds it still is, if that is
    /// more than `StoreLimits.clockDriftNanoseconds`, and who gave it, in words. Nil where this machine's clock is not set.
    public var fastestClock: (version: VectorVersion, ahead: UInt64, sender: String?)? {
        guard let now = setClock, let fastest = problems.clock, StoreLimits.isAhead(fastest.version.time, of: now) else { return nil }
        return (fastest.version, fastest.version.time - now, fastest.sender)
    }

    /// Versions were made here of a time that is still to come: this machine's clock was ahead.
    ///
    /// - Returns: up to which time (seconds since 1970), by how many nanoseconds that is ahead, and since when edits are made under another name;
    ///   nil for the last one where none was made since the clock was set right.
    public var versionsAhead: (through: Int64, ahead: UInt64, since: Int64?)? {
        let known = versions.ahead
        // What is reserved beyond the versions is none.
        guard let now = setClock, StoreLimits.isAhead(known.through, of: now + VersionClock.reservation) else { return nil }
        return (Int64(clamping: known.through / 1_000_000_000), known.through - now, known.since)
    }

    /// The last version that came under the name of this database and was not made here, and who gave it, in words: a copy of the database is in use, or
    /// this one was set back to an earlier state. It goes on under another name then.
    public var versionOfCopy: (version: VectorVersion, sender: String?)? { problems.copy }

    /// Nanoseconds since 1970; nil for a clock that cannot be right.
    private var setClock: UInt64? {
        let now = UInt64(clamping: environment.time.wallNanoseconds())
        return now >= StoreLimits.earliestNanoseconds ? now : nil
    }
}
