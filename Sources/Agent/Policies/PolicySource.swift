import AgentConfiguration
import DocumentStore
import Encodings
import Glibc
import Interfaces
import LuaRuntime
import PluginHost
import Replication

/// Turns a configuration's plugin references into policies, and errors in them into configuration problems.
package struct PolicySource: Sendable {
    let settings: AgentSettings
    /// Nil if the configuration has no plugins folder.
    let plugins: PluginHost?

    package init(settings: AgentSettings, plugins: PluginHost?) {
        self.settings = settings
        self.plugins = plugins
    }

    func pushFilter(_ reference: PluginReference, usedBy: String) throws(ConfigurationProblem) -> any DocumentFilter {
        let filter = try at(reference) { host, params throws(PluginError) in
            try host.pushFilter(plugin: reference.plugin.value, params: params, usedBy: usedBy)
        }
        return try shadowed(filter, .pushFilter, reference, usedBy: usedBy)
    }

    func pullFilter(_ reference: PluginReference, usedBy: String) throws(ConfigurationProblem) -> any DocumentFilter {
        let filter = try at(reference) { host, params throws(PluginError) in
            try host.pullFilter(plugin: reference.plugin.value, params: params, usedBy: usedBy)
        }
        return try shadowed(filter, .pullFilter, reference, usedBy: usedBy)
    }

    /// Adds the configured shadow, if there is one.
    private func shadowed(
        _ filter: any DocumentFilter, _ hook: LuaHook, _ reference: PluginReference, usedBy: String
    ) throws(ConfigurationProblem) -> any DocumentFilter {
        guard let shadow = reference.shadow else { return filter }
        return try at(PluginReference(shadow)) { host, params throws(PluginError) in
            try host.shadowed(filter, hook: hook, by: shadow.plugin.value, params: params, usedBy: usedBy)
        }
    }

    package func resolver(_ reference: PluginReference, usedBy: String) throws(ConfigurationProblem) -> any ConflictResolver {
        try at(reference) { host, params throws(PluginError) in
            try host.resolver(plugin: reference.plugin.value, params: params, usedBy: usedBy)
        }
    }

    /// The resolver for a place, and the shadow that watches it.
    func conflictPolicy(_ reference: PluginReference?, database: Database, usedBy: String) throws(ConfigurationProblem) -> ConflictPolicy {
        guard let reference else { return ConflictPolicy() }
        let asked = try resolver(reference, usedBy: "\(usedBy) conflict_resolver")
        var policy = ConflictPolicy(resolver: reference.onFailure.value == .defaultRule ? FallbackResolver(resolver: asked) : asked)
        if let shadow = reference.shadow {
            let (watching, counter) = try at(PluginReference(shadow)) { host, params throws(PluginError) in
                try host.shadowResolver(
                    plugin: shadow.plugin.value, params: params, usedBy: "\(usedBy) conflict_resolver", beside: reference.plugin.value)
            }
            policy.shadow = ShadowResolver(watching, database: database, counter: counter)
        }
        return policy
    }

    func passwordAuthenticator(
        _ reference: PluginReference, usedBy: String
    ) throws(ConfigurationProblem) -> any PasswordAuthenticator {
        try at(reference) { host, params throws(PluginError) in
            try host.passwordAuthenticator(plugin: reference.plugin.value, params: params, usedBy: usedBy)
        }
    }

    func certificateAuthenticator(
        _ reference: PluginReference, usedBy: String
    ) throws(ConfigurationProblem) -> any CertificateAuthenticator {
        try at(reference) { host, params throws(PluginError) in
            try host.certificateAuthenticator(plugin: reference.plugin.value, params: params, usedBy: usedBy)
        }
    }

    func transform(_ reference: PluginReference, usedBy: String) throws(ConfigurationProblem) -> any DocumentTransform {
        try at(reference) { host, params throws(PluginError) in
            try host.transform(plugin: reference.plugin.value, params: params, usedBy: usedBy)
        }
    }

    func tokenSource(_ reference: PluginReference, usedBy: String) throws(ConfigurationProblem) -> any TokenSource {
        try at(reference) { host, params throws(PluginError) in
            try host.tokenSource(plugin: reference.plugin.value, params: params, usedBy: usedBy)
        }
    }

    func peerSelector(_ reference: PluginReference, usedBy: String) throws(ConfigurationProblem) -> any PeerSelector {
        try at(reference) { host, params throws(PluginError) in
            try host.peerSelector(plugin: reference.plugin.value, params: params, usedBy: usedBy)
        }
    }

    func observer(_ reference: PluginReference, usedBy: String) throws(ConfigurationProblem) -> PluginObserver {
        try at(reference) { host, params throws(PluginError) in
            try host.observer(plugin: reference.plugin.value, params: params, usedBy: usedBy)
        }
    }

    /// - Parameter isForRouting: whether the function assigns documents to channels; only then are a shadow's assignments compared.
    package func syncFunction(
        _ reference: PluginReference, usedBy: String, isForRouting: Bool = true
    ) throws(ConfigurationProblem) -> any SyncFunction {
        let function = try at(reference) { host, params throws(PluginError) in
            try host.syncFunction(plugin: reference.plugin.value, params: params, usedBy: usedBy)
        }
        guard let shadow = reference.shadow else { return function }
        return try at(PluginReference(shadow)) { host, params throws(PluginError) in
            try host.shadowed(function, by: shadow.plugin.value, params: params, usedBy: usedBy, comparesAssignments: isForRouting)
        }
    }

    private func at<Policy>(
        _ reference: PluginReference, _ make: (PluginHost, LuaValue) throws(PluginError) -> Policy
    ) throws(ConfigurationProblem) -> Policy {
        guard let plugins else {
            throw ConfigurationProblem(
                at: reference.plugin.position,
                "plugin \"\(reference.plugin.value)\" is used, but there is no plugins folder: "
                    + "set \"plugins\" to the folder that holds \(reference.plugin.value).lua")
        }
        do {
            return try make(plugins, LuaValue(reference.params))
        } catch {
            throw ConfigurationProblem(at: reference.place(of: error), reference.words(error))
        }
    }
}

