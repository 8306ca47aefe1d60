import Agent
import Documents
import Encodings
import Environment
import Interfaces

/// The status of an agent (`GET /api/status`) as tables for people.
enum StatusText {
    static func text(_ status: JSONValue) -> String {
        var text = "nightjar \(string(status["version"])), up \(duration(status["uptime_seconds"]?.asDouble ?? 0))"
        text += ", \(bytes(status["resident_bytes"])) resident (at most \(bytes(status["peak_resident_bytes"])))"
        text += ", \(string(status["descriptors"]?["open"])) of \(string(status["descriptors"]?["limit"])) descriptors open\n"
        text += databases(rows(status, "databases"))
        text += listeners(rows(status, "listeners"))
        text += replicators(rows(status, "replicators"), tellsAttention: false)
        text += plugins(rows(status, "plugins"))
        let pending = rows(status, "databases").reduce(0) { $0 + ($1["conflicts_pending"]?.asInt64 ?? 0) }
        text += "\nconflicts pending: \(pending)\n"
        let shadows = ["differs", "failed"].map { key in
            rows(status, "databases").reduce(0) { $0 + ($1["conflicts_decided"]?["shadow"]?[key]?.asInt64 ?? 0) }
        }
        if shadows != [0, 0] { text += "shadow resolvers: \(Plural.count(shadows[0], "difference")), \(Plural.count(shadows[1], "failure")) (nightjar conflicts list)\n" }
        let waiting = rows(status, "at_next_start").compactMap(\.asString)
        if !waiting.isEmpty { text += "changed, and in force at the next start: \(TextTable.printable(waiting.joined(separator: ", ")))\n" }
        return text + attention(rows(status, "attention"))
    }

    /// At the end, where the reader looks; what makes the agent unhealthy comes first.
    private static func attention(_ entries: [JSONValue]) -> String {
        if entries.isEmpty { return "\nnothing needs attention\n" }
        return entries.reduce("\n") { text, entry in
            let isUnhealthy = entry["gravity"]?.asString == "unhealthy"
            let remedy = entry["remedy"]?.asString.map { $0.isEmpty ? "" : "; \(TextTable.printable($0))" } ?? ""
            return text + "\(isUnhealthy ? "UNHEALTHY" : "needs attention"): \(string(entry["subject"])): \(string(entry["text"]))\(remedy) "
                + "(since \(string(entry["since"])))\n"
        }
    }

    private static func databases(_ databases: [JSONValue]) -> String {
        let hasQuota = databases.contains { $0["quota_bytes"]?.asInt64 != nil }
        var table = TextTable(
            ["DATABASE", "COLLECTION", "DOCUMENTS", "DELETED", "SEQUENCE", "CONFLICTS", "HELD", "SIZE"] + (hasQuota ? ["OF QUOTA"] : []),
            alignsRight: hasQuota ? [2, 3, 4, 5, 6, 7, 8] : [2, 3, 4, 5, 6, 7])
        for database in databases {
            for (number, collection) in rows(database, "collections").enumerated() {
                var row = [
                    number == 0 ? string(database["name"]) : "", string(collection["name"]), string(collection["documents"]),
                    string(collection["deleted"]), string(collection["last_sequence"]), string(collection["conflicts_pending"]),
                    string(collection["held"]), number == 0 ? size(database) : "",
                ]
                if hasQuota { row.append(number == 0 ? quota(database) : "") }
                table.add(row)
            }
        }
        return section(table, "no databases") + databases.map(resync).joined()
    }

    /// Shown while one is running.
    private static func resync(_ database: JSONValue) -> String {
        guard let resync = database["resync"], resync["state"]?.asString == "running" else { return "" }
        return "\(string(database["name"])): \(resync["dry_run"]?.asBool == true ? "resync --dry-run" : "resync") under way: "
            + "\(string(resync["looked_at"])) of \(string(resync["total"])) looked at, \(string(resync["changed"])) changed, "
            + "\(string(resync["rejected"])) rejected, \(string(resync["failed"])) failed\n"
    }

