import Documents
import Glibc
import Synchronization
import TestSupport
import Testing

/// What goes along with the program: metrics that dashboards name, example configurations, systemd's notices.
@Suite("Deployment")
struct DeploymentTests {
    private static func example(_ path: String) throws -> String {
        String(decoding: try TemporaryFolder.bytes(of: "\(NightjarExecutable.package())/examples/\(path)"), as: UTF8.self)
    }

    @Test("every metric that the dashboard and the alerts name exists")
    func metrics() async throws {
        // One of everything that has figures.
        let folder = try TemporaryFolder()
        try folder.write("plugins/all.lua", "return { push_filter = function(doc) if doc.bad then error('bad') end return true end }\n")
        let hub = try await AgentProcess.start(Configuration.plain)
        let edge = try await AgentProcess.start("""
            data: data
            plugins: plugins
            admin: { port: 0, open: true }
            databases: { main: {} }
            listeners:
              - { name: tls, databases: [ main ], port: 0, interface: 127.0.0.1 }
            replicators:
              - { name: hub, database: main, target: "ws://127.0.0.1:\(try hub.port("edge"))/main", continuous: true, collections: { _default: { push_filter: all } } }

            """, in: folder)
        _ = try await edge.put("main", "good", "{}")
        _ = try await edge.put("main", "bad", #"{"bad":true}"#)
        try await eventually("both were judged") {
            let status = try await edge.replicator("hub")
            return status["held"] == 1 && status["pushed"] == 1
        }
        let text = try await edge.admin.get("/metrics").text
        // Not of this agent: its server speaks clear text.
        let elsewhere: Set = ["nightjar_replicator_server_certificate_expires_seconds", "nightjar_replicator_last_success_seconds"]
        for file in ["monitoring/alerts.yaml", "monitoring/grafana-dashboard.json"] {
            let named = Set(try Self.example(file).matches(of: /(nightjar|process)_[a-z0-9_]+/).map { String($0.0) })
            #expect(named.count > 10, "\(file)")
            for name in named where !elsewhere.contains(name) {
                #expect(text.contains("\n\(name){") || text.contains("\n\(name) ") || text.hasPrefix("\(name){"), "\(file): there is no metric \(name)")
            }
        }
        for name in elsewhere { #expect(try Self.source("Sources/Agent/Metrics/AgentMetrics.swift").contains("\"\(name)\"")) }
        _ = try JSONValue(parsing: Array(Self.example("monitoring/grafana-dashboard.json").utf8))
    }

    private static func source(_ path: String) throws -> String {
        String(decoding: try TemporaryFolder.bytes(of: "\(NightjarExecutable.package())/\(path)"), as: UTF8.self)
    }

    @Test("example configurations are right", arguments: ["hub.yaml", "gateway.yaml", "pair-a.yaml", "pair-b.yaml", "sync-gateway.yaml", "container.yaml", "../debian/nightjar.yaml", "../../browser/nightjar.yaml", "../../fleet/gateway.yaml"])
    func examples(_ name: String) async throws {
        let folder = try TemporaryFolder()
        // Their paths, in a folder of the test's.
        let text = try Self.example("deploy/configurations/\(name)")
        try folder.write(
            "nightjar.yaml", text.replacing("/var/lib/nightjar", with: folder.path("data")).replacing("/etc/nightjar", with: folder.path).replacing("../../plugins", with: folder.path("plugins")))
        for secret in ["hub.secret", "pair.secret", "sync-gateway.secret"] { chmod(try folder.write(secret, "secret\n"), 0o600) }
        folder.makeFolder("plugins")
        try folder.copy("\(NightjarExecutable.package())/plugins/password-file.lua", to: "plugins/password-file.lua")
        let hash = try await NightjarExecutable.run("password", folder: folder.path, input: .text("secret\n")).output
        chmod(try folder.write("users.txt", "ada:\(hash)"), 0o600)
        let outcome = try await NightjarExecutable.run("check", "--config", folder.path("nightjar.yaml"), folder: folder.path)
        #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(name): \(outcome)")
    }

    @Test("the unit lets the agent ask whether the clock is kept right, but does not let it set the clock")
    func unit() throws {
        let lines = try Self.example("deploy/nightjar.service").split(separator: "\n")
        // The last SystemCallFilter counts: the ones before it remove all calls that set the clock.
        #expect(lines.last { $0.hasPrefix("SystemCallFilter=") } == "SystemCallFilter=adjtimex clock_adjtime clock_adjtime64")
        #expect(!lines.contains { $0.hasPrefix("ProtectClock=") })
        #expect(lines.contains("CapabilityBoundingSet=") && lines.contains("PrivateDevices=yes"))
    }

    @Test("a signed plugin and a signed fragment reach a gateway, as the example says")
    func signedFleet() async throws {
        let folder = try TemporaryFolder()
        let outcome = try await Subprocess.run(
            "\(NightjarExecutable.package())/examples/signed-fleet/run", ["--once"],
            environment: ["NIGHTJAR": try NightjarExecutable.path(), "WORK": folder.path("work"), "PATH": "/usr/bin:/bin"], folder: folder.path,
            // A dozen commands one after the other, and a machine may be busy.
            within: .seconds(300))
        #expect(outcome.status == 0, "\(outcome)")
        #expect(outcome.output.contains("config:north:1 is published") && outcome.output.contains("the hot one has left"), "\(outcome)")
        for file in ["hot-only.lua", "hot-only.test.lua"] { try folder.copy("\(NightjarExecutable.package())/examples/signed-fleet/\(file)", to: "plugins/\(file)") }
        let tests = try await NightjarExecutable.run("plugin", "test", "--plugins", folder.path("plugins"))
        #expect(tests.status == 0 && tests.output.contains("3"), "\(tests)")
    }

    @Test("the package has the program with its manual and completions, and every page that its README leads to", .enabled(if: TemporaryFolder.canRun("/usr/bin/dpkg-deb") && TemporaryFolder.canRun("/usr/bin/strip"), "needs dpkg-deb and strip"))
    func package() async throws {
        let folder = try TemporaryFolder()
        // The program of the tests may need Swift's libraries; else such a package is refused.
        let made = try await Subprocess.run(
            "\(NightjarExecutable.package())/examples/deploy/make-package", ["--binary", try NightjarExecutable.path(), "--output", folder.path("out")],
            environment: ["NIGHTJAR_ALLOW_DYNAMIC": "yes", "DPKG_DEB_COMPRESSOR_TYPE": "none", "PATH": "/usr/bin:/bin"], folder: folder.path, within: .seconds(300))
        #expect(made.status == 0, "\(made)")
        let file = try #require(made.output.split(whereSeparator: \.isWhitespace).first { $0.hasSuffix(".deb") }.map(String.init), "\(made)")
        let unpacked = try await Subprocess.run("/usr/bin/dpkg-deb", ["-x", file, folder.path("root")], within: .seconds(120))
        #expect(unpacked.status == 0, "\(unpacked)")
        for name in [
            "usr/bin/nightjar", "lib/systemd/system/nightjar.service", "etc/nightjar/nightjar.yaml", "usr/share/nightjar/plugins/password-file.lua",
            "usr/share/man/man1/nightjar.1.gz", "usr/share/bash-completion/completions/nightjar", "usr/share/doc/nightjar/copyright",
        ] { #expect(folder.exists("root/\(name)"), "\(name)") }
        let doc = "root/usr/share/doc/nightjar"
        for page in ["README.md", "examples/guides/connecting.md", "examples/deploy/README.md"] {
            let above = page.split(separator: "/").dropLast().map { "\($0)/" }.joined()
            let links = try folder.text("\(doc)/\(page)").matches(of: /\]\(([^)#:]+)/).map { String($0.1) }
            #expect(page != "README.md" || links.count > 8)
            for link in links { #expect(folder.exists("\(doc)/\(above)\(link)"), "\(page): \(link)") }
        }
    }

    @Test("the package enables the service at the first installation and at one after a removal, and leaves it as it is at an upgrade")
    func enabling() async throws {
        let folder = try TemporaryFolder()
        for name in ["run", "data", "bin"] { folder.makeFolder(name) }
        for name in ["systemctl", "adduser", "install", "chown", "chmod"] {
            let path = try folder.write("bin/\(name)", "#!/bin/sh\necho \(name) \"$@\" >>\(folder.path("calls"))\n")
            chmod(path, 0o755)
        }
        func run(_ script: String, _ arguments: String...) async throws -> String {
            let text = try Self.example("deploy/debian/\(script)")
                .replacing("/run/systemd/system", with: folder.path("run")).replacing("/var/lib/nightjar", with: folder.path("data"))
            try folder.write(script, text)
            try folder.write("calls", "")
            let outcome = try await Subprocess.run(
                "/bin/sh", [script] + arguments, environment: ["PATH": "\(folder.path("bin")):/usr/bin:/bin"], folder: folder.path)
            #expect(outcome.status == 0, "\(outcome)")
            return try folder.text("calls")
        }
        #expect(try await run("postinst", "configure", "").contains("systemctl enable nightjar.service"))
        let upgrade = try await run("postinst", "configure", "0.0.9")
        #expect(!upgrade.contains("enable") && upgrade.contains("systemctl try-restart nightjar.service"), "\(upgrade)")
        #expect(try await run("prerm", "remove").contains("systemctl disable nightjar.service"))
        #expect(try await run("postinst", "configure", "0.0.9").contains("systemctl enable nightjar.service"))
        #expect(try await !run("postinst", "configure", "0.0.9").contains("enable"))
    }

    @Test("systemd is told of ready, signs of life, a reload and the stop")
    func notices() async throws {
        let folder = try TemporaryFolder()
        let socket = try DatagramSocket(folder.path("notify.sock"))
        let agent = try await AgentProcess.start(Configuration.plain, in: folder, environment: ["NOTIFY_SOCKET": socket.path, "WATCHDOG_USEC": "300000"])
        try await eventually("ready, and alive again and again") {
            socket.all.contains { $0.hasPrefix("READY=1\nSTATUS=listens on edge=127.0.0.1:") } && socket.all.count { $0 == "WATCHDOG=1" } > 3
        }
        #expect(!socket.all.contains { $0.hasPrefix("STOPPING") || $0.hasPrefix("RELOADING") })
        #expect(try await agent.command("reload").status == 0)
        try await eventually("it reloads") { socket.all.contains { $0.hasPrefix("RELOADING=1\nMONOTONIC_USEC=") } && socket.all.count { $0.hasPrefix("READY=1") } == 2 }
        #expect(try await agent.stop().status == 0)
        try await eventually("it stops") { socket.all.contains { $0.hasPrefix("STOPPING=1") } }
    }

    @Test("a watchdog that is meant for another process gets no signs of life")
    func otherWatchdog() async throws {
        let folder = try TemporaryFolder()
        let socket = try DatagramSocket(folder.path("notify.sock"))
        let agent = try await AgentProcess.start(
            Configuration.plain, in: folder, environment: ["NOTIFY_SOCKET": socket.path, "WATCHDOG_USEC": "100000", "WATCHDOG_PID": "1"])
        try await eventually("ready") { socket.all.contains { $0.hasPrefix("READY=1") } }
        #expect(try await agent.stop().status == 0)
        #expect(!socket.all.contains("WATCHDOG=1"))
    }
}

/// Collects what systemd would hear.
private final class DatagramSocket: Sendable {
    let path: String
    private let descriptor: Int32
    private let received = Shared<[String]>([])
    private let isOver = Shared(false)

    init(_ path: String) throws {
        self.path = path
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        let failure = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
        }
        guard failure == 0 else { throw SupportError("\(path): \(String(cString: strerror(errno)))") }
        read()
    }

    /// Reads all the time, as systemd does: a socket of this kind holds ten messages only.
    private func read() {
        let (descriptor, received, isOver) = (descriptor, received, isOver)
        Task.detached {
            try? await offThread {
                var bytes = [UInt8](repeating: 0, count: 4096)
                while !isOver.value.withLock({ $0 }) {
                    var wanted = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
                    guard poll(&wanted, 1, 100) > 0 else { continue }
                    let count = recv(descriptor, &bytes, bytes.count, 0)
                    if count > 0 { received.value.withLock { $0.append(String(decoding: bytes[..<count], as: UTF8.self)) } }
                }
                close(descriptor)
            }
        }
    }

    deinit { isOver.value.withLock { $0 = true } }

    /// Everything so far.
    var all: [String] { received.value.withLock { $0 } }

    /// Shared with the thread that reads.
    private final class Shared<Value: Sendable>: Sendable {
        let value: Mutex<Value>
        init(_ value: Value) { self.value = Mutex(value) }
    }
}
