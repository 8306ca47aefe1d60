import AgentConfiguration
import Documents
import DocumentStore
import Environment
import LuaRuntime
import Logging
import PluginHost
import Synchronization
import TLS

/// Applies the signed documents of `nightjar.fleet` to what this agent runs.
///
/// For each plugin and each configuration fragment, the highest version counts that a trusted key has signed and that is meant for this agent. A
/// plugin is loaded and tested in the sandbox and offered to the plugin host, which takes it only if it suits all its uses; a fragment goes through a
/// reload of the configuration. What was taken is made durable. What fails on the way is refused by name, and what was in force stays in force.
/// Finally the agent writes one document that says what it runs, if that has changed.
final class FleetService: Sendable {
    struct Refused: Sendable, Equatable {
        var id: String
        var reason: String
        var since: Int64
    }

    /// The parts of the agent that apply signed documents.
    struct Hands: Sendable {
        var plugins: @Sendable () -> PluginHost?
        /// The names of the places that use a plugin.
        var uses: @Sendable (_ plugin: String) -> [String]
        /// The older version that serves in place of a plugin's newest because an operator rolled it back.
        var rollback: @Sendable (_ plugin: String) -> PluginRollback?
        /// Puts exactly these fragments in force, or throws what is wrong with the fragment of this name.
        var configure: @Sendable (_ fragments: [ConfigurationFragment], _ name: String) async throws -> [String]
        /// Changed settings that take effect only at the next start.
        var waiting: @Sendable () -> [String]
        /// Fragments that were in force and are left out because the configuration file has changed.
        var leftOut: @Sendable () -> [RefusedFragment]
    }

    enum Limits {
        /// `fleet_retry_seconds`: seconds after which a document refused for a transient reason is retried.
        static let retrySeconds = 300
    }

    let store: FleetStore
    private let settings: FleetSettings
    private let keys: [VerifyingKey]
    private let id: String
    private let hands: Hands
    private let limits: PluginHostLimits
    private let environment: Environment
    private let logger: Logger
    private let refused = Mutex<[Refused]>([])
    /// Documents that were refused and, as far as known, would be refused again.
    private let known = Mutex<[String: (revision: String, refusal: FleetRefusal)]>([:])
    private let wake: AsyncStream<Void>.Continuation
    private let wakes: AsyncStream<Void>

