import NIOCore
import Testing

@testable import BLIP

/// Requests, replies and their order, as a peer sees them.
struct ConnectionTests {
    @Test func aRequestGetsItsReply() throws {
        let pair = Pair()
        let first = try #require(pair.a.send(OutgoingRequest(profile: "one", properties: ["k": "v", "e": ""], body: ByteBuffer(string: "body"))))
        let second = try #require(pair.a.send(OutgoingRequest(profile: "two", isCompressed: true, isUrgent: true)))
        #expect(pair.a.awaitedReplies == 2 && pair.a.queuedRequests == 2)
        let requests = try pair.settle().atB.requests
        #expect(requests.map(\.profile) == ["one", "two"])
        #expect(requests.map(\.number) == [1, 2])
        #expect(requests[0].properties == ["k": "v", "e": ""])
        #expect(String(buffer: requests[0].body) == "body")
        #expect(pair.a.queuedRequests == 0 && pair.a.queuedBytes == 0 && pair.b.unansweredRequests == 2)

        #expect(pair.b.reply(to: 2, OutgoingReply(error: .noHandler)))
        #expect(pair.b.reply(to: 1, OutgoingReply(properties: ["a": "b"], body: ByteBuffer(string: "fine"), isCompressed: true)))
        let replies = try pair.settle().atA.replies
        #expect(replies.map(\.token) == [second, first])
        #expect(replies[0].reply.error == .noHandler)
        #expect(replies[1].reply.error == nil && replies[1].reply.properties == ["a": "b"])
        #expect(String(buffer: replies[1].reply.body) == "fine")
        #expect(pair.a.awaitedReplies == 0 && pair.b.unansweredRequests == 0)
    }

    @Test func repliesThatWouldEndTheConnectionAreNotSent() throws {
        let pair = Pair()
        #expect(pair.a.send(OutgoingRequest(profile: "quiet", isNoReply: true)) == nil)
        pair.a.send(OutgoingRequest(profile: "loud"))
        pair.a.send(OutgoingRequest(profile: "long", body: ByteBuffer(repeating: 1, count: 40_000)))
        var events: [BLIPEvent] = []
        for _ in 0..<3 {
            let frame = try #require(pair.a.nextFrame())
            try pair.b.receive(frame, into: &events)
        }
        #expect(events.requests.map(\.profile) == ["quiet", "loud"])
        #expect(!pair.b.reply(to: 1, OutgoingReply()), "a reply to a request that wants none")
        #expect(!pair.b.reply(to: 3, OutgoingReply()), "a reply before the last frame")
        #expect(!pair.b.reply(to: 9, OutgoingReply()), "a reply to nothing")
        #expect(pair.b.reply(to: 2, OutgoingReply()))
        #expect(!pair.b.reply(to: 2, OutgoingReply()), "a second reply")
        #expect(pair.b.drain().count == 1)
    }

