import AgentConfiguration
import DocumentStore
import Environment
import Logging

/// A database that no agent has open, for a command that works in its folder.
package enum UnservedDatabase {
    /// Opens it, or makes it, with the limits that an agent would keep: quota, disk and sizes. A command that went past them would leave a database
    /// that accepts nothing once the agent runs.
    ///
    /// The reserve on the disk (`disk.reserve`) stays as the agent left it.
    ///
    /// - Parameter settings: the configuration; a database that is not in it has the default limits and no quota.
    /// - Throws: ``StoreError``.
    package static func open(_ name: String, in folder: String, _ settings: AgentSettings, environment: Environment = .system) throws -> Database {
        let wanted = settings.database(named: name)
        var options = options(wanted, settings)
        guard let wanted else { return try Database.open(folder: folder, name: name, options: options, environment: environment) }
        let disks = DiskGuard(
            dataFolder: settings.data.value, marks: settings.disk, time: environment.time,
            logger: Logger(label: "nightjar.unserved") { _ in SwiftLogNoOpLogHandler() })
        disks.watch(wanted, folder: folder, &options)
        let database = try Database.open(folder: folder, name: name, options: options, environment: environment)
        do {
            if wanted.quota != nil { try database.blobs.count() }
            return database
        } catch {
            database.close()
            throw error
        }
    }

    /// The options of a database that such a command would open.
    package static func options(_ wanted: DatabaseSettings?, _ settings: AgentSettings) -> DatabaseOptions {
        var options = wanted.map { DatabaseOptions($0) } ?? DatabaseOptions()
        options.maxBlobBytes = UInt64(settings.limits.maxBlobBytes)
        return options
    }
}
