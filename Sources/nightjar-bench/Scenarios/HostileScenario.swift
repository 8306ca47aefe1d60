import BLIP
import Interfaces
import NIOCore
import NIOPosix
import Replication
import Transport

/// Peers that send messages without ever completing them: how much memory all of them together make a listener hold, and how long well-behaved peers
/// wait for each other meanwhile.
struct HostileScenario {
    var connections = 1_000
    var rounds = 3
    /// `limits.memory` of the listener, in MB.
    static let budget = 64
    /// For each incomplete message.
    private static let framesEach = 12

    func run(_ scratch: Scratch) async throws -> Report {
        try TLSMemoryScenario(connections: connections).allowDescriptors()
        var held: [Double] = []
        var waits: [Double] = []
        for round in 0..<rounds {
            let (grown, wait) = try await once("\(scratch.path)/hostile-\(round)")
            held.append(grown)
            waits.append(wait)
        }
        var report = Report(
            scenario: "hostile", title: "\(connections) peers, each with \(Self.framesEach * 16) KB of a message that never ends (MB of 2^20 bytes)")
        report.goal("what the listener grew by", "MB", held, .atMost, Double(Self.budget) * 1.1)
        report.add("longest wait beside them", "ms", waits)
        report.notes.append("VmHWM of the listener's process after they have sent, less VmRSS before they connected; limits.memory is \(Self.budget) MB")
        report.notes.append("the longest wait is that of a document from a peer that writes ten a second to one that reads, through the listener")
        return report
    }

    /// Accepts everything and answers nothing.
    private final class Mute: MessageReceiver {
        func received(_ messages: [ByteBuffer]) {}
        func writabilityChanged(_ isWritable: Bool) {}
        func closed(_ end: ConnectionEnd) {}
    }

    /// How many megabytes the listener grew, and the longest wait in milliseconds.
    private func once(_ place: String) async throws -> (grown: Double, wait: Double) {
        let folder = "\(place).nightjar"
        var blip = BLIPConnection(compressionLevel: 0)
        blip.send(OutgoingRequest(profile: Profile.proposeChanges, body: ByteBuffer(repeating: 0x20, count: (Self.framesEach + 8) << 14)))
        var frames: [ByteBuffer] = []
        // A message may have 128,000 unacknowledged bytes; beyond that, a second message is used.
        while frames.count < Self.framesEach {
            guard let frame = blip.nextFrame() else {
                blip.send(OutgoingRequest(profile: Profile.proposeChanges, body: ByteBuffer(repeating: 0x20, count: Self.framesEach << 14)))
                continue
            }
            frames.append(frame)
        }
        let hub = try Child(
            try Child.ownPath(), ["hub-child", "--folder", folder, "--connections", "\(connections + 10)", "--memory", "\(Self.budget)"])
        let port = Int(try hub.values().number("port"))
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        let target = "ws://127.0.0.1:\(port)/hub"
        let configuration = WebSocketClient.Configuration(url: try EndpointURL(target))
        let client = WebSocketClient(configuration, group: group, environment: .system)
        let companions = try await Companions(target: target, folder: place)
        let before = try residentMegabytes("VmRSS", process: hub.process)
        var peers: [any MessageTransport] = []
        for _ in 0..<connections {
            let peer = try await client.connect()
            peers.append(peer)
            peer.executionContext.execute { [frames] in
                peer.start(Mute())
                peer.write(frames)
            }
        }
        try await Task.sleep(for: .seconds(3))
        let after = try residentMegabytes("VmHWM", process: hub.process)
        let wait = try await companions.leave()
        for peer in peers { peer.drop() }
        hub.closeInput()
        _ = try hub.values()
        hub.wait()
        try await group.shutdownGracefully()
        Files.remove(folder)
        return (after - before, wait)
    }
}
