import TestSupport
import Testing

/// Where the log goes: standard error, or files of its own.
@Suite("The place of the log") struct LogPlaceTests {
    @Test("is the configured file, and standard error again once a reload removes it")
    func file() async throws {
        let folder = try TemporaryFolder()
        folder.makeFolder("logs")
        let agent = try await AgentProcess.start(Configuration.hub(more: "log: { file: { path: logs/nightjar.log } }\n"), in: folder)
        #expect(!agent.process.errors.contains("database open"), "\(agent.process.errors)")
        #expect(try folder.text("logs/nightjar.log").contains("info database: database open"))
        try folder.write("nightjar.yaml", Configuration.hub())
        let reload = try await agent.command("reload")
        #expect(reload.status == 0, "\(reload)")
        let end = try await agent.stop()
        #expect(end.errors.contains("stopping: SIGTERM"), "\(end)")
        #expect(try !folder.text("logs/nightjar.log").contains("stopping:"))
    }

    @Test("is standard error where the file cannot be written, which says why")
    func unwritable() async throws {
        let agent = try await AgentProcess.start(Configuration.hub(more: "log: { file: { path: logs/nightjar.log } }\n"))
        let check = try await agent.command("check")
        #expect(check.status == 0 && check.errors.contains("log.file: the folder \(agent.folder.path("logs")) is not there"), "\(check)")
        let attention = try await agent.admin.get("/health").json["attention"]?.asArray?.first
        #expect(attention?["kind"] == "log_file_failing" && attention?["gravity"] == "attention", "\(attention?.text ?? "")")
        let end = try await agent.stop()
        let told = end.errors.split(separator: "\n").filter { $0.contains("the log file cannot be written") && !$0.contains("needs attention: ") }
        #expect(told.count == 1 && told.first?.contains("logs/nightjar.log: No such file or directory") == true, "\(end)")
        #expect(end.errors.contains("stopping: SIGTERM"), "\(end)")
    }
}
