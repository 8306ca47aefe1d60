import Agent
import ArgumentParser
import Documents

extension FleetCommand {
    struct Status: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "status", abstract: "Shows which gateway runs which versions, what it lacks and what it refuses.",
            discussion: """
                A gateway's name is that of its document, which only the user of that name may write over a listener. SINCE is when its status \
                changed last; one on which nothing changes does not write. What counts as published is what fleet.keys of the configuration or \
                --trust vouch for; where neither names a key, what anybody has signed.
                """)

        @OptionGroup var fleet: FleetLocation
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            try await Failure.reporting {
                let (trusted, own) = (try fleet.trusted(), try fleet.location.fleetID())
                let (published, statuses) = try await fleet.withDocuments { place in
                    let published = try await PublishedVersions(place, trusting: trusted.isEmpty ? nil : trusted)
                    var statuses: [GatewayStatus] = []
                    for id in published.ids {
                        guard let name = GatewayStatus.name(id) else { continue }
                        let status = GatewayStatus(name: name, told: try JSONValue(parsing: try await place.get(id)))
                        // The hub has the fleet's database, but is not one of its gateways.
                        if name == own, status.takesNothing { continue }
                        statuses.append(status)
                    }
                    return (published, statuses)
                }
                let gateways = statuses.map { (status: $0, rows: $0.rows(published)) }
                if json { return Output.json(.array(gateways.map { $0.status.json($0.rows) })) }
                guard !gateways.isEmpty else { return Output.line("no gateway has reported its status yet") }
                var table = TextTable(["GATEWAY", "LABELS", "AGENT", "KIND", "NAME", "VERSION", "STATE", "SINCE"], alignsRight: [5])
                for (status, rows) in gateways {
                    for row in rows { table.add(status.cells(row)) }
                    if rows.isEmpty { table.add(status.cells(.init(item: nil, state: "has none"))) }
                }
                Output.write(1, table.text)
            }
        }
    }
}

/// What one gateway reports about itself.
private struct GatewayStatus {
    struct Row {
        /// Nil for something without a version of its own.
        var item: FleetItem?
        /// The id of some other document that it refuses.
        var id = "-"
        var running: Int64 = 0
        var published: Int64 = 0
        var refusal: String?
        /// The older version of a plugin that serves there because an operator rolled it back.
        var rolledBackTo: String?
        var state: String
    }

    /// The name in the document's id.
    var name: String
    /// The status as it was written, by anybody with permission to write there.
    var told: JSONValue

    static func name(_ id: String) -> String? { id.hasPrefix("status:") ? String(id.dropFirst(7)) : nil }

    /// The name that the gateway gives itself, if it is a different one.
    private var otherName: String? {
        let claimed = told["id"]?.asString ?? ""
        return claimed.utf8.elementsEqual(name.utf8) ? nil : claimed
    }
    private var labels: [String] { told["labels"]?.asArray?.compactMap(\.asString) ?? [] }

    /// An agent that does not report this accepts only plugins.
    private var accepted: Set<String> { told["accepts"]?.asArray.map { Set($0.compactMap(\.asString)) } ?? [FleetItem.Kind.plugin.rawValue] }

    /// Its configuration accepts nothing, and nothing is left from before.
    var takesNothing: Bool { accepted.isEmpty && running(.plugin).isEmpty && running(.config).isEmpty && told["refused"]?.asArray?.isEmpty != false }

    private struct Running {
        var version: Int64
        var isWithdrawn: Bool
        var rolledBackTo: String?
    }

    private func running(_ kind: FleetItem.Kind) -> [FleetItem: Running] {
        let entries = told[kind == .plugin ? "plugins" : "config"]?.asArray ?? []
        return Dictionary(
            entries.compactMap { entry in
                entry["name"]?.asString.map { name in
                    let running = Running(
                        version: entry["version"]?.asInt64 ?? 0, isWithdrawn: entry["withdrawn"]?.asBool == true,
                        rolledBackTo: entry["rolled_back"]?["to"]?.asString)
                    return (FleetItem(kind, name), running)
                }
            }, uniquingKeysWith: { first, _ in first })
    }

    func rows(_ published: PublishedVersions) -> [Row] {
        let running = running(.plugin).merging(running(.config)) { first, _ in first }
        let wanted = Dictionary(
            published.entries.filter { $0.scope.covers(id: name, labels: labels) }.map { ($0.item, $0) }, uniquingKeysWith: { $0.version > $1.version ? $0 : $1 })
        var refused = Dictionary(
            (told["refused"]?.asArray ?? []).compactMap { entry in entry["id"]?.asString.map { ($0, entry["reason"]?.asString ?? "") } },
            uniquingKeysWith: { first, _ in first })
        let waiting = (told["at_next_start"]?.asArray ?? []).compactMap(\.asString)
        var rows = Set(running.keys).union(wanted.keys).sorted().map { item in
            let (has, newest) = (running[item]?.version ?? 0, wanted[item]?.version ?? 0)
            let reason = refused.removeValue(forKey: item.id(max(has, newest)))
            var state: String =
                if let reason { "refuses \(max(has, newest)): \(reason)" }
                else if has >= newest {
                    (running[item]?.isWithdrawn == true ? "withdrawn" : "current")
                        + (item.kind == .config && !waiting.isEmpty ? "; \(waiting.joined(separator: ", ")) at its next start" : "")
                } else if !accepted.contains(item.kind.rawValue) { "not accepted there: \(newest) is published" }
                else { "behind: \(newest) is \(wanted[item]?.isWithdrawal == true ? "its withdrawal" : "published")" }
            let older = running[item]?.rolledBackTo
            if let older {
                let why = "rolled back there to \(older) (nightjar plugin rollback), until it takes a newer version or nightjar plugin reload \(item.name)"
                state = reason == nil && has >= newest ? why : "\(why); \(state)"
            }
            return Row(item: item, running: has, published: newest, refusal: reason, rolledBackTo: older, state: state)
        }
        // Documents signed by other keys, or beyond the limit.
        for (id, reason) in refused.sorted(by: { $0.key < $1.key }) { rows.append(Row(item: nil, id: id, refusal: reason, state: "refuses it: \(reason)")) }
        return rows
    }

    func cells(_ row: Row) -> [String] {
        let gateway = name + (otherName.map { $0.isEmpty ? " (names itself nothing)" : " (calls itself \($0))" } ?? "")
        return [
            gateway, labels.joined(separator: ","), told["agent"]?.asString ?? "", row.item?.kind.rawValue ?? "-", row.item?.name ?? row.id,
            row.running == 0 ? "-" : "\(row.running)", row.state, told["at"]?.asString ?? "",
        ]
    }

    func json(_ rows: [Row]) -> JSONValue {
        func list(_ kind: FleetItem.Kind) -> JSONValue {
            .array(
                rows.filter { $0.item?.kind == kind }.map { row in
                    JSONOutput.object([
                        "name": .string(row.item?.name ?? ""), "version": JSONOutput.number(row.running), "published": JSONOutput.number(row.published),
                        "is_current": .bool(row.running >= row.published && row.rolledBackTo == nil), "rolled_back_to": JSONOutput.text(row.rolledBackTo), "refused": JSONOutput.text(row.refusal), "state": .string(row.state),
                    ])
                })
        }
        return JSONOutput.object([
            "id": .string(name), "calls_itself": JSONOutput.text(otherName), "labels": .array(labels.map { .string($0) }), "agent": told["agent"],
            "since": told["at"], "plugins": list(.plugin), "config": list(.config), "refused": told["refused"],
        ])
    }
}