    /// The space that a database takes on disk, followed by `+` while its blobs are still being counted.
    private static func size(_ database: JSONValue) -> String {
        guard let blobs = database["blob_bytes"]?.asInt64 else { return bytes(database["size_bytes"]) + "+" }
        return bytes(JSONOutput.number((database["size_bytes"]?.asInt64 ?? 0) + blobs))
    }

    /// How much of its quota a database uses.
    private static func quota(_ database: JSONValue) -> String {
        guard database["quota_bytes"]?.asInt64 != nil else { return "-" }
        return "\(bytes(database["held_bytes"])) of \(bytes(database["quota_bytes"]))"
    }

    private static func listeners(_ listeners: [JSONValue]) -> String {
        var table = TextTable(["LISTENER", "URL", "CONNECTIONS", "ACTIVE"], alignsRight: [2, 3])
        var peers = TextTable(["PEER", "USER", "DATABASE", "PROTOCOL", "SINCE", "PULLED", "PUSHED"], alignsRight: [5, 6])
        var notes = ""
        for listener in listeners {
            if let tls = listener["tls"], !tls.isNull {
                notes += "\(string(listener["name"])): identity \(string(tls["label"])), \(string(tls["pin"])), until \(string(tls["expires_at"]))"
                notes += tls["next_pin"]?.asString.map { "; its next key, which peers should pin too: \($0)\n" } ?? "\n"
                notes += warning(tls, of: listener)
            }
            notes += bandwidth("bandwidth", "all connections together", of: listener)
            notes += bandwidth("connection_bandwidth", "each connection", of: listener)
            let urls = rows(listener, "urls")
            for (number, url) in (urls.isEmpty ? [.string(listener["activity"]?.asString ?? "-")] : urls).enumerated() {
                table.add(
                    number == 0
                        ? [string(listener["name"]), string(url), string(listener["connections"]), string(listener["active_connections"])]
                        : ["", string(url), "", ""])
            }
            for peer in rows(listener, "peers") {
                peers.add([
                    string(peer["address"]), string(peer["user"]), string(peer["database"]), protocolName(peer), string(peer["since"]),
                    string(peer["pulled_by_peer"]), string(peer["pushed_by_peer"]),
                ])
            }
            for feed in rows(listener, "feeds") {
                peers.add([
                    string(feed["address"]), string(feed["user"]), string(feed["database"]), "\(protocolName(feed)), \(string(feed["feed"]))", string(feed["since"]), "-", "-",
                ])
            }
        }
        return section(table, "no listeners") + notes + (peers.isEmpty ? "" : "\n\(peers.text)")
    }

    /// The bandwidth limit, if there is one.
    private static func bandwidth(_ key: String, _ what: String, of owner: JSONValue) -> String {
        let ways = [("send", "sent"), ("receive", "received")].compactMap { way, word in
            owner[key]?[way]?.asInt64.map { "\(bytes(JSONOutput.number($0))) \(word)" }
        }
        return ways.isEmpty ? "" : "\(string(owner["name"])): \(what): at most \(ways.joined(separator: " and ")) a second (\(key))\n"
    }

    /// What is wrong with an identity, or soon will be.
    private static func warning(_ identity: JSONValue?, of owner: JSONValue) -> String {
        identity?["warning"]?.asString.map { "\(string(owner["name"])): WARNING: \(TextTable.printable($0))\n" } ?? ""
    }

