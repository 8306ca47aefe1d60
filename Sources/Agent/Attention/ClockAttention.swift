import Documents
import DocumentStore
import Encodings

// Clocks that are wrong, or were.
extension Agent {
    /// This machine's clock.
    nonisolated func clockAttention() -> [Attention] {
        let now = environment.time.wallSeconds()
        guard now < StoreLimits.earliestSeconds else {
            guard let doubt = timeFloor.now(keys: nil).doubt else { return [] }
            return [
                Attention(
                    .clockUnset, "clock", doubt,
                    remedy: "set it, and have it kept right (systemctl enable --now systemd-timesyncd, or chrony): until then tokens of listeners are judged by the later time. "
                        + "If it is right and was ahead then, it is believed as soon as it is kept right; or stop the agent, remove that file and start it")
            ]
        }
        return [
            Attention(
                .clockUnset, "clock", "the clock of this machine shows \(Timestamp.format(now)): it has not been set since it was started",
                remedy: "set it, and have it kept right (systemctl enable --now systemd-timesyncd, or chrony): until then certificates may seem not valid yet, and "
                    + "versions continue from the last one that was made here, so they count as earlier than edits made elsewhere")
        ]
    }

    /// A peer's clock, or this machine's own before it was corrected; and a copy of this database that makes versions under the same source id.
    nonisolated func clocks(of database: Database) -> [Attention] {
        let subject = "database \(database.name)"
        var list: [Attention] = []
        if let fast = database.fastestClock {
            list.append(
                Attention(
                    .clocksDiffer, subject,
                    "a version that a peer made (\(fast.version))\(fast.sender.map { " and that came from \($0)" } ?? "") is \(Self.period(fast.ahead)) ahead of this machine's clock",
                    remedy: "set the clock that is wrong: on that peer, on one behind it, or here (nightjar doctor, timedatectl). Documents are accepted all the "
                        + "same; until then edits made here count as earlier than that one, and a Couchbase Lite 4 with the right time refuses the document. This "
                        + "entry ends when that time has come; a restart of the agent forgets it"))
        }
        if let ahead = database.versionsAhead {
            let edits = ahead.since == nil ? "The next edit is given the right time" : "Edits made since then have the right time"
            list.append(
                Attention(
                    .versionsAhead, subject, since: ahead.since,
                    "documents that were edited here while the clock was ahead have versions up to \(Timestamp.format(ahead.through)), "
                        + "\(Self.period(ahead.ahead)) ahead of this machine's clock",
                    remedy: "nothing has to be done if the clock is right now (nightjar doctor). \(edits); Couchbase Lite 4 refuses those documents until that time, "
                        + "and they are then offered again"))
        }
        if let copy = database.versionOfCopy {
            list.append(
                Attention(
                    .databaseCopied, subject,
                    "a version with the author id of this database (\(copy.version))\(copy.sender.map { " came from \($0)" } ?? " came") but was not made here: a "
                        + "copy of the database is in use, or this one was reset to an earlier state",
                    remedy: "it continues under a new author id. To its peers a copy is the same database: stop the copy's agent, and turn the copy into a database "
                        + "of its own (nightjar backup, then nightjar restore --replace). A restart of the agent here forgets this entry"))
        }
        return list
    }

    /// A time span, in minutes or hours.
    private static func period(_ nanoseconds: UInt64) -> String {
        let minutes = Int(clamping: nanoseconds / 60_000_000_000)
        return minutes < 120 ? Plural.count(minutes, "minute") : Plural.count(minutes / 60, "hour")
    }
}
