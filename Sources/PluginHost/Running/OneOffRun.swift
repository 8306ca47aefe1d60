import Environment

extension Environment {
    /// Runs `body` once on a thread for plugins, with a stack large enough for Lua, and waits without blocking the caller's
    /// executor.
    func runPlugin<Result: Sendable>(
        name: String, stackBytes: Int, _ body: @escaping @Sendable () -> Result
    ) async throws(PluginError) -> Result {
        do throws(ThreadError) { return try await workers.run(name: name, stackBytes: stackBytes, body) } catch {
            throw .system("\(error)")
        }
    }
}
