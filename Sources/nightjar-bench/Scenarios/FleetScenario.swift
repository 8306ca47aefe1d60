import BLIP
import Interfaces
import NIOCore
import NIOPosix
import Replication
import Synchronization
import Transport

/// A fleet that follows a hub: what each idle continuous pull costs the hub, and how long one write takes to reach all of them.
struct FleetScenario {
    var connections = 1_000
    var writes = 5
    var rounds = 3

    /// Followers connected before the first measurement, so that one-time allocations do not count.
    private static let warmUp = 50

    func run(_ scratch: Scratch) async throws -> Report {
        try TLSMemoryScenario(connections: connections).allowDescriptors()
        let secure = "\(scratch.path)/identity"
        try Files.makeFolder(secure)
        _ = try BenchIdentity(folder: secure)
        var clear = Measured()
        var encrypted = Measured()
        for round in 0..<rounds {
            try await measure("\(scratch.path)/clear-\(round).nightjar", nil, &clear)
            try await measure("\(scratch.path)/tls-\(round).nightjar", secure, &encrypted)
        }
        var report = Report(scenario: "fleet", title: "\(connections) continuous pulls of one hub that are idle, then \(writes) writes one after the other")
        report.goal("memory of the hub for each, clear text", "KB", clear.kilobytes, .atMost, 12)
        report.goal("memory of the hub for each, TLS", "KB", encrypted.kilobytes, .atMost, 30)
        report.goal("one write until it has reached all, clear text", "ms", clear.milliseconds, .atMost, 300)
        report.goal("one write until it has reached all, TLS", "ms", encrypted.milliseconds, .atMost, 300)
        report.add("peak memory of the hub, clear text", "MB", clear.peak)
        report.add("peak memory of the hub, TLS", "MB", encrypted.peak)
        report.notes.append("VmRSS of the hub's process (KB of 2^10 bytes); the followers speak the protocol and store nothing; \(machineLoad())")
        return report
    }

    private struct Measured {
        var kilobytes: [Double] = []
        var milliseconds: [Double] = []
        var peak: [Double] = []
    }

    private func measure(_ folder: String, _ secure: String?, _ measured: inout Measured) async throws {
        let count = connections + Self.warmUp + 1
        let hub = try Child(
            try Child.ownPath(), ["hub-child", "--folder", folder, "--connections", "\(count)"] + (secure.map { ["--secure", $0] } ?? []))
        let port = Int(try hub.values().number("port"))
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        var configuration = WebSocketClient.Configuration(url: try EndpointURL("\(secure == nil ? "ws" : "wss")://127.0.0.1:\(port)/hub"))
        configuration.secureLayer = try secure.map { try BenchIdentity(folder: $0).client() }
        let client = WebSocketClient(configuration, group: group, environment: .system)
        let fleet = Fleet()
        var followers: [Follower] = []
        func follow(_ more: Int) async throws {
            for _ in 0..<more { followers.append(Follower(try await client.connect(), fleet)) }
            for follower in followers.suffix(more) { follower.begin() }
            try await fleet.wait { $0.following == followers.count }
        }
        try await follow(Self.warmUp)
        try await Task.sleep(for: .seconds(1))
        let before = try residentMegabytes("VmRSS", process: hub.process)
        try await follow(connections)
        try await Task.sleep(for: .seconds(2))
        let after = try residentMegabytes("VmRSS", process: hub.process)
        measured.kilobytes.append((after - before) * 1024 / Double(connections))
        let writer = Follower(try await client.connect(), Fleet())
        for write in 1...writes {
            let start = monotonicNanoseconds()
            writer.push("reading-\(write)")
            try await fleet.wait { $0.received == followers.count * write }
            measured.milliseconds.append(Double(fleet.lastArrival - start) * 1e-6)
        }
        for peer in followers + [writer] { peer.end() }
        hub.closeInput()
        measured.peak.append(try hub.values().number("peak"))
        hub.wait()
        try await group.shutdownGracefully()
        Files.remove(folder)
    }
}

/// What all followers have received.
private final class Fleet: Sendable {
    struct Counts {
        var following = 0
        var received = 0
        var failure: String?
    }

