import BLIP
import DocumentStore
import Documents
import Interfaces
import NIOCore
import NIOPosix
import Replication
import Transport

/// Many peers, each of which causes the agent a little work at the same time, and none of which reads anything: how much the agent's memory grows,
/// and how long well-behaved peers wait for each other meanwhile.
struct CrowdScenario {
    var connections = 1_000
    var rounds = 3
    /// The agent's executable.
    var agent: String
    /// The default of `limits.memory`, in MB.
    private static let budget = 64

    /// What each of them sends.
    private enum Stream: String, CaseIterable {
        case checkpoints = "checkpoints of the largest size, compressed"
        case answers = "questions for such checkpoints"
        case lists = "lists of 1,000 proposals"
        case subscriptions = "subscriptions to documents with 32 branches"
    }

    func run(_ scratch: Scratch) async throws -> Report {
        try TLSMemoryScenario(connections: connections).allowDescriptors()
        var report = Report(
            scenario: "crowd", title: "\(connections) peers that send at the same time and read nothing (MB of 2^20 bytes)")
        for stream in Stream.allCases {
            var (grown, waits): ([Double], [Double]) = ([], [])
            for round in 0..<rounds {
                let (megabytes, wait) = try await once(stream, "\(scratch.path)/crowd-\(round)")
                grown.append(megabytes)
                waits.append(wait)
            }
            report.goal(stream.rawValue, "MB", grown, .atMost, Double(Self.budget) * 1.1)
            report.add("longest wait beside \(stream.rawValue)", "ms", waits)
        }
        report.notes.append("VmHWM of the agent after they have sent, less VmRSS before they connected; limits.memory is \(Self.budget) MB")
        report.notes.append("the longest wait is that of a document from a peer that writes ten a second to one that reads, through the agent")
        return report
    }

    /// Reads nothing, and answers nothing.
    private final class Mute: MessageReceiver {
        func received(_ messages: [ByteBuffer]) {}
        func writabilityChanged(_ isWritable: Bool) {}
        func closed(_ end: ConnectionEnd) {}
    }

    /// How many megabytes the agent grew, and the longest wait in milliseconds.
    private func once(_ stream: Stream, _ folder: String) async throws -> (grown: Double, wait: Double) {
        try Files.makeFolder(folder)
        try Files.makeFolder("\(folder)/data")
        if stream == .subscriptions { try await fill("\(folder)/data/plant.nightjar") }
        try Files.write(
            """
            data: \(folder)/data
            log: { level: critical }
            databases:
              plant: {}
            listeners:
              - name: peers
                databases: [ plant ]
                interface: 127.0.0.1
                port: 0
                disable_tls: true
                max_connections: \(connections + 10)
                max_connections_per_address: \(connections + 10)

            """, to: "\(folder)/agent.yaml")
        let child = try Child(agent, ["run", "--config", "\(folder)/agent.yaml"])
        let line = try child.line()
        guard let address = line.split(separator: " ").first(where: { $0.hasPrefix("peers=") })?.dropFirst("peers=".count) else {
            throw BenchError("\(agent) run says \"\(line)\", and no address")
        }
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        let target = "ws://\(address)/plant"
        let configuration = WebSocketClient.Configuration(url: try EndpointURL(target))
        let client = WebSocketClient(configuration, group: group, environment: .system)
        let companions = try await Companions(target: target, folder: "\(folder)-beside")
        try await Task.sleep(for: .seconds(2))
        let before = try residentMegabytes("VmRSS", process: child.process)
        var peers: [any MessageTransport] = []
        for number in 0..<connections {
            let peer = try await client.connect()
            peers.append(peer)
            let frames = frames(stream, number)
            peer.executionContext.execute {
                peer.start(Mute())
                peer.setReading(false)
                peer.write(frames)
            }
        }
        try await Task.sleep(for: .seconds(5))
        let after = try residentMegabytes("VmHWM", process: child.process)
        let wait = try await companions.leave()
        for peer in peers { peer.drop() }
        child.terminate()
        child.wait()
        try await group.shutdownGracefully()
        Files.remove(folder)
        return (after - before, wait)
    }

    /// The data that one of them sends: some hundred kilobytes at most, whatever happens to it.
    private func frames(_ stream: Stream, _ number: Int) -> [ByteBuffer] {
        var blip = BLIPConnection()
        let checkpoint = ByteBuffer(string: "{\"text\":\"\(String(repeating: " ", count: 128_000))\"}")
        func save(_ name: String) -> OutgoingRequest {
            OutgoingRequest(profile: "setCheckpoint", properties: ["client": name, "rev": ""], body: checkpoint, isCompressed: true)
        }
        switch stream {
        case .checkpoints: for each in 0..<20 { blip.send(save("cp-\(number)-\(each)")) }
        case .answers:
            let name = "cp-\(number % 40)"
            blip.send(save(name))
            for _ in 0..<50 { blip.send(OutgoingRequest(profile: "getCheckpoint", properties: ["client": name])) }
        case .lists:
            let rows = (0..<1_000).map { "[\"tree-\($0)\",\"41-aa\",\"40-\(number)0\"]" }.joined(separator: ",")
            for _ in 0..<5 {
                blip.send(
                    OutgoingRequest(
                        profile: Profile.proposeChanges, properties: ["conflictIncludesRev": "true"], body: ByteBuffer(string: "[\(rows)]"), isCompressed: true))
            }
        case .subscriptions: blip.send(OutgoingRequest(profile: "subChanges", properties: number % 2 == 0 ? ["continuous": "true"] : [:]))
        }
        var frames: [ByteBuffer] = []
        while let frame = blip.nextFrame() { frames.append(frame) }
        return frames
    }

    /// Documents whose branches have long histories.
    private func fill(_ folder: String) async throws {
        let database = try Database.open(folder: folder, name: "plant")
        defer { database.close() }
        guard let collection = database.collection(.default) else { throw BenchError("no default collection") }
        let body = Array("{\"text\":\"\(String(repeating: "x", count: 600))\"}".utf8)
        for number in 0..<200 {
            try await database.write { transaction in
                for branch in 0..<StoreLimits.maxBranches {
                    let digest = String(1_000_000 + number * 100 + branch) + String(repeating: "0", count: 33)
                    let history = try (1..<StoreLimits.historyDepth).reversed().map { try RevisionID("\($0)-\(digest)") }
                    let revision = IncomingRevision(
                        id: try DocumentID("tree-\(number)"), revision: try RevisionID("\(StoreLimits.historyDepth)-\(digest)"),
                        history: RevisionHistory(history), body: body)
                    _ = try transaction.insert(revision, into: collection, conflicts: .store)
                }
            }
        }
    }
}
