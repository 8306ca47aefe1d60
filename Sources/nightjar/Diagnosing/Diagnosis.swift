import Agent
import AgentConfiguration
import Documents
import DocumentStore
import Encodings
import Environment
import Glibc
import NIOPosix

/// Everything that `nightjar doctor` examines, in order.
struct Diagnosis: Sendable {
    let location: ConfigurationOptions
    var tellsPeers = true
    var readsStore = true

    /// - Parameter each: called with each finding as it becomes available.
    func findings(_ each: (Finding) -> Void) async -> [Finding] {
        var all: [Finding] = []
        func add(_ some: [Finding]) {
            // The running agent, its configuration and its data may all say the same.
            for finding in some where !all.contains(where: { $0.verdict == finding.verdict && $0.text == finding.text && $0.mend == finding.mend }) {
                each(finding)
                all.append(finding)
            }
        }
        // For a running agent, its own variables and credentials count, not those of this shell.
        let environment = (try? location.place()).flatMap { AgentEnvironment.of(data: $0.data.value) }
        let (settings, found) = location.examine(environment: environment)
        add(await Doctor.configuration(settings, found, file: location.config, .system))
        guard let settings, settings.knowsDataFolder else { return all }
        if location.config == nil, location.data != nil { add([await noFile(settings)]) }
        add(UsersAdvice.lines(settings).map { Finding("configuration", .warning, $0, mend: "nightjar user list, then nightjar user add, passwd or permit") })
        let group = MultiThreadedEventLoopGroup.singleton
        var agent: AgentClient?
        var ports = Doctor.BoundPorts.none
        do {
            agent = try AgentClient.find(settings, group: group)
            let others = agent == nil ? settings.file.map { RunningAgents.folders(config: $0) } ?? [] : []
            add(others.map { Self.runsElsewhere($0, settings) })
            let other = others.first.map { AgentClient(socket: AdminServer.socketPath(data: $0), group: group) }
            if let running = agent ?? other {
                add(await health(running))
                ports = others.count > 1 ? .unknown : await boundPorts(running, settings)
            } else {
                add([Finding("agent", .skipped, "no agent runs on \(settings.data.value)")])
            }
        } catch {
            // Its ports are no other program's.
            ports = .unknown
            add([Finding("agent", .wrong, "\(error)", mend: AgentUser.advice(data: settings.data.value))])
        }
        let doctor = Doctor(settings: settings, environment: .system, group: group, isRunning: agent != nil, boundPorts: ports)
        add(await doctor.examine(peers: tellsPeers))
        if let agent { add(await counts(agent, settings)) }
        // If an agent is running but does not answer, it holds the databases.
        let isFree = agent == nil && all.allSatisfy { $0.area != "agent" || $0.verdict != .wrong }
        for database in settings.databases where readsStore || isFree { add(await store(database, settings, agent)) }
        return all
    }

    /// A data folder was named without its configuration. What an agent there says is its file is only shown: whoever can write to the folder could
    /// otherwise make root read any file.
    private func noFile(_ settings: AgentSettings) async -> Finding {
        let agent = try? AgentClient.find(settings, group: MultiThreadedEventLoopGroup.singleton)
        let file = try? await agent?.request("GET", "/api/status")["configuration"]?["file"]?.asString
        let examined = "no file was named, and what is examined is the built-in default"
        return Finding(
            "configuration", .warning, file.map { "\(examined): the agent on \(settings.data.value) says that it has \($0)" } ?? examined,
            mend: file.map { "nightjar doctor --config \($0)" } ?? "if there is a file, name it with --config")
    }

    /// The file may have been changed since the agent read it.
    private static func force(_ status: JSONValue) -> [Finding] {
        guard let configuration = status["configuration"], configuration["in_force"]?.asBool == false, let file = configuration["file"]?.asString else { return [] }
        let later = (status["at_next_start"]?.asArray ?? []).compactMap(\.asString)
        return [
            Finding(
                "configuration", .warning, "the agent runs with what \(file) said before: it has been changed since, and what is examined here is the file",
                mend: later.isEmpty ? "nightjar reload" : "restart the agent, for \(later.joined(separator: ", ")); nightjar reload does the rest")
        ]
    }

