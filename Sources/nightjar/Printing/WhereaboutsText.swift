import Agent
import Documents
import Encodings

/// What `doc why` prints.
enum WhereaboutsText {
    static func text(_ answer: JSONValue) -> String {
        var lines: [String] = []
        let document = answer["document"] ?? .null
        let place = ["database", "collection", "id"].map { TextTable.printable(answer[$0]?.asString ?? "") }
        let figures = document["rev"]?.asString.map { " (revision \($0), sequence \(document["sequence"]?.text ?? "?"))" } ?? ""
        lines.append("\(place[2]) in \(place[0]), collection \(place[1]): \(words(document))\(figures)")
        add(document["remedy"], to: &lines, indented: 2)
        let replicators = answer["replicators"]?.asArray ?? []
        for replicator in replicators {
            lines.append("replicator \(string(replicator, "name")) (\(string(replicator, "type")), \(string(replicator, "target")))")
            if replicator["state"] != nil { statement(replicator, "", to: &lines) }
            if let connection = replicator["connection"], !connection.isNull { statement(connection, "", to: &lines) }
            for way in ["push", "pull"] {
                guard let found = replicator[way] else { continue }
                statement(found, "\(way): ", to: &lines)
            }
        }
        for listener in answer["listeners"]?.asArray ?? [] {
            let peers = listener["peers"]?.asArray ?? []
            lines.append("listener \(string(listener, "name")): \(Plural.count(peers.count, "peer")) of this database connected")
            if let condition = listener["condition"], !condition.isNull { statement(condition, "", to: &lines) }
            if let unrouted = listener["unrouted"], !unrouted.isNull, !peers.contains(where: { $0["state"] == "unrouted" }) { statement(unrouted, "", to: &lines) }
            for peer in peers {
                let user = peer["user"]?.asString.map { " (\(TextTable.printable($0)))" } ?? ""
                statement(peer, "\(string(peer, "address"))\(user): ", to: &lines)
            }
            for key in ["refused_by_peers", "kept_by_peers"] {
                for answer in listener[key]?.asArray ?? [] { statement(answer, "\(string(answer, "peer")): ", to: &lines) }
            }
            if let left = listener["left_out"], !left.isNull { statement(left, "peers of CouchDB's protocol: ", to: &lines) }
            for key in ["not_taken", "requests_refused"] {
                if let pushed = listener[key], !pushed.isNull { statement(pushed, "", to: &lines) }
            }
        }
        if replicators.isEmpty { lines.append("no replicator is configured") }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func statement(_ statement: JSONValue, _ head: String, to lines: inout [String]) {
        lines.append("  \(head)\(words(statement))")
        add(statement["remedy"], to: &lines, indented: 4)
    }

    private static func add(_ remedy: JSONValue?, to lines: inout [String], indented: Int) {
        guard let remedy = remedy?.asString else { return }
        lines.append(String(repeating: " ", count: indented) + "-> \(TextTable.printable(remedy))")
    }

    private static func words(_ statement: JSONValue) -> String {
        let tries = statement["since"]?.asString.map { ", since \($0)" } ?? ""
        return "\(string(statement, "state")): \(string(statement, "text"))\(tries)"
    }

    private static func string(_ value: JSONValue, _ key: String) -> String { TextTable.printable(value[key]?.asString ?? "") }
}
