import AgentConfiguration
import DocumentStore

extension Agent {
    /// Waits up to ten seconds for a command that is using the database: a start must not fail because somebody is looking at a document.
    func openWhenFree(_ wanted: DatabaseSettings, _ settings: AgentSettings) async throws {
        let pauses = 40
        for attempt in 0..<pauses {
            do { return try open(wanted, settings) } catch let error as StoreError {
                guard case .locked(_, let process) = error else { throw error }
                if attempt == 0 {
                    log.notice("database \(wanted.name.value) is in use by \(process.map { "process \($0)" } ?? "another process"); waiting for its end")
                }
            }
            try await environment.time.sleep(nanoseconds: 250_000_000)
            try throwIfStopping()
        }
        try open(wanted, settings)
    }
}