    /// An agent that was started with this file and stays on another data folder until it ends.
    private static func runsElsewhere(_ folder: String, _ settings: AgentSettings) -> Finding {
        Finding(
            "agent", .warning,
            "an agent that was started with this file runs on the data folder \(folder), not on \(settings.data.value): data in the file has changed since, or --data was given",
            mend: "restart it if the file is right, or correct data there; nightjar doctor --data \(folder) looks at the folder in use")
    }

    /// The ports that a running agent has, or waits for: health says so if it does not get one.
    private func boundPorts(_ agent: AgentClient, _ settings: AgentSettings) async -> Doctor.BoundPorts {
        guard let listeners = try? await agent.request("GET", "/api/status")["listeners"]?.asArray else { return .unknown }
        var ports = Set(listeners.compactMap { $0["port"]?.asInt64.map { Int($0) } })
        let waiting = Set(listeners.filter { $0["error"]?.isNull == false }.compactMap { $0["name"]?.asString })
        for listener in settings.listeners where waiting.contains(listener.name.value) { ports.insert(listener.port.value) }
        return .ofListeners(ports)
    }

    /// How much of their quotas a running agent's databases use, and where tombstones pile up.
    private func counts(_ agent: AgentClient, _ settings: AgentSettings) async -> [Finding] {
        // Why it does not answer has been reported already.
        guard let databases = try? await agent.request("GET", "/api/status")["databases"]?.asArray else { return [] }
        return databases.flatMap { database -> [Finding] in
            let name = database["name"]?.asString ?? ""
            let collections = database["collections"]?.asArray ?? []
            func sum(_ key: String) -> Int { collections.reduce(0) { $0 + Int($1[key]?.asInt64 ?? 0) } }
            var findings = Self.tombstones(sum("deleted"), documents: sum("documents"), settings.databases.first { $0.name.value.utf8.elementsEqual(name.utf8) })
            if let quota = database["quota_bytes"]?.asInt64, let held = database["held_bytes"]?.asInt64 {
                findings.append(Self.judge(held: held, of: quota, name))
            }
            return findings
        }
    }

    /// This many tombstones are worth mentioning, if there are more of them than documents.
    private static let manyTombstones = 1_000

    /// Tombstones are kept forever by default, and are included whenever a peer's feed starts from the beginning.
    private static func tombstones(_ count: Int, documents: Int, _ wanted: DatabaseSettings?) -> [Finding] {
        guard let wanted, wanted.tombstoneAge == nil, count >= manyTombstones, count > documents else { return [] }
        return [
            Finding(
                "store", .warning,
                "database \(wanted.name.value) keeps \(Plural.count(count, "tombstone")) beside \(Plural.count(documents, "document")), and keeps them for ever: it "
                    + "has no tombstone_age",
                mend: "tombstone_age: 7776000 purges each 90 days after its deletion, once it is pushed; choose a time longer than any peer stays away, since a peer "
                    + "that has not heard of a deletion brings the document back")
        ]
    }

