import Environment
import Interfaces
import Logging
import Synchronization

/// What the parts of a plugin host share.
final class HostCore: Sendable {
    /// Absolute, links not resolved: each reading follows them anew.
    let folder: String
    /// The one plugin of it that counts; nil for all.
    let only: String?
    let limits: PluginHostLimits
    let services: any PluginServices
    let proof: any PluginProof
    let logger: Logger
    let files: ParameterFiles
    let versionsFolder: String?
    /// Asked at each reading of the folder.
    let supplied: @Sendable () -> [SuppliedPlugin]
    /// Asked at each reading of the folder, too.
    let seal: @Sendable () -> PluginSeal?
    let pool: PluginWorkers
    /// What candidates are still to be asked.
    let shadows: ShadowQueue<any ShadowWork>
    /// What the configuration uses, at a start: those are served although their file is gone, as long as nobody has used them yet. Nil
    /// where everything counts as used.
    let expected = Mutex<Set<String>?>(nil)
    /// Plugins of which no version that was kept may stand in for one that is gone or refused.
    let barred = Mutex<Set<String>>([])
    let environment: Environment
    private let stops = Atomic(false)
    /// Makes the supervisor look at once; set by it.
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

    /// The path from the root, without following links.
    static func absolute(_ path: String) -> String { AbsolutePath.make(path) }

    /// What the tests beside a plugin, or whoever else is asked, have against it.
    func prove(_ source: PluginSource, _ limits: PluginLimits) -> PluginProblem? {
        var candidate = PluginCandidate(source, limits, self.limits, environment)
        candidate.isStopping = { [weak self] in self?.isStopping ?? true }
        return proof.prove(candidate)
    }

    /// Tests that run end after the case they are at.
    var isStopping: Bool { stops.load(ordering: .relaxed) }

    /// Nothing is tested any more; what waits for tests is refused.
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
