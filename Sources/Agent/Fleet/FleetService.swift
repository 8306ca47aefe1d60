import AgentConfiguration
import Documents
import DocumentStore
import Environment
import Glibc
import LuaRuntime
import Logging
import PluginHost
import Synchronization
import TLS

/// Brings the plugins that this agent runs into line with the signed documents of `nightjar.fleet`.
///
/// Of each name the highest version counts that is signed by a trusted key and is for this agent. It is loaded and tested in the sandbox,
/// offered to the plugin host, which takes it only if it suits all its uses, and made durable. What fails on the way is refused by
/// name, and the version in force serves on. Then the agent says in one document what it runs, if that is news.
final class FleetService: Sendable {
    struct Refused: Sendable, Equatable {
        var id: String
        var reason: String
        var since: Int64
    }

    let store: FleetStore
    private let settings: FleetSettings
    private let keys: [VerifyingKey]
    private let id: String
    private let limits: PluginHostLimits
    private let environment: Environment
    private let logger: Logger
    private let refused = Mutex<[Refused]>([])
    /// What was refused for good: the same bytes would be again.
    private let known = Mutex<[String: (revision: String, reason: String)]>([:])

    init(_ settings: FleetSettings, data: String, limits: PluginHostLimits, environment: Environment, logger: Logger) throws(AgentError) {
        self.settings = settings
        self.limits = limits
        self.environment = environment
        self.logger = logger
        keys = settings.keys.compactMap { VerifyingKey($0.value) }
        guard keys.count == settings.keys.count else { throw AgentError(.configuration, "fleet.keys: a public key cannot be read") }
        guard let id = settings.id ?? PeerIdentifier.current(data: data, environment.random) else {
            throw AgentError(.failed, "fleet: the peer id cannot be read or made in \(data)")
        }
        self.id = id
        store = try FleetStore(data: data, trusting: keys)
    }

    var refusals: [Refused] { refused.withLock { $0 } }

    /// Until the task is cancelled.
    func run(_ database: Database, _ plugins: PluginHost?) async {
        guard let name = try? CollectionName(parsing: FleetDocument.collection), let collection = database.collection(name) else { return }
        for await _ in database.changeSignal(collection) {
            guard !Task.isCancelled else { return }
            do {
                if settings.accept.contains(.plugins), let plugins { try await look(database, collection, plugins) }
                try await tell(try DocumentAccess(database, collection: name))
            } catch StoreError.closed {
                return
            } catch { logger.error("fleet: \(error)") }
        }
    }

    // MARK: - Taking what is signed

    private func look(_ database: Database, _ collection: Collection, _ plugins: PluginHost) async throws {
        var claims: [String: [(version: Int64, id: DocumentID, revision: String)]] = [:]
        var (since, count): (SequenceNumber, Int) = (0, 0)
        var problems: [(id: String, reason: String)] = []
        while true {
            let from = since
            let rows = try await database.read { try $0.changes(collection, since: from, limit: 1_000, includeBodies: false, includeDeleted: false) }
            guard let last = rows.last else { break }
            since = last.sequence
            for row in rows {
                guard let claim = FleetDocument.claim(row.id.text) else { continue }
                count += 1
                guard count <= FleetDocument.Limits.documents else { continue }
                claims[claim.name, default: []].append((claim.version, row.id, row.revision.text))
            }
        }
        if count > FleetDocument.Limits.documents {
            problems.append((FleetDocument.collection, "it has \(count) documents, more than fleet_documents (\(FleetDocument.Limits.documents)); delete old versions"))
        }
        for (name, found) in claims.sorted(by: { $0.key < $1.key }) {
            // One that was in force once is not news, and neither is anything older.
            for claim in found.sorted(by: { $0.version > $1.version }) where claim.version > store.highest(name) {
                if let reason = known.withLock({ $0[claim.id.text] }), reason.revision == claim.revision {
                    problems.append((claim.id.text, reason.reason))
                    continue
                }
                guard let stored = try await database.read({ try $0.document(collection, claim.id) }), !stored.isDeleted else { continue }
                do throws(FleetRefusal) {
                    let document = try FleetDocument(verifying: stored.body, id: claim.id.text, trusting: keys)
                    guard document.scope.covers(id: id, labels: settings.labels) else { continue }
                    try await take(document, plugins)
                    break
                } catch {
                    known.withLock { $0[claim.id.text] = (claim.revision, error.reason) }
                    problems.append((claim.id.text, error.reason))
                }
            }
        }
        let current = Set(claims.values.joined().map(\.id.text))
        known.withLock { known in known = known.filter { current.contains($0.key) } }
        report(problems)
    }