    private static func judge(held: Int64, of quota: Int64, _ name: String) -> Finding {
        let text = "database \(name) holds \(StatusText.bytes(JSONOutput.number(held))) of its quota of \(StatusText.bytes(JSONOutput.number(quota)))"
        if DatabaseQuota.isReached(Int(clamping: quota), Int(clamping: held)) {
            return Finding("store", .wrong, "\(text): nothing but deletions is accepted", mend: "\(RoomRemedy.purge), or raise its quota: nightjar explain quota_reached")
        }
        return held <= quota - quota / 8
            ? Finding("store", .ok, text) : Finding("store", .warning, text, mend: "\(RoomRemedy.purge), or raise its quota: nightjar explain quota_reached")
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
            findings += Self.force(status)
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
            // For a running agent, the list of what needs attention includes it.
            var clocks: [Finding] = []
            var quotas: [Finding] = []
            var tombstones: [Finding] = []
            if let agent {
                report = try await agent.request("POST", "/api/databases/\(PercentEncoding.encode(name))/check", timeout: nil)
            } else {
                let folder = "\(settings.data.value)/\(name).nightjar"
                try DatabaseFolders.checkAccess(settings.data.value)
                guard DatabaseFolders.isExpected(folder) else { return readsStore ? [Finding("store", .skipped, "database \(name) was not made yet")] : [] }
                let options = DatabaseOptions(wanted)
                let database = try Database.open(folder: folder, name: name, options: options)
                defer { database.close() }
                if let quota = wanted.quota {
                    try database.blobs.count()
                    quotas.append(Self.judge(held: Int64(options.usage.heldBytes), of: Int64(quota), name))
                }
                let collections = try await database.statistics()
                tombstones = Self.tombstones(
                    collections.reduce(0) { $0 + $1.deleted }, documents: collections.reduce(0) { $0 + $1.documents }, wanted)
                if let ahead = database.versionsAhead {
                    let text = "database \(name): documents have versions of this machine up to \(Timestamp.format(ahead.through)): the clock was ahead"
                    clocks.append(Finding("time", .warning, text, mend: "nightjar explain versions_ahead"))
                }
                // Starting the agent opens the database, and reads no more than that.
                guard readsStore else { return [Finding("store", .ok, "database \(name) opens")] + tombstones + quotas + clocks + Self.restoring(name, settings) }
                report = DatabaseCare.report(try await database.integrity())
            }
            return [Self.judge(report, name)] + tombstones + quotas + clocks + Self.restoring(name, settings)
        } catch let error as AgentError where agent != nil && error.kind == .notFound {
            return [
                Finding(
                    "store", .warning, "the agent that runs has no database \(name): it runs with another configuration than this one",
                    mend: settings.file == nil ? "name the agent's configuration with --config" : "nightjar reload, or name the agent's own configuration with --config")
            ]
        } catch {
            let isFull = (error as? StoreError)?.isOutOfSpaceToOpen == true
            let permission = (error as? StoreError).flatMap { AgentUser.remedy($0, data: settings.data.value, who: "this command") }
            return [
                Finding(
                    "store", .wrong, "database \(name): \(error)",
                    mend: isFull ? "make room on that disk (df -h \(settings.data.value)), then start the agent" : permission ?? "nightjar explain database_unreadable")
            ]
        }
    }

    /// An interrupted restore that had not touched the existing database yet.
    private static func restoring(_ name: String, _ settings: AgentSettings) -> [Finding] {
        let folder = "\(settings.data.value)/\(name)\(DatabaseFolders.suffix)"
        guard access(DatabaseFolders.restoring(folder), F_OK) == 0 else { return [] }
        return [
            Finding(
                "store", .warning, "database \(name): a nightjar restore has not finished, and the database is the one that was there before",
                mend: "give that nightjar restore --replace again, or remove \(DatabaseFolders.restoring(folder))")
        ]
    }

    private static func judge(_ report: JSONValue, _ name: String) -> Finding {
        let documents = report["documents"]?.asInt64 ?? 0
        let blobs = report["blobs"]?.asInt64 ?? 0
        let read = "database \(name): \(Plural.count(documents, "document")) and \(Plural.count(blobs, "blob")) read"
        if report["sound"]?.asBool == true { return Finding("store", .ok, "\(read), all sound") }
        let file = (report["file"]?.asArray ?? []).compactMap(\.asString)
        let damaged = (report["damaged"]?.asArray ?? []).compactMap(\.asString)
        let more = report["more"]?.asBool == true ? "; and more" : ""
        let blobMend = (report["damaged_blobs"]?.asInt64 ?? 0) > 0 ? "\(BlobMend.text(database: name)); " : ""
        return Finding(
            "store", .wrong, "\(read): \((file + damaged).joined(separator: "; "))\(more)",
            mend: file.isEmpty
                ? "\(blobMend)nightjar explain documents_damaged; everything else goes on"
                : "nightjar export saves what can be read; then restore a backup (nightjar restore), or replicate again")
    }
}
