import Agent
import Documents
import Encodings

/// Conflicts in the form of `GET /api/conflicts`, for people.
enum ConflictText {
    /// The most differences shown for a pair of documents.
    static let maximumLines = 40

    // MARK: - List

    static func list(_ rows: [JSONValue]) -> String {
        var pending = TextTable(["PENDING", "DATABASE", "COLLECTION", "PLACE", "PLUGIN", "VERSION", "TRIES", "SINCE", "ERROR"], alignsRight: [6])
        var decided = TextTable(
            ["NUMBER", "AT", "DATABASE", "COLLECTION", "ID", "PLACE", "DECISION", "REV", "DECIDED BY", "MS", "SHADOW"], alignsRight: [0, 9])
        for row in rows {
            if row["state"]?.asString == "pending" {
                pending.add(
                    ["id", "database", "collection"].map { string(row[$0]) } + [place(row)]
                        + ["plugin", "version", "tries", "since", "error"].map { string(row[$0]) })
            } else {
                decided.add([
                    string(row["number"]), string(row["at"]), string(row["database"]), string(row["collection"]), string(row["id"]),
                    place(row), string(row["decision"]), string(row["rev"]), decider(row),
                    row["duration_ms"]?.asDouble.map { StatusText.decimal($0, 3) } ?? "-", shadow(row),
                ])
            }
        }
        if pending.isEmpty, decided.isEmpty { return "no conflicts\n" }
        return (pending.isEmpty ? "" : pending.text) + (pending.isEmpty || decided.isEmpty ? "" : "\n") + (decided.isEmpty ? "" : decided.text)
    }

    private static func shadow(_ row: JSONValue) -> String {
        guard let shadow = row["shadow"], !shadow.isNull else { return "-" }
        return "\(string(shadow["plugin"])) \(string(shadow["outcome"]))"
    }

    private static func place(_ row: JSONValue) -> String {
        let place = row["place"]
        return place?["name"]?.asString.map { "\(string(place?["kind"])) \(TextTable.printable($0))" } ?? string(place?["kind"])
    }

    /// For branches without an owner, such as those that came through the CouchDB API, no origin is recorded.
    private static func origin(_ row: JSONValue) -> String {
        row["place"]?["kind"]?.asString == "unknown" ? "between branches that no replicator and no pushing peer is noted for" : "from \(place(row))"
    }

    private static func decider(_ row: JSONValue) -> String {
        row["plugin"]?.asString.map { TextTable.printable($0 + (row["version"]?.asString.map { " \($0)" } ?? "")) } ?? "default rule"
    }

    // MARK: - Show

    /// One conflict with its bodies and their differences.
    static func show(_ row: JSONValue) -> String {
        let isPending = row["state"]?.asString == "pending"
        var text = isPending ? "pending conflict" : "conflict \(string(row["number"]))"
        text += " of document \(string(row["id"])) in \(string(row["database"])), collection \(string(row["collection"]))\n"
        let peer = row["place"]?["peer"]?.asString.map { " (\(TextTable.printable($0)))" } ?? ""
        text += isPending ? "  since \(string(row["since"])), \(origin(row))\(peer)\n" : "  \(string(row["at"])), \(place(row))\(peer)\n"
        text += side("here ", row["local"], "-") + side("there", row["remote"], "-")
        text += side("base ", row["base"], row["base_rev"]?.asString.map { "\($0)  no longer stored" } ?? "none in common")
        if isPending {
            if row["error"]?.asString == nil {
                text += "no resolver has run yet\n"
            } else {
                text += "resolver \(decider(row)) failed, \(Plural.count(row["tries"]?.asInt64 ?? 0, "time")): \(string(row["error"]))\n"
            }
        } else {
            text += side("now  ", row["result"], "-")
            text += "decided by \(decider(row)) in \(row["duration_ms"]?.asDouble.map { StatusText.decimal($0, 3) } ?? "-") ms: "
            text += "\(words(of: row["decision"]?.asString))\n"
        }
        text += differences("here, since the base", row["base"], row["local"]) + differences("there, since the base", row["base"], row["remote"])
        guard !isPending else { return text + differences("there, compared with here", row["local"], row["remote"]) }
        text += differences("now, compared with here", row["local"], row["result"])
        text += differences("now, compared with there", row["remote"], row["result"])
        return text + shadowDetails(row)
    }

