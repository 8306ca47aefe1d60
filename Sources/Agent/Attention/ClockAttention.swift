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
                .clockUnset, "clock", "the clock of this machine says \(Timestamp.format(now)): it has not been set since it was started",
                remedy: "set it, and have it kept right (systemctl enable --now systemd-timesyncd, or chrony): until then certificates seem not "
                    + "valid yet, and versions go on from the last one that was made here, which counts as earlier than edits made elsewhere")
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
                    remedy: "set the clock that is wrong, of that peer, of one behind it or here (nightjar doctor, timedatectl); documents are taken all the same, edits made here "
                        + "count as earlier than that one until then, and Couchbase Lite 4 refuses the document where its clock is right. "
                        + "It goes when that time has come; a restart of the agent forgets it"))
        }
        if let ahead = database.versionsAhead {
            let edits = ahead.since == nil ? "The next edit is given the right time" : "Edits made since then have the right time"
            list.append(
                Attention(
                    .versionsAhead, subject, since: ahead.since,
                    "documents that were edited here while the clock was ahead have versions up to \(Timestamp.format(ahead.through)), "
                        + "\(Self.period(ahead.ahead)) ahead of this machine's clock",
                    remedy: "nothing has to be done if the clock is right now (nightjar doctor). \(edits); Couchbase Lite 4 refuses those "
                        + "documents until their time has come, and they are offered again then"))
        }
        if let copy = database.versionOfCopy {
            list.append(
                Attention(
                    .databaseCopied, subject,
                    "a version under the name of this database (\(copy.version))\(copy.sender.map { " came from \($0)" } ?? " came") and was not made here: a copy of the "
                        + "database is in use, or this one was set back to an earlier state",
                    remedy: "it goes on under a new name. To its peers a copy is the same database: stop the copy's agent, and make another one of it there "
                        + "(nightjar backup, then nightjar restore --replace). A restart of the agent here forgets it"))
        }
        return list
    }

    /// A time span, in minutes or hours.
    private static func period(_ nanoseconds: UInt64) -> String {
        let minutes = Int(clamping: nanoseconds / 60_000_000_000)
        return minutes < 120 ? Plural.count(minutes, "minute") : Plural.count(minutes / 60, "hour")
    }
}