    private let state = Mutex((counts: Counts(), lastArrival: Int64(0)))

    /// Monotonic nanoseconds.
    var lastArrival: Int64 { state.withLock { $0.lastArrival } }

    func note(_ change: (inout Counts) -> Void) {
        let now = monotonicNanoseconds()
        state.withLock { state in
            change(&state.counts)
            state.lastArrival = now
        }
    }

    func wait(until isDone: (Counts) -> Bool) async throws {
        let deadline = monotonicSeconds() + 60
        while true {
            let counts = state.withLock { $0.counts }
            if let failure = counts.failure { throw BenchError(failure) }
            if isDone(counts) { return }
            guard monotonicSeconds() < deadline else {
                throw BenchError("\(counts.following) followers follow and \(counts.received) revisions came within 60 s")
            }
            try await Task.sleep(for: .milliseconds(5))
        }
    }
}

/// A continuous pull without a store: it requests every revision and discards it.
private final class Follower: MessageReceiver {
    private let transport: any MessageTransport
    private let fleet: Fleet
    private let machine: Mutex<Machine>

    private struct Machine: ~Copyable {
        var blip = BLIPConnection()
        var isEnding = false
    }

    init(_ transport: any MessageTransport, _ fleet: Fleet) {
        self.transport = transport
        self.fleet = fleet
        machine = Mutex(Machine())
        transport.executionContext.execute { transport.start(self) }
    }

    func begin() { send(OutgoingRequest(profile: Profile.subChanges, properties: ["continuous": "true", "batch": "200", "sendReplacementRevs": "true"])) }

    func push(_ id: String) {
        let body = ByteBuffer(string: #"{"type":"reading","value":1,"text":"\#(String(repeating: "x", count: 250))"}"#)
        send(OutgoingRequest(profile: Profile.rev, properties: ["id": id, "rev": "1-0123456789abcdef0123456789abcdef01234567", "sequence": "1"], body: body))
    }

    func end() {
        machine.withLock { $0.isEnding = true }
        transport.drop()
    }

    private func send(_ request: OutgoingRequest) {
        transport.executionContext.execute {
            self.machine.withLock { machine in
                machine.blip.send(request)
                self.flush(&machine)
            }
        }
    }

    private func flush(_ machine: inout Machine) {
        var frames: [ByteBuffer] = []
        while let frame = machine.blip.nextFrame() { frames.append(frame) }
        if !frames.isEmpty { transport.write(frames) }
    }

    func received(_ messages: [ByteBuffer]) {
        machine.withLock { machine in
            var events: [BLIPEvent] = []
            for message in messages {
                do { try machine.blip.receive(message, into: &events) } catch { fleet.note { $0.failure = "a follower: \(error)" } }
            }
            for event in events { take(event, &machine) }
            flush(&machine)
        }
    }

    private func take(_ event: BLIPEvent, _ machine: inout Machine) {
        switch event {
        case .request(let request) where request.profile == Profile.changes:
            let text = String(buffer: request.body)
            let isCaughtUp = text == "[]" || text == "null" || text.isEmpty
            // Every revision in the list is wanted, with no known ancestors.
            let wanted = isCaughtUp ? 0 : text.split(separator: "],[").count
            let answer = ByteBuffer(string: "[\(Array(repeating: "[]", count: wanted).joined(separator: ","))]")
            if !request.isNoReply { machine.blip.reply(to: request.number, OutgoingReply(body: answer)) }
            if isCaughtUp { fleet.note { $0.following += 1 } }
        case .request(let request):
            if !request.isNoReply { machine.blip.reply(to: request.number, OutgoingReply()) }
            if request.profile == Profile.rev { fleet.note { $0.received += 1 } }
        case .reply(_, let reply):
            if let error = reply.error { fleet.note { $0.failure = "the hub answered \(error)" } }
        default: break
        }
    }

    func writabilityChanged(_ isWritable: Bool) {}

    func closed(_ end: ConnectionEnd) {
        if !machine.withLock({ $0.isEnding }) { fleet.note { $0.failure = "a follower was closed: \(end)" } }
    }
}