    private static func shadowDetails(_ row: JSONValue) -> String {
        guard let shadow = row["shadow"], !shadow.isNull else { return "" }
        let name = "shadow \(string(shadow["plugin"])) \(string(shadow["version"]))"
        switch shadow["outcome"]?.asString {
        case "failed": return "\(name) failed: \(string(shadow["error"]))\n"
        case "same": return "\(name): the same result\n"
        default: break
        }
        var text = "\(name) would have decided: \(words(of: shadow["decision"]?.asString))\n"
        let other: JSONValue? = switch shadow["decision"]?.asString {
        case "local": row["local"]
        case "remote": row["remote"]
        case "merged": shadow["merged"]
        default: JSONValue?.none
        }
        guard let result = row["result"] else { return text }
        if isOmitted(result) || other.map(isOmitted) == true { return text + "  too large to be compared\n" }
        let found = FieldDifference.between(document(result), other.map { document($0) } ?? JSONValue?.none)
        for difference in found.prefix(maximumLines) { text += "  \(difference.asAlternative)\n" }
        return text + more(found)
    }

    static func words(of decision: String?) -> String {
        switch decision {
        case "local": "the local document is kept"
        case "remote": "the remote document is taken"
        case "merged": "both are merged"
        case "delete": "the document is deleted"
        default: "-"
        }
    }

    private static func side(_ title: String, _ side: JSONValue?, _ absent: String) -> String {
        guard let side, !side.isNull else { return "  \(title)  \(TextTable.printable(absent))\n" }
        let body: String
        if let omitted = side["omitted"], !omitted.isNull {
            body = "\(string(omitted["bytes"])) bytes, sha256 \(string(omitted["sha256"])): \(string(omitted["reason"]))"
        } else if let kept = side["body"], !kept.isNull {
            body = TextTable.printable(kept.text)
        } else {
            body = side["deleted"]?.asBool == true ? "deleted" : "no longer stored"
        }
        let version = side["cv"]?.asString.map { "  \($0)" } ?? ""
        return "  \(title)  \(string(side["rev"]))\(version)  \(body)\n"
    }

    private static func differences(_ title: String, _ before: JSONValue?, _ after: JSONValue?) -> String {
        guard let before, let after, !before.isNull, !after.isNull, isKnown(before), isKnown(after) else { return "" }
        let found = FieldDifference.between(document(before), document(after))
        guard !found.isEmpty else { return "\(title): the same\n" }
        return "\(title):\n" + found.prefix(maximumLines).map { "  \($0.asChange)\n" }.joined() + more(found)
    }

    static func more(_ found: [FieldDifference]) -> String {
        let most = found.count == FieldDifference.maximum ? "at least " : ""
        return found.count > maximumLines ? "  and \(most)\(found.count - maximumLines) more\n" : ""
    }

    static func isOmitted(_ side: JSONValue) -> Bool { side["omitted"].map { !$0.isNull } ?? false }

    /// Either the body is present, or it is known that there is none.
    static func isKnown(_ side: JSONValue) -> Bool { side["deleted"]?.asBool == true || side["body"].map { !$0.isNull } ?? false }

    /// A plain `nil` literal here would mean JSON null.
    static func document(_ side: JSONValue) -> JSONValue? { side["body"].flatMap { $0.isNull ? JSONValue?.none : $0 } }

    private static func string(_ value: JSONValue?) -> String {
        switch value {
        case nil, .null?: "-"
        case .string(let text)?: TextTable.printable(text)
        case .some(let other): other.text
        }
    }
}
