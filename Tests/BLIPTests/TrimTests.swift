import BLIP
import NIOCore
import Testing

/// A connection that is idle gives back what compression took.
@Suite struct TrimTests {
    @Test func whatIsCompressedAfterwardsIsRead() throws {
        var one = BLIPConnection()
        var other = BLIPConnection()
        for round in 0..<3 {
            let body = ByteBuffer(string: String(repeating: "round \(round), ", count: 500))
            var request = OutgoingRequest(profile: "x", body: body)
            request.isCompressed = true
            one.send(request)
            var events: [BLIPEvent] = []
            while let frame = one.nextFrame() { try other.receive(frame, into: &events) }
            let bodies = events.compactMap { event -> ByteBuffer? in
                if case .request(let request) = event { request.body } else { nil }
            }
            #expect(bodies == [body])
            #expect(one.spareBytes > 50_000)
            one.trim()
            #expect(one.spareBytes == 0)
        }
    }
}