    private func take(_ document: FleetDocument, _ plugins: PluginHost) async throws(FleetRefusal) {
        do {
            if let problem = try await document.plugin.problem(limits: limits, proof: ProofByTests(), environment: environment) {
                throw FleetRefusal("\(problem)")
            }
        } catch let refusal as FleetRefusal { throw refusal } catch { throw FleetRefusal("it cannot be tried: \(error)") }
        let before = store.used(document.name)
        store.offer(document, for: document.name)
        for verdict in await plugins.reload(document.name) {
            guard case .refused(let problem) = verdict.outcome else { continue }
            store.offer(before, for: document.name)
            _ = await plugins.reload(document.name)
            throw FleetRefusal("\(problem)")
        }
        do throws(FileError) { try store.keep(document) } catch {
            store.offer(before, for: document.name)
            _ = await plugins.reload(document.name)
            throw FleetRefusal("it cannot be stored: \(error)")
        }
        logger.notice("fleet: plugin \(document.name) version \(document.version) is in force", metadata: ["key": "\(document.key.map(String.init(describing:)) ?? "")"])
    }

    private func report(_ problems: [(id: String, reason: String)]) {
        let now = environment.time.wallSeconds()
        let new = refused.withLock { refused -> [Refused] in
            let before = refused
            refused = problems.prefix(FleetDocument.Limits.refusals).map { problem in
                before.first { $0.id == problem.id && $0.reason == problem.reason } ?? Refused(id: problem.id, reason: problem.reason, since: now)
            }
            return refused.filter { !before.contains($0) }
        }
        for each in new { logger.error("fleet: \(each.id) is refused: \(each.reason)") }
    }

    // MARK: - Telling what runs

    /// Writes the status if it says something else than the one that is stored: a status that comes back is no news.
    private func tell(_ access: DocumentAccess) async throws {
        let document = FleetGuard.statusPrefix + id
        var body = JSONObject()
        body["kind"] = .string("status")
        body["id"] = .string(id)
        body["labels"] = .array(settings.labels.map { .string($0) })
        body["agent"] = .string(AgentVersion.number)
        body["plugins"] = .array(store.used.map { JSONOutput.object(["name": .string($0.name), "version": JSONOutput.number($0.version)]) })
        body["refused"] = .array(refusals.map { JSONOutput.object(["id": .string($0.id), "reason": .string($0.reason)]) })
        let stored = try await access.get(document).flatMap { try? JSONValue(parsing: $0) }
        var before = stored?.asObject
        for key in ["_id", "_rev", "at"] { before?[key] = nil }
        if let before, JSONValue.object(before) == .object(body) { return }
        body["at"] = .string(Timestamp.format(environment.time.wallSeconds()))
        if let revision = stored?["_rev"] { body["_rev"] = revision }
        _ = try await access.put(document, JSONValue.object(body).serialize())
    }
}

extension Agent {
    nonisolated func fleetAttention() -> [Attention] {
        (fleet?.refusals ?? []).map {
            Attention(
                .fleetRefused, "fleet \($0.id)", since: $0.since, "is refused, and what was in force goes on: \($0.reason)",
                remedy: "publish a version that is right; nightjar fleet status on the hub shows who refuses it")
        }
    }
}