    /// Also for `replicator list`.
    ///
    /// - Parameter tellsAttention: whether to include what needs attention, because it is not shown elsewhere.
    static func replicators(_ replicators: [JSONValue], tellsAttention: Bool = true) -> String {
        var table = TextTable(
            [
                "REPLICATOR", "DATABASE", "TYPE", "ACTIVITY", "PROGRESS", "PUSHED", "PULLED", "REJECTED", "FAILURES", "PENDING", "HELD", "REFUSED", "PROTOCOL", "TARGET",
            ], alignsRight: [4, 5, 6, 7, 8, 9, 10, 11])
        var notes = ""
        for replicator in replicators {
            let progress = replicator["progress"]
            table.add([
                string(replicator["name"]), string(replicator["database"]),
                string(replicator["type"]) + (replicator["continuous"]?.asBool == true ? ", continuous" : ""),
                string(replicator["activity"]) + (replicator["suspended"]?.asBool == true ? ", suspended" : "")
                    + (rows(replicator, "attention").isEmpty ? "" : ", attention"),
                "\(string(progress?["completed"]))/\(string(progress?["total"]))",
                string(replicator["pushed"]), string(replicator["pulled"]), string(replicator["rejected"]), string(replicator["failed"]),
                string(replicator["pending"]) + (replicator["pending_is_capped"]?.asBool == true ? "+" : ""), string(replicator["held"]),
                string(replicator["refused"]), protocolName(replicator), string(replicator["target"]),
            ])
            if let error = replicator["error"], !error.isNull {
                let next = replicator["next_retry_at"]?.asString
                notes += "\(string(replicator["name"])): \(self.error(error, isTriedAgain: next != nil))"
                if let next {
                    notes += ", retry \(string(replicator["attempt"])) at \(TextTable.printable(next)), or now: "
                    notes += "nightjar replicator \(string(replicator["name"])) start"
                }
                if replicator["activity"]?.asString == "stopped" {
                    notes += "; once this is fixed: nightjar replicator \(string(replicator["name"])) start"
                }
                notes += "\n"
            }
            // The error above is one of them.
            for reason in rows(replicator, "attention").dropFirst(replicator["error"]?["transient"]?.asBool == false ? 1 : 0) where tellsAttention {
                notes += "\(string(replicator["name"])): attention: \(string(reason))\n"
            }
            if let seconds = replicator["oldest_pending_seconds"]?.asInt64 {
                notes += "\(string(replicator["name"])): \(bytes(replicator["pending_bytes"])) to push, the oldest change for \(Plural.count(seconds, "second"))\n"
            }
            if let count = replicator["too_large"]?.asInt64, count > 0 {
                let documents = replicator["too_large_is_capped"]?.asBool == true ? "more than \(count) documents (too_large_documents)" : Plural.count(count, "document")
                let setting = replicator["too_large_needs"]?.asInt64.map { "limits: { memory: \(MemoryBudget.settingText(Int($0))) } or more" } ?? "a larger limits.memory"
                notes += "\(string(replicator["name"])): too large for this agent when the remote gave them: \(documents); asked for again once it starts with \(setting); nightjar replicator \(string(replicator["name"])) held lists them\n"
            }
            if let count = replicator["not_taken"]?.asInt64, count > 0 {
                let name = string(replicator["name"])
                notes += "\(name): \(Plural.count(count, "document")) of the remote cannot be stored here: nightjar replicator \(name) refused says why\n"
            }
            if let count = replicator["asked_again"]?.asInt64, count > 0 {
                notes += "\(string(replicator["name"])): \(Plural.count(count, "document")) that \(count == 1 ? "was" : "were") too large for earlier limits: asked for again once everything else is here\n"
            }
            notes += bandwidth("bandwidth", "its connections", of: replicator)
            if let time = replicator["resumes_at"]?.asString {
                let name = string(replicator["name"])
                notes += "\(name): suspended by its schedule until \(TextTable.printable(time)), or now: nightjar replicator \(name) resume\n"
            }
            if replicator["tls"]?["unsafe"]?.asBool == true {
                notes += "\(string(replicator["name"])): WARNING: accepts any server certificate (unsafe_skip_server_certificate_verification)\n"
            }
            notes += warning(replicator["tls"]?["identity"], of: replicator)
            if let back = replicator["remote_went_back"], !back.isNull {
                notes += "\(string(replicator["name"])): \(string(back["at"])): \(string(back["message"])); "
                if let times = back["times"]?.asInt64, times > 1 { notes += "this happened \(Plural.count(times, "time")), each less than a day after the one before; " }
                notes += back["comparing"]?.asBool == true ? "this is under way\n" : "that is done\n"
            }
        }
        let legend = "PROGRESS to FAILURES: of this run (all runs: lifetime in --json, and /metrics). REJECTED: by a filter here. FAILURES: attempts to push or pull a document that failed, each time, but for those in HELD. "
            + "Now: PENDING to be pushed (also what the push filter would reject, until it is asked with the next connection), HELD because a filter failed, it is too large, or a blob cannot be taken or given, REFUSED by the peer.\n"
        return section(table, "no replicators") + (table.isEmpty ? "" : legend) + notes
    }