/// A resolver with `on_failure: default_rule`.
private struct FallbackResolver: ConflictResolver {
    let resolver: any ConflictResolver
    var pluginName: String { resolver.pluginName }
    var version: String { resolver.version }
    var fallsBackToRule: Bool { true }

    func resolve(_ conflict: PolicyConflict, _ context: PolicyContext) async -> ConflictDecision { await resolver.resolve(conflict, context) }
    func versionChanges() -> AsyncStream<String> { resolver.versionChanges() }
}

/// What resolves the conflicts of one place; nil for the default rule.
struct ConflictPolicy: Sendable {
    var resolver: (any ConflictResolver)?
    /// Only observes.
    var shadow: ShadowResolver?
}

extension PluginReference {
    /// Treats a shadow like any other place that uses a plugin.
    init(_ shadow: ShadowReference) {
        self.init()
        plugin = shadow.plugin
        params = shadow.params
    }

    /// The same reference without its shadow.
    package var withoutShadow: PluginReference {
        var copy = self
        copy.shadow = nil
        return copy
    }

    /// The plugin that reads a file of users.
    package static let usersPlugin = "password-file"

    /// Where the package installs the plugins that come with it.
    static let packagedPlugins = "/usr/share/nightjar/plugins"

    /// For a missing users file, also says how to create it; for a plugin from the package, where it is.
    func words(_ error: PluginError, packaged: String = PluginReference.packagedPlugins) -> String {
        if case .unknown(let name, let folder, _) = error, access("\(packaged)/\(name).lua", R_OK) == 0 {
            return "\(error); it came with the package: cp \(packaged)/\(name).lua \(folder)/"
        }
        guard plugin.value == Self.usersPlugin, case .parameters(_, _, let problems, _) = error,
            problems.contains(where: { $0.parameter == "file" && $0.message.holds(": looked in ") })
        else { return "\(error)" }
        return "\(error); nightjar user add NAME makes it, with the same --config"
    }

    /// Reports a wrong parameter at its own position.
    func place(of error: PluginError) -> SourcePosition {
        if case .parameters(_, _, let problems, _) = error, let first = problems.first,
            let entry = params?.entries?.first(where: { $0.key.utf8.elementsEqual(first.parameter.utf8) })
        {
            return entry.keyPosition
        }
        return plugin.position
    }
}

extension LuaValue {
    /// Parameters in the form that the configuration has them.
    package init(_ node: ConfigurationNode?) {
        guard let node else {
            self = .missing
            return
        }
        switch node.content {
        case .mapping(let entries):
            self = .object(entries.map { LuaMember(key: $0.key, value: LuaValue($0.value)) })
        case .sequence(let elements):
            self = .array(elements.map { LuaValue($0) })
        case .scalar(let scalar):
            switch scalar.value {
            case .null: self = .null
            case .bool(let value): self = .bool(value)
            case .integer(let value): self = .integer(value)
            case .number(let value): self = .number(value)
            case .string(let value): self = .text(value)
            }
        }
    }
}

extension PluginHostLimits {
    /// The host's limits, and what the configuration sets for particular plugins.
    package init(_ settings: [PluginLimitSettings]) {
        self.init()
        for wanted in settings {
            var limits = PluginLimits()
            if let memory = wanted.memory { limits.state.memoryBytes = memory.value }
            if let value = wanted.cpuMilliseconds {
                limits.filter.cpuMilliseconds = value.value
                limits.authenticator.cpuMilliseconds = value.value
            }
            if let value = wanted.instructions {
                limits.filter.instructions = value.value
                limits.authenticator.instructions = value.value
            }
            if let value = wanted.resolverCPUMilliseconds { limits.resolver.cpuMilliseconds = value.value }
            if let value = wanted.resolverInstructions { limits.resolver.instructions = value.value }
            limits.logLinesPerSecond = wanted.logLinesPerSecond?.value
            perPlugin[wanted.name.value] = limits
        }
    }
}
