import Glibc
import TestSupport
import Testing

@Suite("A database in memory", .enabled(if: access("/dev/shm", W_OK) == 0, "needs /dev/shm")) struct MemoryDatabaseTests {
    @Test("a data folder on a file system in memory works as on a disk, over restarts as well")
    func sharedMemory() async throws {
        let data = "/dev/shm/nightjar-test-\(getpid())"
        let folder = try TemporaryFolder()
        let configuration = Configuration.hub().replacing("data: data", with: "data: \(data)")
        for number in 0..<2 {
            let hub = try await AgentProcess.start(configuration, in: folder)
            #expect(try await hub.put("main", "d\(number)", "{}").status == 201)
            #expect(try await hub.documents("main") == Int64(number + 1))
            #expect(try await hub.admin.get("/health").status == 200)
            #expect(try await hub.stop().status == 0)
        }
        _ = try await Subprocess.run("/bin/rm", ["-r", data])
    }
}
