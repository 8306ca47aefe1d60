import Agent
import AgentConfiguration
import Documents
import Interfaces
import Logging
import LuaRuntime
import PluginHost
import Replication
import Synchronization

/// Runs a candidate resolver over conflicts from the history, in the real sandbox, and shows where it would have decided differently. No data is
/// affected: the candidate can neither read nor write any.
struct Rehearsal: Sendable {
    /// The candidate's result for one conflict.
    struct Outcome: Sendable {
        enum Kind: Sendable {
            case same
            case differs([FieldDifference])
            case failed(PolicyFailure)
            /// Not everything that it needs was recorded.
            case skipped(String)
        }
        var conflict: JSONValue
        var decision: DecisionWord?
        var kind: Kind
    }

    /// local, remote, merged, delete.
    typealias DecisionWord = String

    private let host: PluginHost
    private let resolver: any ConflictResolver
    var plugin: String { resolver.pluginName }
    var version: String { resolver.version }

    /// - Parameter file: `NAME.lua`, or `NAME/init.lua`.
    /// - Throws: ``AgentError`` for a file that is not a plugin, `PluginError` for one that does not load or is not a resolver.
    init(file: String, params: LuaValue, settings: AgentSettings) async throws {
        let (folder, name) = try Self.parts(of: file)
        host = try PluginHost(
            folder: folder, only: name, configurationFolder: settings.folder, limits: PluginHostLimits(settings.pluginLimits),
            services: RehearsalServices(), logger: Logger(label: "rehearsal") { _ in SwiftLogNoOpLogHandler() }, environment: .system)
        await host.start()
        do {
            resolver = try host.resolver(plugin: name, params: params, usedBy: "conflicts replay")
        } catch {
            await host.shutdown()
            throw error
        }
    }

    func end() async { await host.shutdown() }

    static func parts(of file: String) throws(AgentError) -> (folder: String, name: String) {
        var parts = file.split(separator: "/", omittingEmptySubsequences: true).map(String.init)
        let start = file.utf8.first == UInt8(ascii: "/") ? "/" : ""
        guard let last = parts.popLast(), last.hasSuffix(".lua"), last != ".lua" else {
            throw AgentError(.invalid, "\"\(file)\" is not a plugin: expected a file NAME.lua or NAME/init.lua")
        }
        var name = String(last.dropLast(4))
        if name == "init", let folder = parts.popLast() { name = folder }
        let folder = start + parts.joined(separator: "/")
        return (folder.isEmpty ? "." : folder, name)
    }

    /// - Parameter conflict: a decided conflict with its bodies, as ``ConflictSource`` returns it.
    func run(_ conflict: JSONValue) async throws -> Outcome {
        func outcome(_ kind: Outcome.Kind, _ decision: String? = nil) -> Outcome {
            Outcome(conflict: conflict, decision: decision, kind: kind)
        }
        for (name, words) in [("local", "here"), ("remote", "there"), ("base", "base"), ("result", "result")] {
            if let side = conflict[name], ConflictText.isOmitted(side) { return outcome(.skipped("the body \(words) was too large to be kept")) }
        }
        guard let question = try Self.question(conflict), let result = conflict["result"] else {
            return outcome(.skipped("the bodies are not known"))
        }
        let decision = await resolver.resolve(question, try Self.context(conflict))
        if case .failed(let failure) = decision { return outcome(.failed(failure)) }
        let made = ConflictResult(decision, of: question)?.body
        let word = switch decision {
        case .local: "local"
        case .remote: "remote"
        case .merged: "merged"
        case .delete, .failed: "delete"
        }
        let candidate: JSONValue? = if let made { try JSONValue(stored: made) } else { JSONValue?.none }
        let differences = FieldDifference.between(ConflictText.document(result), candidate)
        return outcome(differences.isEmpty ? .same : .differs(differences), word)
    }

