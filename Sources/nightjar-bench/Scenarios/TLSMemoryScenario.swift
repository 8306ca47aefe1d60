import Glibc
import Interfaces
import NIOPosix
import Replication
import Transport

/// The cost of one idle peer to a listener: a WebSocket with its replication session, over TLS and in clear text.
struct TLSMemoryScenario {
    var connections = 1_000
    var rounds = 3

    /// Opened before the first measurement, so that one-time allocations do not count.
    private static let warmUp = 50

    func run(_ scratch: Scratch) async throws -> Report {
        try allowDescriptors()
        let secure = "\(scratch.path)/identity"
        try Files.makeFolder(secure)
        _ = try BenchIdentity(folder: secure)
        var clear: [Double] = []
        var encrypted: [Double] = []
        for round in 0..<rounds {
            clear.append(try await kilobytes("\(scratch.path)/clear-\(round).nightjar", nil))
            encrypted.append(try await kilobytes("\(scratch.path)/tls-\(round).nightjar", secure))
        }
        var report = Report(scenario: "tls-memory", title: "resident memory of a listener for each of \(connections) idle connections (KB of 2^10 bytes)")
        report.add("clear text", "KB", clear)
        report.goal("TLS", "KB", encrypted, .atMost, 120)
        report.notes.append("VmRSS of the listener's process, with the replication session that waits on each connection")
        return report
    }

    private func kilobytes(_ folder: String, _ secure: String?) async throws -> Double {
        let count = connections + Self.warmUp
        let hub = try Child(
            try Child.ownPath(), ["hub-child", "--folder", folder, "--connections", "\(count)"] + (secure.map { ["--secure", $0] } ?? []))
        let port = Int(try hub.values().number("port"))
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        var configuration = WebSocketClient.Configuration(url: try EndpointURL("\(secure == nil ? "ws" : "wss")://127.0.0.1:\(port)/hub"))
        configuration.secureLayer = try secure.map { try BenchIdentity(folder: $0).client() }
        let client = WebSocketClient(configuration, group: group, environment: .system)
        var peers: [any MessageTransport] = []
        for _ in 0..<Self.warmUp { peers.append(try await client.connect()) }
        try await Task.sleep(for: .seconds(1))
        let before = try residentMegabytes("VmRSS", process: hub.process)
        for _ in 0..<connections { peers.append(try await client.connect()) }
        try await Task.sleep(for: .seconds(2))
        let after = try residentMegabytes("VmRSS", process: hub.process)
        for peer in peers { peer.close(code: 1000, reason: "") }
        hub.closeInput()
        _ = try hub.values()
        hub.wait()
        try await group.shutdownGracefully()
        Files.remove(folder)
        return (after - before) * 1024 / Double(connections)
    }

    /// Each connection needs a socket on both sides, also in the listener's process, which inherits the limit.
    func allowDescriptors() throws {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { throw Files.failure("getrlimit") }
        let wanted = rlim_t(connections + Self.warmUp + 200)
        guard limit.rlim_cur < wanted else { return }
        guard limit.rlim_max >= wanted else { throw BenchError("\(wanted) open files are needed, and \(limit.rlim_max) are allowed (ulimit -Hn)") }
        limit.rlim_cur = wanted
        guard setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { throw Files.failure("setrlimit") }
    }
}
