import NIOCore
import Testing

@testable import BLIP

/// What a hostile peer can do: an error, always, that names the limit.
struct LimitTests {
    private func limits(_ change: (inout BLIPLimits) -> Void) -> BLIPLimits {
        var limits = BLIPLimits()
        change(&limits)
        return limits
    }

    /// Sends from a connection without limits to one with; gives the error.
    private func refusal(_ limits: BLIPLimits, _ requests: [OutgoingRequest], frames: Int = .max) -> BLIPError? {
        let sender = Peer(limits: self.limits { $0.sendWindow = .max })
        let receiver = Peer(limits: limits)
        var events: [BLIPEvent] = []
        for request in requests { sender.send(request) }
        var count = 0
        while count < frames, let frame = sender.nextFrame() {
            count += 1
            do throws(BLIPError) { try receiver.receive(frame, into: &events) } catch { return error }
        }
        return nil
    }

    private func name(_ error: BLIPError?) -> String? {
        guard case .limitExceeded(let name, let value, let maximum) = error else { return nil }
        #expect(value > maximum)
        #expect(error?.description.contains(name) == true)
        return name
    }

    @Test func replyLength() throws {
        let pair = Pair(limits: limits { $0.maximumReply = 50_000 })
        let token = pair.a.send(OutgoingRequest(profile: "get"))
        _ = try pair.settle()
        pair.b.reply(to: 1, OutgoingReply(body: ByteBuffer(repeating: 7, count: 50_000)))
        #expect(throws: BLIPError.limitExceeded("maximumReply", value: 50_001, maximum: 50_000)) { try pair.settle() }
        #expect(pair.a.fail() == [token], "the token is still owed")
    }

    @Test func unfinishedBytes() {
        let requests = (0..<10).map { _ in OutgoingRequest(profile: "x", body: ByteBuffer(repeating: 7, count: 40_000)) }
        #expect(name(refusal(limits { $0.maximumUnfinishedBytes = 200_000 }, requests)) == "maximumUnfinishedBytes")
        // One after the other is another matter.
        let alone = [OutgoingRequest(profile: "x", body: ByteBuffer(repeating: 7, count: 40_000))]
        let sender = Peer()
        let receiver = Peer(limits: limits { $0.maximumUnfinishedBytes = 50_000 })
        for _ in 0..<10 {
            sender.send(alone[0])
            #expect((try? receiver.receive(sender.drain()).requests.count) == 1)
        }
        #expect(receiver.unfinishedBytes == 0)
    }

    @Test func unfinishedMessages() {
        let requests = (0..<10).map { _ in OutgoingRequest(profile: "x", body: ByteBuffer(repeating: 7, count: 40_000)) }
        #expect(name(refusal(limits { $0.maximumUnfinishedMessages = 9 }, requests)) == "maximumUnfinishedMessages")
        #expect(refusal(limits { $0.maximumUnfinishedMessages = 10 }, requests) == nil)
    }

    @Test func openRequests() {
        let requests = (0..<10).map { _ in OutgoingRequest(profile: "x") }
        #expect(name(refusal(limits { $0.maximumOpenRequests = 9 }, requests)) == "maximumOpenRequests")
        let quiet = (0..<10).map { _ in OutgoingRequest(profile: "x", isNoReply: true) }
        #expect(refusal(limits { $0.maximumOpenRequests = 9 }, quiet) == nil)
    }

    @Test func frameLength() {
        let request = OutgoingRequest(profile: "x", body: ByteBuffer(repeating: 7, count: 3_000))
        #expect(name(refusal(limits { $0.maximumIncomingFrame = 2_000 }, [request])) == "maximumIncomingFrame")
    }

    @Test func properties() {
        let request = OutgoingRequest(profile: "x", properties: ["key": String(repeating: "v", count: 50_000)])
        // Known from the first frame, not only when all of it has come.
        #expect(name(refusal(limits { $0.maximumProperties = 50_000 }, [request], frames: 1)) == "maximumProperties")
        let short = OutgoingRequest(profile: "x", properties: ["key": String(repeating: "v", count: 500)])
        #expect(name(refusal(limits { $0.maximumProperties = 500 }, [short])) == "maximumProperties")
        #expect(refusal(limits { $0.maximumProperties = 515 }, [short]) == nil)
    }

