import Environment
import Interfaces
import Logging
import Synchronization

/// State shared by the parts of a plugin host.
final class HostCore: Sendable {
    /// Absolute, with links unresolved: each reading follows them again.
    let folder: String
    /// The only plugin in it that counts; nil for all.
    let only: String?
    let limits: PluginHostLimits
    let services: any PluginServices
    let proof: any PluginProof
    let logger: Logger
    let files: ParameterFiles
    let versionsFolder: String?
    /// Called at each reading of the folder.
    let supplied: @Sendable () -> [SuppliedPlugin]
    /// Called at each reading of the folder.
    let seal: @Sendable () -> PluginSeal?
    let pool: PluginWorkers
    /// Comparisons that candidates still have to make.
    let shadows: ShadowQueue<any ShadowWork>
    /// What the configuration uses, at a start: those are served although their file is gone, as long as nobody has used them yet. Nil
    /// where everything counts as used.
    let expected = Mutex<Set<String>?>(nil)
    /// Plugins for which no stored version may replace one that is missing or refused.
    let barred = Mutex<Set<String>>([])
    let environment: Environment
    private let stops = Atomic(false)
    /// Makes the supervisor check at once; set by the supervisor.
    let wakeSupervisor = Mutex<(@Sendable () -> Void)?>(nil)
    let events = EventHub<PluginEvent>(kept: 1024)
    let records = Mutex<[String: PluginRecord]>([:])
    let folderProblems = Mutex<[PluginProblem]>([])

    init(
        folder: String, only: String?, configurationFolder: String?, limits: PluginHostLimits, services: any PluginServices, proof: any PluginProof,
        versionsFolder: String?, supplied: @escaping @Sendable () -> [SuppliedPlugin], seal: @escaping @Sendable () -> PluginSeal?, logger: Logger, environment: Environment
    ) throws(PluginError) {
        self.folder = Self.absolute(folder)
        self.only = only
        self.limits = limits
        self.services = services
        self.supplied = supplied
        self.seal = seal
        self.proof = proof
        self.logger = logger
        self.environment = environment
        self.versionsFolder = versionsFolder.map { Self.absolute($0) }
        files = ParameterFiles(folders: (configurationFolder.map { [Self.absolute($0)] } ?? []) + [self.folder], limits: limits)
        shadows = .inTurn(environment)
        pool = try PluginWorkers(limits, environment)
    }

    /// The absolute path, without following links.
    static func absolute(_ path: String) -> String { AbsolutePath.make(path) }

    /// The objection of the plugin's tests, or of another proof.
    func prove(_ source: PluginSource, _ limits: PluginLimits) -> PluginProblem? {
        var candidate = PluginCandidate(source, limits, self.limits, environment)
        candidate.isStopping = { [weak self] in self?.isStopping ?? true }
        return proof.prove(candidate)
    }

    /// When set, running tests end after the present case.
    var isStopping: Bool { stops.load(ordering: .relaxed) }

    /// Stops testing; whatever waits for tests is refused.
    func beginStopping() {
        stops.store(true, ordering: .relaxed)
        shadows.stop()
        for record in allRecords() where record.read({ $0.standing }) == .testing {
            record.stand(.failed(PluginProblem(plugin: record.name, file: "\(record.name).lua", message: "the agent stopped before its tests were over")))
        }
    }

    func record(named name: String) -> PluginRecord? { records.withLock { $0[name] } }

    func allRecords() -> [PluginRecord] { records.withLock { $0.values.sorted { $0.name < $1.name } } }
}