    /// Also for `plugin list`.
    ///
    /// - Parameter showsDifferences: whether to show the latest differences of candidates.
    static func plugins(_ plugins: [JSONValue], showsDifferences: Bool = false) -> String {
        var table = TextTable(["PLUGIN", "VERSION", "STATE", "HOOKS", "CALLS", "ERRORS", "REJECTED", "P99 MS", "USED BY"], alignsRight: [4, 5, 6, 7])
        var notes = ""
        for plugin in plugins {
            let name = string(plugin["name"])
            table.add([
                name, string(plugin["version"]), string(plugin["state"]), list(plugin["hooks"]), string(plugin["calls"]),
                string(plugin["errors"]), string(plugin["rejected"]), plugin["p99_ms"]?.asDouble.map { decimal($0, 3) } ?? "-",
                places(plugin["used_by"]),
            ])
            if let fleet = plugin["fleet"], !fleet.isNull { notes += "\(name): is version \(string(fleet["version"])) of the fleet's\n" }
            if let refused = plugin["refused"], !refused.isNull {
                // A file that could not even be parsed as a plugin has no version.
                let version = refused["version"]?.asString ?? ""
                let shown = version.isEmpty ? "what is in the folder" : "version \(TextTable.printable(version))"
                let isTests = refused["only_tests"]?.asBool == true
                notes += "\(name): \(isTests ? "its tests fail now, and \(shown) stays in use" : "\(shown) is refused"): \(string(refused["error"]))\n"
            }
            if let rollback = plugin["rolled_back"], !rollback.isNull {
                notes += "\(name): rolled back from \(string(rollback["from"])) to \(string(rollback["to"])); "
                notes += "a change of its files, or \"plugin reload \(name)\", ends it\n"
            }
            for failing in rows(plugin, "failing") {
                let error = TextTable.printable(string(failing["error"]))
                notes += "\(name): \(string(failing["used_by"])) is not called\(failing["peer"]?.asString.map { " for \(TextTable.printable($0))" } ?? ""): \(string(failing["failures"])) failures in a row: \(error)\n"
            }
            for shadow in rows(plugin, "shadows") { notes += self.shadow(shadow, of: name, showsDifferences) }
            if let failure = plugin["last_failure"]?.asString { notes += "\(name): last failure: \(TextTable.printable(failure))\n" }
        }
        return section(table, "no plugins") + notes
    }

    /// A candidate in one place.
    private static func shadow(_ shadow: JSONValue, of name: String, _ showsDifferences: Bool) -> String {
        let serving = string(shadow["beside"])
        let counts = ["compared", "different", "failed", "skipped"].map { "\(string(shadow[$0])) \($0)" }.joined(separator: ", ")
        var text = "\(name): a shadow of \(serving) in \(string(shadow["place"])): \(counts)\n"
        guard showsDifferences else { return text }
        for difference in rows(shadow, "differences") {
            text += "  \(string(difference["at"])) \(string(difference["collection"])) \(string(difference["id"])): "
            text += "\(serving): \(string(difference["serving"])); \(name): \(string(difference["candidate"]))\n"
        }
        return text
    }

    // MARK: - Cells

    /// `http/401: the words (needs action)`.
    ///
    /// - Parameter isTriedAgain: whether it is retried automatically, as a continuous replicator does with every error: then none is called
    ///   permanent.
    static func error(_ error: JSONValue, isTriedAgain: Bool) -> String {
        let word = string(error["kind"])
        let kind = isTriedAgain && word == "permanent" ? "does not pass by itself" : word.with("_", replacedBy: " ")
        let remedy = error["remedy"]?.asString.map { "; \(TextTable.printable($0))" } ?? ""
        var message = string(error["message"])
        // The message may end with the remedy.
        if !remedy.isEmpty, message.hasSuffix(remedy) { message = String(message.dropLast(remedy.count)) }
        return "\(string(error["domain"]))/\(string(error["code"])): \(message) (\(kind))\(remedy)"
    }

