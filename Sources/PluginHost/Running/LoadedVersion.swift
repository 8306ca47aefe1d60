import Digests
import Encodings
import LuaRuntime
import Synchronization

/// One version of a plugin that has passed every check. Workers keep a state for it as long as it is referenced.
final class LoadedVersion: Sendable {
    let serial: Int
    let source: PluginSource
    let description: String?
    let hooks: Set<LuaHook>
    let declarations: ParameterDeclarations
    let limits: PluginLimits
    private let pool: PluginWorkers?

    private static let serials = Atomic<Int>(0)

    /// A number that no other version or prepared use has.
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

/// The parameters of one use, checked against one version.
final class PreparedUse: Sendable {
    let serial = LoadedVersion.nextSerial()
    /// An object that includes defaults and the texts of files.
    let params: LuaValue
    /// The plugin's version; with file parameters, followed by `+` and a hash of the files.
    let version: String
    /// What a verdict depends on: the version and, after `~`, a hash of the parameters. If it changes, rejected documents are
    /// offered to the filter again.
    let judgement: String

    init(params: LuaValue, version: String) {
        self.params = params
        self.version = version
        judgement = version + "~" + Hex.encode(SHA256.hash(params.json.canonicalBytes()).prefix(3))
    }
}

/// The origin of a call: the part of `ctx` that can differ between two calls for the same use.
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
    /// False for a candidate whose plugin also serves: both share one set of `nightjar.state` values.
    var mayWriteState = true
}
