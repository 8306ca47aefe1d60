import NIOCore
import TestRandomness
import Testing

@testable import BLIP

/// In which order frames leave.
struct QueueTests {
    /// Room for exactly `frames` frames of the size used here.
    private static let limits: BLIPLimits = {
        var limits = BLIPLimits()
        limits.maximumFrame = 1000
        limits.maximumFrameBeforeUrgent = 1000
        return limits
    }()

    private static func request(_ name: String, frames: Int, urgent: Bool = false) -> OutgoingRequest {
        OutgoingRequest(profile: name, body: ByteBuffer(repeating: 0, count: frames * 994 - 100), isUrgent: urgent, isNoReply: true)
    }

    @Test func urgentAndNormalAlternate() throws {
        let connection = Peer(limits: Self.limits)
        connection.send(Self.request("A", frames: 6))
        connection.send(Self.request("B", frames: 6))
        connection.send(Self.request("C", frames: 3))
        var order: [UInt64] = []
        var frame = connection.nextFrame()
        var count = 0
        while let current = frame {
            order.append(try FrameHeader(current).number)
            count += 1
            if count == 2 { connection.send(Self.request("U", frames: 4, urgent: true)) }
            frame = connection.nextFrame()
        }
        // A B C U A U B U C U A B C A B A B A B, numbered in the order of first frames.
        #expect(order == [1, 2, 3, 4, 1, 4, 2, 4, 3, 4, 1, 2, 3, 1, 2, 1, 2, 1, 2])
    }

    @Test func numbersFollowFirstFrames() throws {
        let pair = Pair(limits: Self.limits)
        for (name, urgent) in [("A", false), ("B", true), ("C", false), ("D", true), ("E", true)] {
            pair.a.send(Self.request(name, frames: 3, urgent: urgent))
        }
        let frames = pair.a.drain()
        var highest: UInt64 = 0
        for frame in frames {
            let number = try FrameHeader(frame).number
            #expect(number <= highest + 1)
            highest = max(highest, number)
        }
        #expect(try pair.b.receive(frames).requests.count == 5)
    }

    @Test func framesAreSmallOnlyBeforeAnUrgentOne() throws {
        let connection = Peer()
        connection.send(OutgoingRequest(profile: "A", body: ByteBuffer(repeating: 0, count: 100_000), isNoReply: true))
        connection.send(OutgoingRequest(profile: "B", body: ByteBuffer(repeating: 0, count: 30_000), isUrgent: true, isNoReply: true))
        let sizes = connection.drain().map(\.readableBytes)
        #expect(sizes.prefix(3) == [4096, 16_384, 4096])
        #expect(sizes.dropFirst(4).dropLast().allSatisfy { $0 == 16_384 })
    }

    @Test(arguments: [0, 1, 6])
    func noFrameExceedsTheLimit(level: Int32) throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededGenerator(seed: seed)
        for maximum in [64, 100, 4096, 16_384, 32_000] {
            var limits = BLIPLimits()
            limits.maximumFrame = maximum
            limits.sendWindow = .max
            let sender = Peer(limits: limits, compressionLevel: level)
            let receiver = Peer(limits: limits)
            for _ in 0..<10 {
                let body = random.noise(random.below(8 * maximum))
                sender.send(OutgoingRequest(profile: "noise", body: body, isCompressed: true))
            }
            let frames = sender.drain()
            #expect(frames.allSatisfy { $0.readableBytes <= maximum }, "seed \(seed)")
            #expect(try receiver.receive(frames).requests.count == 10, "seed \(seed)")
        }
    }

    /// The linked queue against the rule in plain words, by search from the end.
    @Test func theQueueFollowsTheRule() {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededGenerator(seed: seed)
        var queue = Outbox()
        var model: [OutgoingMessage] = []
        var aside: [OutgoingMessage] = []
        var serial: UInt64 = 0

        func place(_ message: OutgoingMessage) {
            guard message.isUrgent, model.count >= 2 else { return model.append(message) }
            for index in model.indices.reversed() {
                if model[index].isUrgent { return model.insert(message, at: min(index + 2, model.count)) }
                if !message.hasBegun && !model[index].hasBegun { return model.insert(message, at: index + 1) }
            }
            model.insert(message, at: 1)
        }

        for _ in 0..<5_000 {
            switch random.below(10) {
            case 0..<4:
                serial += 1
                let message = OutgoingMessage(
                    type: 0, number: serial, flags: random.below(3) == 0 ? .urgent : [], profile: "", head: ByteBuffer(),
                    body: ByteBuffer(), token: nil)
                place(message)
                queue.enqueue(message)
            case 4 where !aside.isEmpty:
                let message = aside.remove(at: random.below(aside.count))
                place(message)
                queue.enqueue(message)
            default:
                #expect(queue.headIsUrgent == (model.first?.isUrgent ?? false), "seed \(seed)")
                var message = queue.dequeue()
                #expect(message?.number == model.first?.number, "seed \(seed)")
                if !model.isEmpty { model.removeFirst() }
                message?.hasBegun = true
                guard let message else { continue }
                switch random.below(4) {
                case 0: break
                case 1: aside.append(message)
                default:
                    place(message)
                    queue.enqueue(message)
                }
            }
            #expect(queue.count == model.count, "seed \(seed)")
        }
    }
}