    init(
        _ settings: FleetSettings, data: String, store: FleetStore, limits: PluginHostLimits, hands: Hands, environment: Environment, logger: Logger
    ) throws(AgentError) {
        self.settings = settings
        self.store = store
        self.limits = limits
        self.hands = hands
        self.environment = environment
        self.logger = logger
        keys = settings.keys.compactMap { VerifyingKey($0.value) }
        guard keys.count == settings.keys.count else { throw AgentError(.configuration, "fleet.keys: a public key cannot be read") }
        guard let id = settings.id ?? PeerIdentifier.current(data: data, environment.random) else {
            throw AgentError(.failed, "fleet: the peer id cannot be read or made in \(data)")
        }
        self.id = id
        (wakes, wake) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    var refusals: [Refused] { refused.withLock { $0 } }

    /// Tries refused documents again, because the cause may be gone.
    func retry(passingOnly: Bool = false) {
        let retries = known.withLock { known in
            let before = known.count
            known = known.filter { $0.value.refusal.cause == .document || passingOnly && $0.value.refusal.cause != .passing }
            return known.count < before
        }
        // The operator's change may have removed a fragment, or made one usable again.
        if retries || !passingOnly { wake.yield() }
    }

    /// The status may have changed. Refused documents are not retried: that would end a rollback.
    func reportAgain() { wake.yield() }

    /// Runs until the task is cancelled or the database is closed.
    func run(_ database: Database) async {
        guard let name = try? CollectionName(parsing: FleetDocument.collection), let collection = database.collection(name) else { return }
        await withTaskGroup(of: Void.self) { tasks in
            tasks.addTask { [wake] in
                for await _ in database.changeSignal(collection) { wake.yield() }
                wake.finish()
            }
            tasks.addTask { [weak self, environment] in
                while !Task.isCancelled {
                    guard (try? await environment.time.sleep(seconds: Limits.retrySeconds)) != nil else { return }
                    self?.retry(passingOnly: true)
                }
            }
            tasks.addTask { [wakes] in
                for await _ in wakes {
                    guard !Task.isCancelled else { return }
                    do {
                        try await self.look(database, collection)
                        guard !Task.isCancelled else { return }
                        try await self.tell(try DocumentAccess(database, collection: name))
                    } catch StoreError.closed {
                        return
                    } catch is CancellationError {
                        return
                    } catch { self.logger.error("fleet: \(error)") }
                }
            }
            _ = await tasks.next()
            tasks.cancelAll()
        }
    }

    // MARK: - Taking what is signed

    private struct Claim {
        var version: Int64
        var id: DocumentID
        var revision: String
    }

    private func look(_ database: Database, _ collection: Collection) async throws {
        var claims: [FleetItem: [Claim]] = [:]
        var (since, count): (SequenceNumber, Int) = (0, 0)
        var problems: [(id: String, reason: String)] = []
        let accepted = settings.acceptedKinds
        var hasTaken = false
        while true {
            let from = since
            let rows = try await database.read { try $0.changes(collection, since: from, limit: 1_000, includeBodies: false, includeDeleted: false) }
            guard let last = rows.last else { break }
            since = last.sequence
            for row in rows {
                guard let claim = FleetItem.claim(row.id.text), accepted.contains(claim.item.kind) else { continue }
                count += 1
                guard count <= FleetDocument.Limits.documents else { continue }
                claims[claim.item, default: []].append(Claim(version: claim.version, id: row.id, revision: row.revision.text))
            }
        }
        if count > FleetDocument.Limits.documents {
            problems.append((FleetDocument.collection, "it has \(count) documents, more than fleet_documents (\(FleetDocument.Limits.documents)); delete old versions"))
        }
        for (item, found) in claims.sorted(by: { $0.key < $1.key }) {
            for claim in found.sorted(by: { $0.version > $1.version }) where shouldTry(claim.version, of: item) {
                if let known = known.withLock({ $0[claim.id.text] }), known.revision == claim.revision {
                    problems.append((claim.id.text, known.refusal.reason))
                    continue
                }
                guard let stored = try await database.read({ try $0.document(collection, claim.id) }), !stored.isDeleted else { continue }
                do throws(FleetRefusal) {
                    let document = try FleetDocument(verifying: stored.body, id: claim.id.text, trusting: keys)
                    guard document.scope.covers(id: id, labels: settings.labels) else { continue }
                    try await take(document)
                    hasTaken = true
                    break
                } catch {
                    // After a cancellation only the successor's result counts, since its settings may differ.
                    guard !Task.isCancelled else { throw CancellationError() }
                    known.withLock { $0[claim.id.text] = (claim.revision, error) }
                    problems.append((claim.id.text, error.reason))
                }
            }
        }
        for refused in hands.leftOut() {
            problems.append((FleetItem(.config, refused.fragment.name).id(refused.fragment.version), "it is left out now: \(refused.problems)"))
        }
        let current = Set(claims.values.joined().map(\.id.text))
        known.withLock { known in known = known.filter { current.contains($0.key) } }
        report(problems)
        // What was taken may have removed an obstacle for another document, for example a fragment that used a plugin.
        if hasTaken { retry() }
    }

    /// A version that was once in force is not new, and neither are older ones; except the highest, if it is not in force at present, because what
    /// was wrong may have been fixed since.
    private func shouldTry(_ version: Int64, of item: FleetItem) -> Bool {
        let highest = store.highest(item)
        return version > highest || version == highest && store.used(item) == nil
    }

    private func take(_ document: FleetDocument) async throws(FleetRefusal) {
        let lines: [String]
        switch document.content {
        case .plugin: lines = try await applyPlugin(document)
        case .withdrawn where document.item.kind == .plugin: lines = try await withdrawPlugin(document)
        case .config, .withdrawn: lines = try await applyFragment(document)
        }
        let what = "\(document.item) version \(document.version) is \(document.isWithdrawal ? "withdrawn" : "in force")"
        logger.notice(
            "fleet: \(what)\(lines.isEmpty ? "" : ": \(lines.joined(separator: "; "))")", metadata: ["key": "\(document.key.map(String.init(describing:)) ?? "")"])
    }

    private func applyPlugin(_ document: FleetDocument) async throws(FleetRefusal) -> [String] {
        guard let plugins = hands.plugins(), let plugin = document.plugin else { throw FleetRefusal("no plugins run here", .agent) }
        let problem: PluginProblem?
        do { problem = try await plugin.problem(limits: limits, proof: ProofByTests(), environment: environment) } catch {
            throw FleetRefusal("it cannot be tried: \(error)", .passing)
        }
        // The tests may have run out of time.
        if let problem { throw FleetRefusal("\(problem)", .passing) }
        try await swap(document, plugins) { verdict in
            if case .refused(let problem) = verdict.outcome { "\(problem)" } else { nil }
        }
        return []
    }

    private func withdrawPlugin(_ document: FleetDocument) async throws(FleetRefusal) -> [String] {
        let name = document.item.name
        guard let plugins = hands.plugins(), store.used(document.item)?.plugin != nil else {
            store.offer(document, for: document.item)
            try await keep(document) { $0.offer(nil, for: document.item) }
            return []
        }
        let hasFile = plugins.folderHas(name)
        let uses = hands.uses(name)
        guard hasFile || uses.isEmpty else {
            throw FleetRefusal("it is used by \(uses.joined(separator: ", ")), and there is no file \(name).lua to replace it: remove it from there first", .agent)
        }
        try await swap(document, plugins) { verdict in
            switch verdict.outcome {
            case .refused(let problem): "the file that would replace it is refused: \(problem)"
            case .missing: uses.isEmpty ? nil : "there is no file to replace it"
            default: nil
            }
        }
        return [hasFile ? "the file \(name).lua serves" : "there is no plugin \(name) any more"]
    }

    /// Replaces the previous document with this one, and restores the previous one if the plugin host objects.
    private func swap(_ document: FleetDocument, _ plugins: PluginHost, _ objection: (ReloadVerdict) -> String?) async throws(FleetRefusal) {
        let item = document.item
        let before = store.used(item)
        store.offer(document, for: item)
        for verdict in await plugins.reload(item.name) where verdict.plugin == item.name {
            guard let problem = objection(verdict) else { continue }
            store.offer(before, for: item)
            _ = await plugins.reload(item.name)
            throw FleetRefusal(problem, .agent)
        }
        do throws(FleetRefusal) { try await keep(document) { $0.offer(before, for: item) } } catch {
            _ = await plugins.reload(item.name)
            throw error
        }
    }

    private func applyFragment(_ document: FleetDocument) async throws(FleetRefusal) -> [String] {
        let item = document.item
        let before = store.used(item)
        store.offer(document, for: item)
        let lines: [String]
        do { lines = try await hands.configure(store.fragments, item.name) } catch {
            store.offer(before, for: item)
            throw FleetRefusal("\(error)", .agent)
        }
        do throws(FleetRefusal) { try await keep(document) { $0.offer(before, for: item) } } catch {
            do { _ = try await hands.configure(store.fragments, item.name) } catch { logger.error("fleet: \(item): the previous version cannot be restored: \(error)") }
            throw error
        }
        return lines
    }

    private func keep(_ document: FleetDocument, _ undo: (FleetStore) -> Void) async throws(FleetRefusal) {
        do throws(FileError) { try store.keep(document) } catch {
            undo(store)
            throw FleetRefusal("it cannot be stored: \(error)", .passing)
        }
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

    // MARK: - Reporting what runs

    /// Writes the status if it differs from the stored one; a status that is replicated back is not a change.
    private func tell(_ access: DocumentAccess) async throws {
        let document = FleetGuard.statusPrefix + id
        let used = store.used
        let waiting = hands.waiting()
        func entries(_ kind: FleetItem.Kind) -> JSONValue {
            .array(
                used.filter { $0.item.kind == kind }.map { document in
                    var entry = JSONObject()
                    entry["name"] = .string(document.item.name)
                    entry["version"] = JSONOutput.number(document.version)
                    if document.isWithdrawal { entry["withdrawn"] = true }
                    if let version = document.plugin?.version, let rollback = hands.rollback(document.item.name), rollback.to != version {
                        entry["rolled_back"] = JSONOutput.object(["from": .string(rollback.from), "to": .string(rollback.to)])
                    }
                    return .object(entry)
                })
        }
        var body = JSONObject()
        body["kind"] = .string("status")
        body["id"] = .string(id)
        body["labels"] = .array(settings.labels.map { .string($0) })
        body["agent"] = .string(AgentVersion.number)
        body["accepts"] = .array(settings.acceptedKinds.sorted().map { .string($0.rawValue) })
        body["plugins"] = entries(.plugin)
        body["config"] = entries(.config)
        body["at_next_start"] = .array(waiting.map { .string($0) })
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
