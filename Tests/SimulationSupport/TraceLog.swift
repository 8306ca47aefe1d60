import Logging

/// Writes what a simulated machine logs into the log of the simulation.
struct TraceLog: LogHandler {
    let machine: Int
    let scheduler: Scheduler
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.debug

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let all = metadata.merging(event.metadata ?? [:]) { $1 }.sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }.joined()
        scheduler.say("machine \(machine) \(event.level): \(event.message)\(all)")
    }
}
