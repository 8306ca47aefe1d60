import Glibc

/// A separate machine as far as network, host name and `/run` are concerned: it consists of Linux namespaces, with a system bus and, once it
/// is started, Avahi. Two of them are connected by a cable. They end with the test.
package final class LinkedMachine: Sendable {
    package let name: String
    package let address: String
    /// Keeps the namespaces alive.
    private let holder: Subprocess
    private let folder: TemporaryFolder

    /// Whether this machine lets this user make such namespaces and has the programs that they need.
    package static func isPossible() async -> Bool {
        guard geteuid() == 0, ["/usr/sbin/avahi-daemon", "/usr/bin/dbus-daemon", "/usr/bin/nsenter"].allSatisfy(TemporaryFolder.canRun) else { return false }
        let outcome = try? await Subprocess.run(
            "/usr/bin/unshare", ["-n", "-m", "-u", "sh", "-c", "mount -t tmpfs tmpfs /run && ip link add test0 type veth peer name test1"])
        return outcome?.status == 0
    }

    /// Two machines connected by a cable.
    package static func pair(_ first: String, _ second: String) async throws -> (LinkedMachine, LinkedMachine) {
        let one = try await LinkedMachine(first, address: "10.99.0.1")
        let other = try await LinkedMachine(second, address: "10.99.0.2")
        try await one.link(to: other)
        return (one, other)
    }

    private init(_ name: String, address: String) async throws {
        (self.name, self.address) = (name, address)
        folder = try TemporaryFolder()
        let bus = try folder.write(
            "bus.conf",
            """
            <busconfig><type>system</type><listen>unix:path=/run/dbus/system_bus_socket</listen><auth>EXTERNAL</auth>
            <policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/></policy></busconfig>
            """)
        // The shell becomes the bus, which ends with the holder. Nothing that is started later outlives the process namespace.
        holder = try Subprocess(
            "/usr/bin/unshare",
            [
                "-n", "-m", "-u", "sh", "-c",
                "hostname \(name) && mount -t tmpfs tmpfs /run && mkdir -p /run/dbus /run/avahi-daemon && ip link set lo up && exec dbus-daemon --config-file=\(bus) --nofork --nopidfile",
            ], folder: folder.path)
        try await eventually("the bus of \(name) listens") { [holder] in access("/proc/\(holder.pid)/root/run/dbus/system_bus_socket", F_OK) == 0 }
    }

    private func link(to other: LinkedMachine) async throws {
        try await Self.succeeds("/sbin/ip", ["link", "add", "cable", "netns", "\(holder.pid)", "type", "veth", "peer", "name", "cable", "netns", "\(other.holder.pid)"])
        for machine in [self, other] {
            try await Self.succeeds("/usr/bin/nsenter", machine.arguments(["ip", "addr", "add", "\(machine.address)/24", "dev", "cable"]))
            try await Self.succeeds("/usr/bin/nsenter", machine.arguments(["ip", "link", "set", "cable", "up"]))
        }
    }

    private static func succeeds(_ program: String, _ arguments: [String]) async throws {
        let outcome = try await Subprocess.run(program, arguments)
        guard outcome.status == 0 else { throw SupportError("\(program) \(arguments): \(outcome)") }
    }

    private func arguments(_ command: [String]) -> [String] { ["-t", "\(holder.pid)", "-n", "-m", "-u", "--"] + command }

    /// Starts its Avahi, which runs for as long as somebody keeps what is returned.
    package func startAvahi() async throws -> Subprocess {
        let configuration = try folder.write(
            "avahi.conf",
            """
            [server]
            allow-interfaces=cable
            ratelimit-burst=1000
            [wide-area]
            enable-wide-area=no
            [publish]
            publish-workstation=no
            """)
        let avahi = try Subprocess(
            "/usr/bin/nsenter", arguments(["avahi-daemon", "--no-drop-root", "--no-chroot", "--no-rlimits", "-f", configuration]), folder: folder.path)
        _ = try await avahi.line(containing: "Server startup complete", in: .errors)
        return avahi
    }

    /// Starts an agent on this machine.
    ///
    /// - Parameter folder: an earlier agent's folder, to run on its data.
    package func start(_ configuration: String, in folder: TemporaryFolder? = nil, files: [String: String] = [:]) async throws -> AgentProcess {
        let folder = try folder ?? TemporaryFolder()
        for (path, text) in files { try folder.write(path, text) }
        let file = try folder.write("nightjar.yaml", configuration)
        let process = try Subprocess("/usr/bin/nsenter", arguments([try NightjarExecutable.path(), "run", "--config", file]), folder: folder.path)
        return AgentProcess(process: process, folder: folder, ready: try await process.line(containing: "ready"))
    }

    /// Runs a command of `nightjar` on this machine.
    package func nightjar(_ arguments: String...) async throws -> Subprocess.Outcome {
        try await Subprocess.run("/usr/bin/nsenter", self.arguments([try NightjarExecutable.path()] + arguments))
    }
}