    private static func question(_ conflict: JSONValue) throws -> PolicyConflict? {
        guard let id = conflict["id"]?.asString, let local = conflict["local"], let remote = conflict["remote"],
            ConflictText.isKnown(local), ConflictText.isKnown(remote), let localRevision = try revision(local),
            let remoteRevision = try revision(remote)
        else { return nil }
        let document = try DocumentID(id)
        func side(_ side: JSONValue?) throws -> PolicyDocument? {
            guard let side, let revision = try revision(side), let body = ConflictText.document(side) else { return nil }
            return PolicyDocument(id: document, revision: revision, isDeleted: false, body: body.serialize())
        }
        return PolicyConflict(
            id: document, local: try side(local), remote: try side(remote), base: try side(conflict["base"]),
            localRevision: localRevision, remoteRevision: remoteRevision,
            baseRevision: try conflict["base_rev"]?.asString.map { try RevisionID(known: $0) },
            localVersion: local["cv"]?.asString.flatMap { try? VectorVersion($0) },
            remoteVersion: remote["cv"]?.asString.flatMap { try? VectorVersion($0) })
    }

    private static func revision(_ side: JSONValue) throws -> RevisionID? { try side["rev"]?.asString.map { try RevisionID(known: $0) } }

    private static func context(_ conflict: JSONValue) throws -> PolicyContext {
        let place = conflict["place"]
        let kind = place?["kind"]?.asString
        let name = place?["name"]?.asString ?? ""
        return PolicyContext(
            database: conflict["database"]?.asString ?? "", collection: try CollectionName(parsing: conflict["collection"]?.asString ?? ""),
            direction: .pull, replicator: kind == "replicator" ? name : nil, listener: kind == "listener" ? name : nil,
            remote: kind == "save" ? "save" : place?["peer"]?.asString ?? "", user: place?["user"]?.asString)
    }
}

/// What a candidate may use: no documents, and its own state, which starts empty and is discarded.
private final class RehearsalServices: PluginServices {
    /// `max_rehearsal_states`: keys that are kept; the limits of `nightjar.state` apply to each value.
    private static let maximumKeys = 10_000
    private let states = Mutex([String: LuaValue]())

    func readState(plugin: String, key: String) throws(PluginServiceRefusal) -> LuaValue {
        states.withLock { $0["\(plugin)\n\(key)"] } ?? .missing
    }

    func writeState(plugin: String, key: String, value: LuaValue) throws(PluginServiceRefusal) {
        let isKept = states.withLock { states -> Bool in
            if value == .missing {
                states["\(plugin)\n\(key)"] = nil
                return true
            }
            guard states.count < Self.maximumKeys || states["\(plugin)\n\(key)"] != nil else { return false }
            states["\(plugin)\n\(key)"] = value
            return true
        }
        if !isKept { throw PluginServiceRefusal("state holds at most \(Self.maximumKeys) keys in a rehearsal (max_rehearsal_states)") }
    }
}

extension Rehearsal.Outcome {
    var json: JSONValue {
        var outcome = "same"
        var differences: [FieldDifference] = []
        var error: JSONValue = .null
        switch kind {
        case .same: break
        case .differs(let found): (outcome, differences) = ("differs", found)
        case .failed(let failure):
            outcome = "failed"
            error = JSONOutput.object(["kind": .string(failure.kind), "message": .string(failure.message)])
        case .skipped(let why):
            outcome = "skipped"
            error = JSONOutput.object(["kind": .string("not_kept"), "message": .string(why)])
        }
        return JSONOutput.object([
            "number": conflict["number"], "database": conflict["database"], "collection": conflict["collection"], "id": conflict["id"],
            "outcome": .string(outcome), "recorded": conflict["decision"], "decision": JSONOutput.text(decision),
            "differences": .array(differences.map(\.json)), "error": error,
        ])
    }

    /// Nil if there is nothing to report.
    var text: String? {
        let title = "conflict \(conflict["number"]?.text ?? "-") of \(TextTable.printable(conflict["id"]?.asString ?? "-"))"
        switch kind {
        case .same: return nil
        case .skipped(let why): return "\(title): skipped, \(why)\n"
        case .failed(let failure): return "\(title): the candidate failed: \(TextTable.printable("\(failure.kind): \(failure.message)"))\n"
        case .differs(let found):
            let by = conflict["plugin"]?.asString ?? "the default rule"
            var text = "\(title): \(ConflictText.words(of: decision)); \(TextTable.printable(by)) decided: "
            text += "\(ConflictText.words(of: conflict["decision"]?.asString))\n"
            for difference in found.prefix(ConflictText.maximumLines) { text += "  \(difference.asAlternative)\n" }
            return text + ConflictText.more(found)
        }
    }
}
