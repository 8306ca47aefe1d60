import Environment
import NIOCore
import TestRandomness
import Testing

@testable import Transport

@Suite struct FrameTests {
    private func decode(_ pieces: [[UInt8]], expectsMask: Bool = true, limit: Int = 1 << 20) -> WebSocketDecoder.Output {
        var decoder = WebSocketDecoder(expectsMask: expectsMask, limit: limit)
        var output = WebSocketDecoder.Output()
        for piece in pieces {
            var piece = ByteBuffer(bytes: piece)
            decoder.decode(&piece, into: &output)
        }
        return output
    }

    private func bytes(_ output: WebSocketDecoder.Output) -> [[UInt8]] { output.messages.map { Array($0.readableBytesView) } }

    @Test(arguments: [true, false])
    func whatIsEncodedIsDecodedHoweverItIsCut(masked: Bool) {
        let seed = UInt64.random(in: 0 ... .max)
        print("seed \(seed)")
        var random = SeededGenerator(seed: seed)
        for _ in 0..<25 {
            let sizes = [0, 1, 7, 8, 9, 125, 126, 127, 1000, 65535, 65536, 70000]
            let messages = (0..<Int.random(in: 1...12, using: &random)).map { _ in
                let count = sizes.randomElement(using: &random) ?? 0
                let first = random.next()
                return (0..<count).map { UInt8(truncatingIfNeeded: first &+ UInt64($0)) }
            }
            var encoder = WebSocketEncoder(maskRandom: masked ? SystemRandom() : nil)
            var wire: [UInt8] = []
            encoder.encode(messages.map { ByteBuffer(bytes: $0) }, allocator: ByteBufferAllocator()) { wire += Array($0.readableBytesView) }
            var pieces: [[UInt8]] = []
            var rest = wire[...]
            let longest = [1, 3, 20, 4096, 100_000].randomElement(using: &random) ?? 1
            while !rest.isEmpty, longest > 20 || pieces.count < 5000 {
                let count = min(rest.count, longest > 20 || wire.count < 5000 ? Int.random(in: 1...longest, using: &random) : 4096)
                pieces.append(Array(rest.prefix(count)))
                rest = rest.dropFirst(count)
            }
            let output = decode(pieces, expectsMask: masked)
            #expect(output.violation == nil)
            #expect(bytes(output) == messages)
        }
    }

    @Test func fragmentsAreJoinedAroundControlFrames() {
        let wire = frame(0x02, [1, 2]) + frame(0x89, [9]) + frame(0x00, []) + frame(0x00, [3]) + frame(0x80, [4, 5]) + frame(0x82, [6])
        for cut in 1...wire.count {
            let output = decode([Array(wire.prefix(cut)), Array(wire.dropFirst(cut))])
            #expect(bytes(output) == [[1, 2, 3, 4, 5], [6]])
            #expect(output.ping == [9])
            #expect(output.violation == nil)
        }
    }

    @Test(arguments: [
        ("text", frame(0x81, [65]), 1003), ("reserved bit", frame(0xC2, [1]), 1002), ("unmasked", frame(0x82, [1], masked: false), 1002),
        ("unknown data type", frame(0x83, [1]), 1002), ("unknown control type", frame(0x8B, []), 1002), ("long ping", frame(0x89, [UInt8](repeating: 0, count: 126)), 1002),
        ("fragmented ping", frame(0x09, []), 1002), ("continuation of nothing", frame(0x80, []), 1002), ("message in a message", frame(0x02, [1]) + frame(0x82, [2]), 1002),
        ("too big", frame(0x82, [UInt8](repeating: 0, count: 1001)), 1009), ("fragments too big", frame(0x02, [UInt8](repeating: 0, count: 900)) + frame(0x80, [UInt8](repeating: 0, count: 101)), 1009),
        ("longest length", [0x82, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1, 2, 3, 4], 1009),
    ] as [(String, [UInt8], UInt16)])
    func violations(name: String, wire: [UInt8], code: UInt16) {
        let close = frame(0x88, [3, 232])
        let output = decode([frame(0x82, [42]) + wire + close], limit: 1000)
        #expect(output.violation?.code == code, "\(name)")
        #expect(bytes(output) == [[42]])
        // The peer's CLOSE is still found behind a frame that is refused.
        if name != "longest length" { #expect(output.close != nil) }
    }

    @Test func anEndpointMayNotBeMaskedByItsServer() {
        #expect(decode([frame(0x82, [1])], expectsMask: false).violation?.code == 1002)
    }

    @Test func aPromisedLengthAllocatesNothing() {
        var decoder = WebSocketDecoder(expectsMask: true, limit: 1 << 20)
        var output = WebSocketDecoder.Output()
        var piece = ByteBuffer(bytes: [0x82, 0xFF, 0, 0, 0, 0, 0, 0x10, 0, 0, 1, 2, 3, 4])
        decoder.decode(&piece, into: &output)
        #expect(output.violation == nil)
        #expect(output.messages.isEmpty)
    }

    @Test func anyBytesAreSurvived() {
        let seed = UInt64.random(in: 0 ... .max)
        print("seed \(seed)")
        var random = SeededGenerator(seed: seed)
        for _ in 0..<3000 {
            let pieces = (0..<3).map { _ in (0..<Int.random(in: 0...60, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) & (Bool.random(using: &random) ? 0xFF : 0x8F) } }
            let output = decode(pieces, expectsMask: Bool.random(using: &random), limit: 50)
            #expect(output.messages.allSatisfy { $0.readableBytes <= 50 })
        }
    }

    @Test func closeFrames() {
        #expect(CloseFrame(payload: ByteBuffer())?.code == 1005)
        #expect(CloseFrame(payload: ByteBuffer(bytes: [15, 161, 104, 105])) .map { [$0.reason, "\($0.code)"] } == ["hi", "4001"])
        #expect(CloseFrame(payload: ByteBuffer(bytes: [3])) == nil)
        for code in [0, 999, 1004, 1005, 1006, 1015, 2999, 5000] as [UInt16] {
            #expect(CloseFrame(payload: ByteBuffer(bytes: [UInt8(code >> 8), UInt8(code & 255)])) == nil)
            #expect(CloseFrame.payload(code: code, reason: "x").isEmpty)
        }
        let long = CloseFrame.payload(code: 4001, reason: String(repeating: "é", count: 100))
        #expect(long.count == 124)
        #expect(String(validating: long.dropFirst(2), as: UTF8.self) != nil)
    }

    @Test func livenessFollowsTheClock() {
        var liveness = Liveness(heartbeat: .seconds(300), pongTime: .seconds(20))
        let start = NIODeadline.uptimeNanoseconds(1)
        liveness.heard(at: start)
        #expect(liveness.check(at: start + .seconds(100), isReading: true) == .wait(.seconds(200)))
        #expect(liveness.check(at: start + .seconds(300), isReading: true) == .ping(.seconds(20)))
        liveness.heard(at: start + .seconds(310))
        #expect(liveness.check(at: start + .seconds(320), isReading: true) == .wait(.seconds(290)))
        #expect(liveness.check(at: start + .seconds(610), isReading: true) == .ping(.seconds(20)))
        // A peer that we do not read from cannot be blamed.
        var paused = liveness
        #expect(paused.check(at: start + .seconds(630), isReading: false) == .wait(.seconds(300)))
        #expect(liveness.check(at: start + .seconds(630), isReading: true) == .dead(.seconds(20)))
        var short = Liveness(heartbeat: .seconds(5), pongTime: .seconds(20))
        #expect(short.check(at: start + .seconds(6), isReading: true) == .ping(.seconds(4)))
    }
}
