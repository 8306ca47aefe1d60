import Digests
import Encodings
import LuaRuntime
import Synchronization

/// One version of a plugin that has passed every check. Workers keep a state of it for as long as it is referred to.
final class LoadedVersion: Sendable {
    let serial: Int
    let source: PluginSource
    let description: String?
    let hooks: Set<LuaHook>
    let declarations: ParameterDeclarations
    let limits: PluginLimits
    private let pool: PluginWorkers?

    private static let serials = Atomic<Int>(0)

    /// A number that no version or prepared use has had.
    static func nextSerial() -> Int { serials.wrappingAdd(1, ordering: .relaxed).newValue }

    init(
        source: PluginSource, description: String?, hooks: Set<LuaHook>, declarations: ParameterDeclarations, limits: PluginLimits,
        pool: PluginWorkers?
    ) {
        serial = Self.nextSerial()
        self.source = source
        self.description = description
        self.hooks = hooks
        self.declarations = declarations
        self.limits = limits
        self.pool = pool
    }

    deinit { pool?.sweep() }

    var hookNames: [String] { hooks.map(\.rawValue).sorted() }
}

/// Parameters of one use, checked against one version.
final class PreparedUse: Sendable {
    let serial = LoadedVersion.nextSerial()
    /// An object with defaults and the texts of files filled in.
    let params: LuaValue
    /// The plugin's version, and where files are parameters `+` and a hash of them.
    let version: String
    /// What a verdict depends on: the version and, after `~`, a hash of the parameters. A filter's "no" is looked at again
    /// when either changes.
    let judgement: String

    init(params: LuaValue, version: String) {
        self.params = params
        self.version = version
        judgement = version + "~" + Hex.encode(SHA256.hash(params.json.canonicalBytes()).prefix(3))
    }
}

/// Where a call comes from: the part of `ctx` that can differ between two calls of one use.
struct CallContext: Sendable, Equatable {
    var database: String?
    var scope: String?
    var collection: String?
    var direction: String?
    var replicator: String?
    var listener: String?
    var remote: String?
    var user: String?
    var subprotocol: String?
}
