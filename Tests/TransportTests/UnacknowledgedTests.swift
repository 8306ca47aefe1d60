import HTTPServer
import Interfaces
import NIOCore
import Testing

@testable import Transport

/// What the system is told of connections whose other side is gone.
@Suite("Connections whose other side is gone", .timeLimit(.minutes(5)))
struct UnacknowledgedTests {
    @Test("the system ends an outgoing connection after unacknowledged_time, which is a minute unless something else is said", arguments: [nil, TimeAmount.milliseconds(12_345)])
    func outgoing(_ time: TimeAmount?) async throws {
        try await withListener { listener, _ in
            var limits = TransportLimits()
            if let time { limits.unacknowledgedTime = time }
            let failure = ReplicationError(network: .timeout, message: "not in time")
            let pipeline = OutgoingPipeline(
                target: .tcp(host: "127.0.0.1", port: listener.port), shown: "the listener", speaksTLS: failure, limits: limits,
                deadline: NIODeadline.now() + .seconds(60), late: failure)
            let value: CInt = try await pipeline.open(testGroup.next()) { channel, promise in
                guard let options = channel as? any SocketOptionProvider else { return promise.fail(failure) }
                let read: EventLoopFuture<CInt> = options.unsafeGetSocketOption(level: .tcp, name: .init(rawValue: 18))
                read.whenComplete { result in
                    channel.close(promise: nil)
                    promise.completeWith(result)
                }
            }
            #expect(value == (time == nil ? 60_000 : 12_345))
        }
    }
}
