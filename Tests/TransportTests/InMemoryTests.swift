import Interfaces
import NIOCore
import Testing

@testable import Transport

@Suite(.timeLimit(.minutes(10))) struct InMemoryTests {
    private func pair(_ faults: InMemoryTransport.Faults = .init(), limits: TransportLimits = .init()) async throws -> (InMemoryTransport, Recorder, InMemoryTransport, Recorder) {
        let (first, second) = InMemoryTransport.pair(testGroup.next(), testGroup.next(), faults: faults, limits: limits)
        return (first, try await first.record(), second, try await second.record())
    }

    @Test func messagesKeepTheirOrder() async throws {
        let (first, _, _, receiver) = try await pair()
        for i in 0..<100 { try await first.send([[UInt8(i)], [UInt8(i), 1]]) }
        #expect(await receiver.messages(200) == (0..<100).flatMap { [[UInt8($0)], [UInt8($0), 1]] })
    }

    @Test func whatCameBeforeTheStartIsKept() async throws {
        let (first, second) = InMemoryTransport.pair(testGroup.next(), testGroup.next())
        try await first.send([[1]])
        first.close(code: 4001, reason: "gone")
        let receiver = try await second.record()
        let got = await receiver.wait { $0.end != nil }
        #expect(got.messages == [[1]])
        #expect(got.end == ConnectionEnd(code: 4001, reason: "gone", initiatedLocally: false))
    }

    @Test func endsAreReportedOnceOnBothSides() async throws {
        let (first, firstReceiver, second, secondReceiver) = try await pair()
        first.close(code: 1000, reason: "done")
        second.drop()
        #expect(await firstReceiver.end()?.initiatedLocally == true)
        #expect(await secondReceiver.wait { $0.end != nil }.ends == 1)
    }

    @Test func lossAndCuts() async throws {
        let (first, _, _, receiver) = try await pair(.init(loses: { $0 == 1 }, cutsAt: 3))
        try await first.send([[0], [1], [2], [3], [4]])
        let got = await receiver.wait { $0.end != nil }
        #expect(got.messages == [[0], [2]])
        #expect(got.end?.code == 1006)
    }

    @Test func backPressure() async throws {
        var limits = TransportLimits()
        limits.writeHighWatermark = 1000
        limits.writeLowWatermark = 100
        let (first, sender, second, receiver) = try await pair(limits: limits)
        try await second.onLoop { $0.setReading(false) }
        let written = try await first.onLoop { transport in
            var count = 0
            while transport.isWritable { transport.write([ByteBuffer(repeating: 1, count: 100)]); count += 1 }
            return count
        }
        #expect(written == 11)
        try await second.onLoop { $0.setReading(true) }
        #expect(await receiver.messages(11).count == 11)
        #expect(await sender.wait { $0.writability.last == true }.end == nil)
    }
}
