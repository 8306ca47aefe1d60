import NIOCore
import NIOEmbedded
import TestRandomness
import Testing

@testable import TLS

@Suite struct MangledRecordTests {
    /// Cut, flipped, dropped, doubled and exchanged pieces: never a crash, never a wrong byte.
    @Test func mangledConnectionsGiveErrorsOrTheRightBytes() throws {
        let servers = try TestServers.get()
        let serverContext = try servers.serverContext(.good) { $0.clientCertificates = ClientCertificates(mode: .request, roots: nil) }
        let clientContext = try servers.clientContext { $0.identity = servers.client }
        let first = UInt64.random(in: 0...UInt64.max)
        print("mangled TLS records: seed \(first)")
        var outcomes = (whole: 0, cut: 0, failed: 0)
        for round in 0..<400 {
            let seed = first &+ UInt64(round)
            var random = SeededGenerator(seed: seed)
            let pair = try EmbeddedPair(client: clientContext, server: serverContext)
            let up = (0..<Int.random(in: 1...40000, using: &random)).map { UInt8(truncatingIfNeeded: $0 &* 7) }
            let down = (0..<Int.random(in: 1...40000, using: &random)).map { UInt8(truncatingIfNeeded: $0 &* 13) }
            // One connection in four is only cut.
            let damage = round % 4 == 0 ? 0 : Int.random(in: 1...3, using: &random)
            var left = damage
            func cut(_ bytes: [UInt8], _: Bool) -> [[UInt8]] {
                var pieces: [[UInt8]] = []
                var rest = bytes[...]
                while !rest.isEmpty {
                    let count = Int.random(in: 1...max(1, min(rest.count, 3000)), using: &random)
                    pieces.append(Array(rest.prefix(count)))
                    rest = rest.dropFirst(count)
                }
                guard left > 0, !pieces.isEmpty, Int.random(in: 0..<3, using: &random) == 0 else { return pieces }
                left -= 1
                let at = Int.random(in: 0..<pieces.count, using: &random)
                switch Int.random(in: 0..<5, using: &random) {
                case 0: pieces.remove(at: at)
                case 1: pieces.insert(pieces[at], at: at)
                case 2: pieces.swapAt(at, Int.random(in: 0..<pieces.count, using: &random))
                case 3: pieces.insert((0..<Int.random(in: 1...200, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }, at: at)
                default: pieces[at][Int.random(in: 0..<pieces[at].count, using: &random)] ^= 1 << UInt8.random(in: 0..<8, using: &random)
                }
                return pieces
            }
            pair.client.send(up)
            pair.server.send(down)
            try pair.pump(cut)
            // What stalls in the handshake ends by its deadline.
            pair.loop.advanceTime(by: .seconds(10))
            for (end, expected) in [(pair.server, up), (pair.client, down)] {
                let got = end.recorder.bytes
                #expect(expected.starts(with: got), "seed \(seed): wrong bytes")
                #expect(end.recorder.completed != nil || !end.recorder.errors.isEmpty, "seed \(seed): neither connected nor failed")
                if damage == 0 { #expect(got == expected, "seed \(seed): bytes are missing") }
                if got == expected { outcomes.whole += 1 } else if end.recorder.errors.isEmpty { outcomes.cut += 1 } else { outcomes.failed += 1 }
            }
            pair.finish()
        }
        #expect(outcomes.failed > 100 && outcomes.whole > 200, "\(outcomes)")
    }

    @Test func rubbishIsRefused() throws {
        let servers = try TestServers.get()
        let serverContext = try servers.serverContext()
        let clientContext = try servers.clientContext()
        let seed = UInt64.random(in: 0...UInt64.max)
        print("rubbish instead of TLS: seed \(seed)")
        var random = SeededGenerator(seed: seed)
        for round in 0..<400 {
            let pair = try EmbeddedPair(client: clientContext, server: serverContext)
            var bytes = (0..<Int.random(in: 5...3000, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
            // Half of it looks like TLS at first sight.
            if round % 2 == 0 { bytes.replaceSubrange(0..<3, with: [0x16, 3, UInt8.random(in: 0...4, using: &random)]) }
            for end in [pair.client, pair.server] {
                end.input(bytes)
                pair.loop.advanceTime(by: .seconds(10))
                #expect(end.recorder.errors.count == 1 && end.recorder.bytes.isEmpty && !end.channel.isActive)
            }
            pair.finish()
        }
    }
}