    @Test func aReplyIsRefusedUntilTheRequestIsSentCompletely() throws {
        let connection = Peer()
        connection.send(OutgoingRequest(profile: "long", body: ByteBuffer(repeating: 1, count: 40_000)))
        _ = connection.nextFrame()
        var events: [BLIPEvent] = []
        #expect(throws: BLIPError.unexpectedReply(number: 1)) {
            try connection.receive(buffer(hex: "010100d202ef8d"), into: &events)
        }
        #expect(connection.fail().count == 1)
    }

    @Test func lastFramesAreTold() throws {
        let connection = Peer()
        let token = try #require(connection.send(OutgoingRequest(profile: "long", body: ByteBuffer(repeating: 1, count: 20_000))))
        var events: [BLIPEvent] = []
        _ = connection.nextFrame(into: &events)
        #expect(events.isEmpty)
        _ = connection.nextFrame(into: &events)
        guard case .sent(token) = try #require(events.first) else {
            Issue.record("not sent: \(events)")
            return
        }
    }

    @Test func failingGivesEveryTokenOnce() throws {
        let pair = Pair()
        var tokens: [RequestToken] = []
        func add(_ connection: Peer, _ size: Int) throws {
            tokens.append(try #require(connection.send(OutgoingRequest(profile: "p", body: ByteBuffer(repeating: 1, count: size)))))
        }
        try add(pair.a, 10)
        try add(pair.a, 10)
        try add(pair.a, 300_000)
        _ = pair.a.drain()  // two await their reply, one stands at the window
        try add(pair.a, 10)
        pair.a.send(OutgoingRequest(profile: "n", isNoReply: true))
        #expect(pair.a.awaitedReplies == 4)
        #expect(pair.a.fail() == tokens)
        #expect(pair.a.fail().isEmpty)
        #expect(pair.a.queuedBytes == 0 && pair.a.awaitedReplies == 0 && !pair.a.hasPendingOutput)
        #expect(pair.a.send(OutgoingRequest(profile: "p")) == nil)
        #expect(pair.a.nextFrame() == nil)
    }

    @Test func anErrorReplyIsNeverTakenForASuccess() throws {
        let connection = Peer()
        connection.pretendSent(1)
        let sender = Peer()
        sender.pretendReceived(1)
        sender.reply(to: 1, OutgoingReply())
        var frame = try #require(sender.nextFrame())
        frame.setInteger(2, at: 1, as: UInt8.self)  // ERR without domain and code
        let replies = try connection.receive([frame]).replies
        #expect(replies[0].reply.error == BLIPErrorReply(domain: "BLIP", code: 0))
    }

    @Test func theProfileMayStandAnywhere() throws {
        let sender = Peer()
        sender.send(OutgoingRequest(profile: "", properties: ["a": "1", "Profil": "2"]))
        var properties = BLIPProperties(checkedBlock: ByteBuffer(string: "a\u{0}1\u{0}Profile\u{0}rev\u{0}b\u{0}2\u{0}Profile\u{0}no\u{0}"))
        #expect(properties["Profile"] == "rev")
        var message = OutgoingMessage(
            type: 0, number: 0, flags: .noReply, profile: "", head: properties.block, body: ByteBuffer(), token: nil)
        message.flags = [.noReply]
        sender.enqueue(message)
        properties = [:]
        let receiver = Peer()
        let requests = try receiver.receive(sender.drain()).requests
        #expect(requests.map(\.profile) == ["", "rev"])
        #expect(requests[0].properties == ["a": "1", "Profil": "2"])
        #expect(requests[1].properties.list == [["a", "1"], ["b", "2"], ["Profile", "no"]])
    }

    @Test func properties() {
        var properties: BLIPProperties = ["id": "doc", "id": "other", "rev": "", "a\u{0}b": "x", "k": "a\u{0}b"]
        #expect(properties.list == [["id", "doc"], ["rev", ""]])
        #expect(properties["id"] == "doc" && properties["rev"] == "" && properties["i"] == nil && properties["idd"] == nil)
        #expect(properties.bytes(of: "id") == ByteBuffer(string: "doc"))
        properties["rev"] = "1-abc"
        properties["new"] = "é"
        #expect(properties.list == [["id", "doc"], ["rev", "1-abc"], ["new", "é"]])
        properties["id"] = nil
        properties["absent"] = nil
        #expect(properties.list == [["rev", "1-abc"], ["new", "é"]])
        #expect(properties["e\u{301}"] == nil)
        properties.append("e\u{301}", "decomposed")
        properties.append("\u{e9}", "composed")
        #expect(properties["\u{e9}"] == "composed", "keys are bytes")
        let taken = properties.append("big", String(repeating: "x", count: BLIPProperties.maximumBytes))
        #expect(!taken)
        #expect(properties["big"] == nil)
    }

    @Test func longPropertiesSpanFrames() throws {
        for compressed in [false, true] {
            let pair = Pair()
            var properties = BLIPProperties()
            for index in 0..<200 { properties.append("key\(index)", String(repeating: "v", count: 450)) }
            pair.a.send(OutgoingRequest(profile: "p", properties: properties, body: ByteBuffer(string: "end"), isCompressed: compressed))
            let request = try #require(try pair.settle().atB.requests.first)
            #expect(request.properties == properties)
            #expect(String(buffer: request.body) == "end")
        }
    }

    @Test func aPeerMayCutAMessageAnywhere() throws {
        // Frames of one byte of data, as a receiver must take them.
        let sender = Peer()
        sender.send(OutgoingRequest(profile: "rev", properties: ["id": "x"], body: ByteBuffer(string: "{}")))
        let whole = try #require(sender.nextFrame())
        let data = whole.getSlice(at: 2, length: whole.readableBytes - 6) ?? ByteBuffer()
        let receiver = Peer()
        var events: [BLIPEvent] = []
        var sum = RunningChecksum()
        for index in 0..<data.readableBytes {
            var frame = ByteBuffer(bytes: [1, index == data.readableBytes - 1 ? 0 : 0x40])
            frame.writeImmutableBuffer(data.slice(index, 1))
            sum.add(data, index, 1)
            frame.writeInteger(sum.value)
            try receiver.receive(frame, into: &events)
        }
        #expect(events.requests.map(\.profile) == ["rev"])
    }
}
