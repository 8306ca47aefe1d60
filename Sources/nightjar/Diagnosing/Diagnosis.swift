import Agent
import AgentConfiguration
import Documents
import DocumentStore
import Encodings
import Environment
import NIOPosix

/// All that `nightjar doctor` looks at, in its order.
struct Diagnosis: Sendable {
    let location: ConfigurationOptions
    var tellsPeers = true
    var readsStore = true

    /// - Parameter each: called with each finding as it comes.
    func findings(_ each: (Finding) -> Void) async -> [Finding] {
        var all: [Finding] = []
        func add(_ some: [Finding]) {
            for finding in some { each(finding) }
            all += some
        }
        // Where an agent runs, its variables and credentials count, and not those of the shell that this is typed into.
        let environment = (try? location.place()).flatMap { AgentEnvironment.of(data: $0.data.value) }
        let (settings, found) = location.examine(environment: environment)
        add(await Doctor.configuration(settings, found, .system))
        guard let settings, settings.knowsDataFolder else { return all }
        add(UsersAdvice.lines(settings).map { Finding("configuration", .warning, $0, mend: "nightjar user list, then nightjar user add or passwd") })
        let group = MultiThreadedEventLoopGroup.singleton
        var agent: AgentClient?
        do { agent = try AgentClient.find(settings, group: group) } catch {
            add([Finding("agent", .wrong, "\(error)", mend: AgentUser.advice(data: settings.data.value))])
        }
        if let agent { add(await health(agent)) } else if all.allSatisfy({ $0.area != "agent" }) {
            add([Finding("agent", .skipped, "no agent runs on \(settings.data.value)")])
        }
        let doctor = Doctor(settings: settings, environment: .system, group: group, isRunning: agent != nil)
        add(await doctor.examine(peers: tellsPeers))
        guard readsStore else { return all }
        for database in settings.databases { add(await store(database, settings, agent)) }
        return all
    }

    private func health(_ agent: AgentClient) async -> [Finding] {
        do {
            let status = try await agent.request("GET", "/api/status")
            let version = status["version"]?.asString ?? "?"
            let other = version == AgentVersion.number ? "" : "; this command is \(AgentVersion.number): restart the agent after an upgrade"
            var findings = [
                Finding(
                    "agent", other.isEmpty ? .ok : .warning,
                    "version \(version) runs, up \(StatusText.duration(status["uptime_seconds"]?.asDouble ?? 0))\(other)")
            ]
            for entry in status["attention"]?.asArray ?? [] {
                let kind = entry["kind"]?.asString ?? ""
                findings.append(
                    Finding(
                        "health", entry["gravity"]?.asString == "unhealthy" ? .wrong : .warning,
                        "\(entry["subject"]?.asString ?? ""): \(entry["text"]?.asString ?? "") (\(kind), since \(entry["since"]?.asString ?? "?"))",
                        mend: entry["remedy"]?.asString.flatMap { $0.isEmpty ? nil : $0 } ?? "nightjar explain \(kind)"))
            }
            return findings
        } catch {
            return [Finding("agent", .wrong, "\(error)", mend: "look into its log, and restart it")]
        }
    }

    private func store(_ wanted: DatabaseSettings, _ settings: AgentSettings, _ agent: AgentClient?) async -> [Finding] {
        let name = wanted.name.value
        do {
            let report: JSONValue
            // Of a running agent it is in what needs attention.
            var clocks: [Finding] = []
            if let agent {
                report = try await agent.request("POST", "/api/databases/\(PercentEncoding.encode(name))/check", timeout: nil)
            } else {
                let folder = "\(settings.data.value)/\(name).nightjar"
                guard DatabaseFolders.isExpected(folder) else { return [Finding("store", .skipped, "database \(name) was not made yet")] }
                let database = try Database.open(folder: folder, name: name, options: DatabaseOptions(wanted))
                defer { database.close() }
                report = DatabaseCare.report(try await database.integrity())
                if let ahead = database.versionsAhead {
                    let text = "database \(name): documents have versions of this machine up to \(Timestamp.format(ahead.through)): the clock was ahead"
                    clocks.append(Finding("time", .warning, text, mend: "nightjar explain versions_ahead"))
                }
            }
            return [Self.judge(report, name)] + clocks
        } catch {
            let isFull = (error as? StoreError)?.isNoRoomToOpen == true
            return [
                Finding(
                    "store", .wrong, "database \(name): \(error)",
                    mend: isFull ? "make room on that disk (df -h \(settings.data.value)), then start the agent" : "nightjar explain database_unreadable")
            ]
        }
    }

    private static func judge(_ report: JSONValue, _ name: String) -> Finding {
        let documents = report["documents"]?.asInt64 ?? 0
        let blobs = report["blobs"]?.asInt64 ?? 0
        let read = "database \(name): \(Plural.count(documents, "document")) and \(Plural.count(blobs, "blob")) read"
        if report["sound"]?.asBool == true { return Finding("store", .ok, "\(read), all sound") }
        let file = (report["file"]?.asArray ?? []).compactMap(\.asString)
        let damaged = (report["damaged"]?.asArray ?? []).compactMap(\.asString)
        let more = report["more"]?.asBool == true ? "; and more" : ""
        return Finding(
            "store", .wrong, "\(read): \((file + damaged).joined(separator: "; "))\(more)",
            mend: file.isEmpty
                ? "nightjar explain documents_damaged; everything else goes on"
                : "nightjar export saves what can be read; then restore a backup (nightjar restore), or replicate anew")
    }
}
