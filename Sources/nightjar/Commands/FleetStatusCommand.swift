import Agent
import ArgumentParser
import Documents

extension FleetCommand {
    struct Status: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "status", abstract: "Shows which gateway runs which versions, what it lacks and what it refuses.",
            discussion: """
                A gateway's name is that of its document, which only the user of that name may write over a listener. SINCE is when its status \
                changed last; one that runs on unchanged does not write. What counts as published is what fleet.keys of the configuration or \
                --trust vouch for; where neither names a key, what anybody has signed.
                """)

        @OptionGroup var fleet: FleetLocation
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            try await Failure.reporting {
                let trusted = try fleet.trusted()
                let (published, statuses) = try await fleet.withDocuments { place in
                    let published = try await PublishedVersions(place, trusting: trusted.isEmpty ? nil : trusted)
                    var statuses: [GatewayStatus] = []
                    for id in published.ids {
                        guard let name = GatewayStatus.name(id) else { continue }
                        statuses.append(GatewayStatus(name: name, told: try JSONValue(parsing: try await place.get(id))))
                    }
                    return (published, statuses)
                }
                let gateways = statuses.map { (status: $0, rows: $0.rows(published)) }
                if json { return Output.json(.array(gateways.map { $0.status.json($0.rows) })) }
                guard !gateways.isEmpty else { return Output.line("no gateway has told its status yet") }
                var table = TextTable(["GATEWAY", "LABELS", "AGENT", "PLUGIN", "VERSION", "STATE", "SINCE"], alignsRight: [4])
                for (status, rows) in gateways {
                    for row in rows { table.add(status.cells(row)) }
                    if rows.isEmpty { table.add(status.cells(.init(name: "-", state: "has none"))) }
                }
                Output.write(1, table.text)
            }
        }
    }
}

/// What one gateway says of itself.
private struct GatewayStatus {
    struct Row {
        var name: String
        var running: Int64 = 0
        var published: Int64 = 0
        var refusal: String?
        var state: String
    }

    /// That of the document's id.
    var name: String
    /// As it was written, by whoever may write there.
    var told: JSONValue

    static func name(_ id: String) -> String? { id.hasPrefix("status:") ? String(id.dropFirst(7)) : nil }

    /// The name that the gateway gives itself, where it is another one.
    private var otherName: String? {
        let claimed = told["id"]?.asString ?? ""
        return claimed.utf8.elementsEqual(name.utf8) ? nil : claimed
    }
    private var labels: [String] { told["labels"]?.asArray?.compactMap(\.asString) ?? [] }

    func rows(_ published: PublishedVersions) -> [Row] {
        let running = Dictionary(
            (told["plugins"]?.asArray ?? []).compactMap { plugin in plugin["name"]?.asString.map { ($0, plugin["version"]?.asInt64 ?? 0) } }, uniquingKeysWith: max)
        let wanted = Dictionary(
            published.entries.filter { $0.scope.covers(id: name, labels: labels) }.map { ($0.name, $0.version) }, uniquingKeysWith: max)
        let refused = Dictionary(
            (told["refused"]?.asArray ?? []).compactMap { entry in entry["id"]?.asString.map { ($0, entry["reason"]?.asString ?? "") } },
            uniquingKeysWith: { first, _ in first })
        return Set(running.keys).union(wanted.keys).sorted().map { name in
            let (has, newest) = (running[name] ?? 0, wanted[name] ?? 0)
            let reason = refused[FleetDocument.id(name: name, version: newest)]
            let state = has >= newest ? "current" : reason.map { "refuses \(newest): \($0)" } ?? "behind: \(newest) is published"
            return Row(name: name, running: has, published: newest, refusal: reason, state: state)
        }
    }

    func cells(_ row: Row) -> [String] {
        let gateway = name + (otherName.map { $0.isEmpty ? " (names itself nothing)" : " (calls itself \($0))" } ?? "")
        return [
            gateway, labels.joined(separator: ","), told["agent"]?.asString ?? "", row.name, row.running == 0 ? "-" : "\(row.running)", row.state,
            told["at"]?.asString ?? "",
        ]
    }

    func json(_ rows: [Row]) -> JSONValue {
        JSONOutput.object([
            "id": .string(name), "calls_itself": JSONOutput.text(otherName), "labels": .array(labels.map { .string($0) }), "agent": told["agent"],
            "since": told["at"],
            "plugins": .array(
                rows.map { row in
                    JSONOutput.object([
                        "name": .string(row.name), "version": JSONOutput.number(row.running), "published": JSONOutput.number(row.published),
                        "is_current": .bool(row.running >= row.published), "refused": JSONOutput.text(row.refusal),
                    ])
                }),
            "refused": told["refused"],
        ])
    }
}
