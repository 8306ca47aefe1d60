import Documents
import Interfaces
import Replication
import Synchronization

/// Announces new versions to any number of listeners.
final class Versions: Sendable {
    private let state = Mutex((version: "1", listeners: [AsyncStream<String>.Continuation]()))
    var current: String { state.withLock { $0.version } }

    func stream() -> AsyncStream<String> {
        let (stream, continuation) = AsyncStream.makeStream(of: String.self)
        state.withLock { $0.listeners.append(continuation) }
        return stream
    }

    func become(_ version: String) {
        let listeners = state.withLock {
            $0.version = version
            return $0.listeners
        }
        for listener in listeners { listener.yield(version) }
    }
}

/// A filter made from a closure that can be replaced, like a new version of a plugin.
final class TestFilter: DocumentFilter, Sendable {
    typealias Rule = @Sendable (PolicyDocument, PolicyContext) -> FilterVerdict
    private let rule: Mutex<Rule>
    private let asked = Mutex([String]())
    private let versions = Versions()
    let pluginName = "test-filter"
    var version: String { versions.current }
    /// The documents it was asked about.
    var questions: [String] { asked.withLock { $0 } }

    init(_ rule: @escaping Rule) { self.rule = Mutex(rule) }

    func evaluate(_ documents: [PolicyDocument], _ context: PolicyContext) async -> [FilterVerdict] {
        let rule = rule.withLock { $0 }
        asked.withLock { $0 += documents.map(\.id.text) }
        return documents.map { rule($0, context) }
    }

    func versionChanges() -> AsyncStream<String> { versions.stream() }

    func become(_ version: String, _ new: @escaping Rule) {
        rule.withLock { $0 = new }
        versions.become(version)
    }

    func failure(_ kind: String = "plugin_error") -> FilterVerdict {
        .failed(PolicyFailure(plugin: pluginName, version: version, kind: kind, message: "filter.lua:1: broken"))
    }
}

/// A resolver made from a closure.
final class TestResolver: ConflictResolver, Sendable {
    typealias Rule = @Sendable (PolicyConflict) -> ConflictDecision
    private let rule: Mutex<Rule>
    private let versions = Versions()
    let pluginName = "test-resolver"
    var version: String { versions.current }

    init(_ rule: @escaping Rule) { self.rule = Mutex(rule) }

    func resolve(_ conflict: PolicyConflict, _ context: PolicyContext) async -> ConflictDecision {
        let rule = rule.withLock { $0 }
        return rule(conflict)
    }

    func versionChanges() -> AsyncStream<String> { versions.stream() }

    func become(_ version: String, _ new: @escaping Rule) {
        rule.withLock { $0 = new }
        versions.become(version)
    }
}

/// A sync function made from a closure over the document's JSON.
final class TestSync: SyncFunction, Sendable {
    typealias Rule = @Sendable (JSONObject, SyncRequest) -> SyncVerdict
    private let rule: Mutex<Rule>
    private let asked = Mutex([String]())
    private let versions = Versions()
    let pluginName = "test-sync"
    var version: String { versions.current }
    /// The documents it was asked about, with a `+` after those that had an old revision.
    var questions: [String] { asked.withLock { $0 } }

    init(_ rule: @escaping Rule = TestSync.byFields) { self.rule = Mutex(rule) }

    /// `{"in": [channels], "give": {user: [channels]}, "no": reason, "fail": true, "owner": user}`; only the owner may change a document.
    static let byFields: Rule = { object, request in
        if let reason = object["no"]?.asString { return .rejected(reason: reason) }
        if object["fail"] != nil { return .failed(PolicyFailure(plugin: "test-sync", version: "1", kind: "plugin_error", message: "sync.lua:1: broken")) }
        if !request.caller.isAdmin, case .object(let old)? = request.old.flatMap({ try? JSONValue(parsing: $0.body) }),
            let owner = old["owner"]?.asString, owner != request.caller.name
        {
            return .rejected(reason: "wrong user")
        }
        func texts(_ value: JSONValue?) -> [String] {
            guard case .array(let items)? = value else { return [] }
            return items.compactMap(\.asString)
        }
        var assignment = SyncAssignment(channels: texts(object["in"]))
        if case .object(let give)? = object["give"] {
            for member in give.members { assignment.access[member.key] = texts(member.value) }
        }
        return .accepted(assignment)
    }

    func assign(_ requests: [SyncRequest], _ context: PolicyContext) async -> [SyncVerdict] {
        let rule = rule.withLock { $0 }
        asked.withLock { $0 += requests.map { $0.document.id.text + ($0.old == nil ? "" : "+") } }
        return requests.map { request in
            guard case .object(let object)? = try? JSONValue(parsing: request.document.body) else { return .rejected(reason: "no object") }
            return rule(object, request)
        }
    }

    func versionChanges() -> AsyncStream<String> { versions.stream() }

    func become(_ version: String, _ new: @escaping Rule) {
        rule.withLock { $0 = new }
        versions.become(version)
    }
}