    /// Without the prefix common to all of Couchbase Lite's: `CBMobile_3`, as in `ctx.protocol`; `CouchDB`.
    private static func protocolName(_ owner: JSONValue) -> String {
        owner["protocol"]?.asString.map { TextTable.printable(Subprotocol(rawValue: $0)?.name ?? $0) } ?? "-"
    }

    private static func section(_ table: TextTable, _ empty: String) -> String { "\n" + (table.isEmpty ? "\(empty)\n" : table.text) }

    private static func rows(_ value: JSONValue, _ key: String) -> [JSONValue] { value[key]?.asArray ?? [] }

    private static func string(_ value: JSONValue?) -> String {
        switch value {
        case nil, .null?: "-"
        case .string(let text)?: TextTable.printable(text)
        case .some(let other): other.text
        }
    }

    private static func list(_ value: JSONValue?) -> String {
        let names = value?.asArray?.compactMap(\.asString) ?? []
        return names.isEmpty ? "-" : TextTable.printable(names.joined(separator: ", "))
    }

    /// Where the configuration names the plugin. The agent also has uses of its own for it: one that keeps the channels of each database, and one that
    /// decides conflicts that wait.
    private static func place(_ name: String) -> String {
        let setting = name.firstRange(of: " sync of ").map { String(name[..<$0.lowerBound]) + " sync" } ?? name
        return setting.with(" pending conflicts conflict_resolver", replacedBy: " conflict_resolver")
    }

    /// Each place once, however many collections, databases or hooks it is for; the HTTP feeds that name a filter are counted, each for as long as it lasts.
    private static func places(_ value: JSONValue?) -> String {
        let names = value?.asArray?.compactMap(\.asString) ?? []
        let counts = Dictionary(names.map { (place($0), 1) }, uniquingKeysWith: +).sorted { $0.key < $1.key }
        return list(.array(counts.map { .string($0.value == 1 || !$0.key.hasSuffix(" _changes") ? $0.key : "\($0.key) (\(Plural.count($0.value, "time")))") }))
    }

    static func duration(_ seconds: Double) -> String {
        let whole = Int(seconds)
        let (days, hours, minutes) = (whole / 86_400, whole / 3_600 % 24, whole / 60 % 60)
        if days > 0 { return "\(days) d \(hours) h" }
        if hours > 0 { return "\(hours) h \(minutes) min" }
        if minutes > 0 { return "\(minutes) min \(whole % 60) s" }
        return "\(whole) s"
    }

    /// Rounded up, as in the agent's own texts: a limit never reads as less than it is.
    static func bytes(_ value: JSONValue?) -> String {
        guard let bytes = value?.asInt64 else { return "-" }
        func tenths(of unit: Double) -> String { decimal((Double(bytes) / unit * 10).rounded(.up) / 10, 1) }
        if bytes < 1 << 10 { return "\(bytes) B" }
        if bytes <= 1_023 << 10 { return "\((bytes + 1_023) >> 10) KiB" }
        if bytes < 1 << 30 { return "\(tenths(of: 1_048_576)) MiB" }
        return "\(tenths(of: 1_073_741_824)) GiB"
    }

    /// A number with a fixed number of decimals.
    static func decimal(_ value: Double, _ places: Int) -> String {
        var scale = 1.0
        for _ in 0..<places { scale *= 10 }
        guard value.isFinite, value.magnitude < 1e12 else { return "\(value)" }
        let scaled = Int64((value * scale).rounded())
        let fraction = String(scaled.magnitude % UInt64(scale))
        let zeros = String(repeating: "0", count: max(0, places - fraction.utf8.count))
        return "\(scaled < 0 ? "-" : "")\(scaled.magnitude / UInt64(scale))" + (places == 0 ? "" : ".\(zeros)\(fraction)")
    }
}
