import MessageEndpoints
import Testing
import TestSupport

private let both: [ProtocolType] = [.messageStream, .byteStream]

/// The four flows of the end of a connection, as the seed has them: each side begins, and each hears of the other's end. In all of them both
/// connections are told to close, once.
@Suite struct TeardownTests {
    private func connected(_ type: ProtocolType) async throws -> (Field, Radio, Radio) {
        let field = try Field(type, attempts: 1)
        await field.replicator.start()
        try await field.exchanges("first")
        let pair = try #require(field.connections.first)
        return (field, pair.active, try #require(pair.passive))
    }

    private func bothAreClosed(_ field: Field, _ active: Radio, _ passive: Radio) async throws {
        try await eventually("both connections are closed") { active.closes > 0 && passive.closes > 0 && field.listener.connectionCount == 0 }
        await field.end()
        #expect(active.closes == 1 && passive.closes == 1, "closed \(active.closes) and \(passive.closes) times")
    }

    @Test("The active peer's application disconnects; the passive one notices and closes", arguments: both)
    func byTheActiveApplication(type: ProtocolType) async throws {
        let (field, active, passive) = try await connected(type)
        active.replicator?.close(error: nil)
        // Again makes no difference.
        active.replicator?.close(error: nil)
        try await bothAreClosed(field, active, passive)
    }

    @Test("The replicator is stopped; the passive peer notices and closes", arguments: both)
    func byTheReplicator(type: ProtocolType) async throws {
        let (field, active, passive) = try await connected(type)
        await field.replicator.stop()
        #expect(field.replicator.status.activity == .stopped)
        try await bothAreClosed(field, active, passive)
    }

    @Test("The listener closes all; the active peer notices and closes", arguments: both)
    func byTheListener(type: ProtocolType) async throws {
        let (field, active, passive) = try await connected(type)
        await field.listener.closeAll()
        try await bothAreClosed(field, active, passive)
    }

    @Test("The listener closes one; the active peer comes back with another connection", arguments: both)
    func oneByTheListener(type: ProtocolType) async throws {
        let field = try Field(type)
        await field.replicator.start()
        try await field.exchanges("first")
        let passive = try #require(field.connections.first?.passive)
        field.listener.close(passive)
        try await field.exchanges("second")
        #expect(field.connections.count == 2)
        #expect(passive.closes == 1)
        await field.end()
    }

    @Test("One side dies silently: sending fails, which is recoverable, and another connection is made")
    func crash() async throws {
        let field = try Field(.messageStream)
        await field.replicator.start()
        try await field.exchanges("first")
        let pair = try #require(field.connections.first)
        pair.active.vanish()
        try await field.exchanges("second")
        #expect(field.connections.count == 2)
        #expect(pair.active.closes == 1)
        await field.end()
    }

    @Test("A recoverable error in opening is tried again with a new connection; a permanent one ends the replicator")
    func errors() async throws {
        let busy = try Field(.messageStream, openErrors: [MessagingError("busy", isRecoverable: true)])
        await busy.replicator.start()
        try await busy.exchanges("late")
        #expect(busy.connections.count == 2)
        await busy.end()

        let banned = try Field(.messageStream, openErrors: [MessagingError("banned for good", isRecoverable: false)])
        await banned.replicator.start()
        let status = await banned.replicator.waitUntilStopped()
        #expect(status.error?.code == 4002 && status.error?.message.contains("banned for good") == true, "\(status)")
        #expect(banned.connections.count == 1 && banned.connections.first?.active.closes == 1)
        await banned.end()
    }
}
