import NIOCore
import TestRandomness
import Testing

@testable import BLIP

/// Requests that are too long lose their body, not the connection.
struct TruncationTests {
    private func limits(_ change: (inout BLIPLimits) -> Void) -> BLIPLimits {
        var limits = BLIPLimits()
        change(&limits)
        return limits
    }

    /// What `limits` make of requests; the last must arrive unharmed.
    private func receive(_ limits: BLIPLimits, _ requests: [OutgoingRequest], frame: Int = 16_384) throws -> [IncomingRequest] {
        let pair = (
            a: Peer(limits: self.limits { $0.maximumFrame = frame }),
            b: Peer(limits: limits)
        )
        for request in requests { pair.a.send(request) }
        pair.a.send(OutgoingRequest(profile: "last", body: ByteBuffer(string: "whole"), isCompressed: true))
        var events: [BLIPEvent] = []
        while pair.a.hasPendingOutput || pair.b.hasPendingOutput {
            if let frame = pair.a.nextFrame() { try pair.b.receive(frame, into: &events) }
            if let frame = pair.b.nextFrame() { _ = try pair.a.receive([frame]) }
        }
        #expect(pair.b.unfinishedBytes == 0)
        var received = events.requests
        let last = try #require(received.firstIndex { $0.profile == "last" })
        #expect(String(buffer: received[last].body) == "whole" && !received[last].isTruncated)
        received.remove(at: last)
        return received.sorted { $0.number < $1.number }
    }

    @Test(arguments: [false, true], [64, 4_096, 16_384])
    func tooLong(isCompressed: Bool, frame: Int) throws {
        for size in [9_000, 300_000] {
            let request = OutgoingRequest(
                profile: "x", properties: ["id": "a"], body: ByteBuffer(repeating: 7, count: size), isCompressed: isCompressed)
            let total = size + 1 + 10 + 5
            let whole = try receive(limits { $0.maximumMessage = total }, [request], frame: frame)[0]
            #expect(!whole.isTruncated && whole.totalBytes == total && whole.body == request.body)
            let cut = try receive(limits { $0.maximumMessage = total - 1 }, [request], frame: frame)[0]
            #expect(cut.isTruncated && cut.totalBytes == total && cut.body.readableBytes == 0)
            #expect(cut.profile == "x" && cut.properties == request.properties && cut.isCompressed == isCompressed && !cut.isNoReply)
        }
    }

    @Test(arguments: [false, true], [64, 16_384])
    func profiles(isCompressed: Bool, frame: Int) throws {
        func request(_ profile: String, _ size: Int) -> OutgoingRequest {
            OutgoingRequest(profile: profile, body: ByteBuffer(repeating: 7, count: size), isCompressed: isCompressed)
        }
        let limits = limits {
            $0.maximumMessage = 200_000
            $0.maximumMessageByProfile = ["small": 1_000, "middle": 50_000, "beyond": 1_000_000]
        }
        #expect(["small", "middle", "beyond", "other"].map { limits.maximumMessage(of: $0) } == [1_000, 50_000, 200_000, 200_000])
        let requests = [
            request("small", 900), request("small", 1_100), request("small", 100_000), request("middle", 2_000),
            request("middle", 49_000), request("middle", 51_000), request("other", 190_000), request("beyond", 210_000),
        ]
        let received = try receive(limits, requests, frame: frame)
        #expect(received.map(\.isTruncated) == [false, true, true, false, false, true, false, true])
        for (request, sent) in zip(received, requests) where !request.isTruncated { #expect(request.body == sent.body) }
    }

    /// What is dropped is not held while the rest of it comes.
    @Test(arguments: [false, true])
    func theRestIsNotHeld(isCompressed: Bool) throws {
        let sender = Peer(limits: limits { $0.sendWindow = .max })
        let receiver = Peer(limits: limits { $0.maximumMessageByProfile = ["small": 10_000] })
        var random = SeededGenerator(seed: 3)
        sender.send(OutgoingRequest(profile: "small", body: random.noise(3_000_000), isCompressed: isCompressed))
        var events: [BLIPEvent] = []
        var most = 0
        while let frame = sender.nextFrame() {
            try receiver.receive(frame, into: &events)
            most = max(most, receiver.unfinishedBytes)
        }
        #expect(most < 100, "the properties")
        #expect(events.requests.map(\.isTruncated) == [true])
        #expect(receiver.unansweredRequests == 1)
    }

    /// Properties are not cut, and their own limit is an error as ever.
    @Test func propertiesAreWhole() throws {
        let properties: BLIPProperties = ["key": String(repeating: "v", count: 60_000)]
        let request = OutgoingRequest(profile: "x", properties: properties, body: ByteBuffer(repeating: 1, count: 50_000))
        for compressed in [false, true] {
            var request = request
            request.isCompressed = compressed
            let cut = try receive(limits { $0.maximumMessage = 100 }, [request], frame: 1_000)[0]
            #expect(cut.isTruncated && cut.properties == properties)
            #expect(throws: BLIPError.self) { _ = try receive(limits { $0.maximumMessage = 100; $0.maximumProperties = 100 }, [request]) }
        }
    }

    @Test func noReplyIsTold() throws {
        let request = OutgoingRequest(profile: "x", body: ByteBuffer(repeating: 1, count: 50_000), isUrgent: true, isNoReply: true)
        let cut = try receive(limits { $0.maximumMessage = 100 }, [request])[0]
        #expect(cut.isTruncated && cut.isNoReply && cut.isUrgent)
    }
}