    /// Each key that is asked for costs a look at all of them.
    @Test func propertyCount() {
        var request = OutgoingRequest(profile: "x")
        for number in 0..<300 { request.properties.append("k\(number)", "") }
        #expect(name(refusal(limits { $0.maximumPropertyCount = 300 }, [request])) == "maximumPropertyCount")
        // The profile is one of them.
        #expect(refusal(limits { $0.maximumPropertyCount = 301 }, [request]) == nil)
    }

    /// A revision may wait for long, and its body of two bytes must not keep what came with it.
    @Test func aBodyDoesNotKeepThePropertiesInMemory() throws {
        for isCompressed in [false, true] {
            let (sender, receiver) = (Peer(), Peer())
            sender.send(
                OutgoingRequest(
                    profile: "rev", properties: ["history": String(repeating: "v", count: 90_000)], body: ByteBuffer(string: "{}"),
                    isCompressed: isCompressed))
            let request = try #require(try receiver.receive(sender.drain()).requests.first)
            #expect(request.body == ByteBuffer(string: "{}") && request.body.storageCapacity < 1_100)
        }
    }

    /// 16 KiB that inflate to 15 MB: the body is dropped as it comes out, and a frame that grows further ends the connection.
    @Test func aDeflateBomb() throws {
        let zeros = ByteBuffer(repeating: 0, count: 15_000_000)
        var deflater = Deflater(level: 9)
        var compressed = ByteBuffer()
        let isCompressed = deflater.deflate(zeros, nil, into: &compressed)
        #expect(isCompressed)
        #expect(compressed.readableBytes < 16_000)
        var sum = RunningChecksum()
        sum.add(zeros, 0, zeros.readableBytes)
        for flags: UInt8 in [0x08, 0x48] {
            var frame = ByteBuffer(bytes: [1, flags])
            frame.writeImmutableBuffer(compressed)
            frame.writeInteger(sum.value)
            let receiver = Peer(limits: limits { $0.maximumMessage = 1_000_000 })
            let requests = try receiver.receive([frame]).requests
            #expect(requests.map(\.isTruncated) == (flags == 0x08 ? [true] : []))
            #expect(requests.allSatisfy { $0.totalBytes == 15_000_000 && $0.body.readableBytes == 0 })
            #expect(receiver.bufferedBytes < 200_000, "\(receiver.bufferedBytes)")

            let strict = Peer(limits: limits { $0.maximumMessage = 1_000_000; $0.maximumInflatedFrame = 14_000_000 })
            #expect(throws: BLIPError.limitExceeded("maximumInflatedFrame", value: 14_000_001, maximum: 14_000_000)) {
                _ = try strict.receive([frame])
            }
            let less = Peer(limits: limits { $0.maximumUnfinishedBytes = 700_000 })
            #expect(throws: BLIPError.limitExceeded("maximumUnfinishedBytes", value: 700_001, maximum: 700_000)) {
                _ = try less.receive([frame])
            }
            #expect(less.scratchCapacity < 2_000_000)
        }
    }

    @Test func theDefaults() {
        let limits = BLIPLimits()
        #expect(limits.maximumUnfinishedBytes == 32 << 20 && limits.maximumMessage == 25 << 20)
    }

    /// A deflate stream with a last block cannot go on.
    @Test func aStreamThatEnds() throws {
        var frame = ByteBuffer(bytes: [1, 0x08, 0x03, 0x00, 0, 0, 0, 0])
        let receiver = Peer()
        var events: [BLIPEvent] = []
        #expect(throws: BLIPError.compression(reason: "the stream has a last block", message: 1)) { try receiver.receive(frame, into: &events) }
        frame.clear()
        #expect(throws: BLIPError.connectionFailed) { try receiver.receive(frame, into: &events) }
    }

    @Test func aMessageWithoutBytes() throws {
        let receiver = Peer()
        var events: [BLIPEvent] = []
        #expect(throws: BLIPError.properties(reason: .missing, message: 1)) { try receiver.receive(buffer(hex: "010000000000"), into: &events) }
    }
}
