import BLIP
import Interfaces
import NIOCore
import NIOPosix
import Replication
import Transport

/// Peers that send messages and never end them: what all of them together make a listener hold.
struct HostileScenario {
    var connections = 1_000
    var rounds = 3
    /// `limits.memory` of the listener, in MB.
    static let budget = 64
    /// Of each unfinished message.
    private static let framesEach = 12

    func run(_ scratch: Scratch) async throws -> Report {
        try TLSMemoryScenario(connections: connections).allowDescriptors()
        var held: [Double] = []
        for round in 0..<rounds { held.append(try await megabytes("\(scratch.path)/hostile-\(round).nightjar")) }
        var report = Report(
            scenario: "hostile", title: "\(connections) peers, each with \(Self.framesEach * 16) KB of a message that never ends (MB of 2^20 bytes)")
        report.goal("what the listener grew by", "MB", held, .atMost, Double(Self.budget) * 1.1)
        report.notes.append("VmHWM of the listener's process after they have sent, less VmRSS before they connected; limits.memory is \(Self.budget) MB")
        return report
    }

    /// Takes what comes and answers nothing.
    private final class Mute: MessageReceiver {
        func received(_ messages: [ByteBuffer]) {}
        func writabilityChanged(_ isWritable: Bool) {}
        func closed(_ end: ConnectionEnd) {}
    }

    private func megabytes(_ folder: String) async throws -> Double {
        var blip = BLIPConnection(compressionLevel: 0)
        blip.send(OutgoingRequest(profile: Profile.proposeChanges, body: ByteBuffer(repeating: 0x20, count: (Self.framesEach + 8) << 14)))
        var frames: [ByteBuffer] = []
        // The window of a message without acknowledgements is 128,000 bytes; a second message goes on from there.
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
        let configuration = WebSocketClient.Configuration(url: try EndpointURL("ws://127.0.0.1:\(port)/hub"))
        let client = WebSocketClient(configuration, group: group, environment: .system)
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
        for peer in peers { peer.drop() }
        hub.closeInput()
        _ = try hub.values()
        hub.wait()
        try await group.shutdownGracefully()
        Files.remove(folder)
        return after - before
    }
}
