import BLIP
import Dispatch
import Documents
import DocumentStore
import Environment
import Interfaces
import NIOCore
import Synchronization
import Testing
import TestSupport
import Transport

@testable import Replication

/// What a crowd of peers makes the agent do at the same time stays within the budget, even though each peer uses only a little of it.
@Suite(.timeLimit(.minutes(10)))
struct CrowdMemoryTests {
    /// Makes requests to the store wait that come after it was made, until it is opened.
    private final class Gate: Sendable {
        private let gate = DispatchSemaphore(value: 0)
        private let jobs: Int

        private init(_ jobs: Int) { self.jobs = jobs }

        static func writer(_ database: TestDatabase) -> Gate {
            let gate = Gate(1)
            database.database.write { _ in gate.gate.wait() } completion: { (_: Result<Void, any Error>) in }
            return gate
        }

        static func readers(_ database: TestDatabase) async -> Gate {
            let gate = Gate(DatabaseOptions().readers)
            for _ in 0..<gate.jobs {
                await withCheckedContinuation { holds in
                    database.database.read { _ in
                        holds.resume()
                        gate.gate.wait()
                    } completion: { (_: Result<Void, any Error>) in }
                }
            }
            return gate
        }

        func open() { for _ in 0..<jobs { gate.signal() } }
    }

    /// How requests were answered: error codes, or 0 for success.
    private final class Answers: Sendable {
        private let codes = Mutex<[Int: Int]>([:])
        func add(_ reply: IncomingReply?) { codes.withLock { $0[reply.map { $0.error?.code ?? 0 } ?? -1, default: 0] += 1 } }
        var all: [Int: Int] { codes.withLock { $0 } }
        subscript(_ code: Int) -> Int { codes.withLock { $0[code, default: 0] } }
    }

    /// Compressed, a checkpoint of the maximum size is only a few hundred bytes.
    @Test func checkpointsThatWaitToBeStored() async throws {
        let database = try TestDatabase("hub")
        let memory = MemoryBudget(limit: 8 << 20)
        let hub = MemoryHub(database: database, memory: memory)
        let honest = try await Peer(hub.connect())
        let gate = Gate.writer(database)
        let body = "{\"text\":\"\(String(repeating: " ", count: 128_000))\"}"
        let answers = Answers()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<40 {
                let peer = try await Peer(hub.connect())
                for each in 0..<10 {
                    group.addTask { answers.add(await peer.ask("setCheckpoint", [("client", "cp-\(number)-\(each)"), ("rev", "")], body, compressed: true)) }
                }
            }
            try await eventually("some requests are refused") { answers[503] > 0 }
            #expect(await honest.ask("getCheckpoint", [("client", "mine")])?.error?.code == 404)
            let saved = Task { await honest.ask("setCheckpoint", [("client", "mine"), ("rev", "")], "{\"local\":1}") }
            gate.open()
            #expect(await saved.value.map { $0.error == nil } == true)
            try await group.waitForAll()
        }
        // All of them would hold 50 MB. Some are refused, and some connections with an unfinished message of that size are closed.
        #expect(memory.takeHighest() <= memory.limit + memory.limit / 10)
        #expect(answers[0] > 0 && answers[503] > 200 && answers[0] + answers[503] + answers[-1] == 400, "\(answers.all)")
    }

    private func put(checkpoint id: String, bytes: Int, _ database: TestDatabase) async throws {
        let body = Array("{\"text\":\"\(String(repeating: "x", count: bytes))\"}".utf8)
        try await database.database.write {
            _ = try $0.setPeerCheckpoint(
                CheckpointOwner(user: nil, listener: "hub"), id: id, body: body, expectedRevision: nil, within: CheckpointBounds(count: 10, bytes: 2 << 20))
        }
    }

    /// What is read for an answer is in memory before its connection gets its turn.
    @Test func anAnswerIsReadWhenThereIsRoomForIt() async throws {
        let database = try TestDatabase("hub")
        try await put(checkpoint: "large", bytes: 120_000, database)
        try await put(checkpoint: "small", bytes: 100, database)
        let memory = MemoryBudget(limit: 8 << 20)
        let hub = MemoryHub(database: database, memory: memory)
        let (greedy, honest) = (try await Peer(hub.connect()), try await Peer(hub.connect()))
        #expect(await honest.ask("getCheckpoint", [("client", "small")])?.error == nil)
        let others = memory.register { _ in }
        _ = others.hold(memory.limit - memory.used - 100_000, owedByPeer: 0)
        async let refused = greedy.ask("getCheckpoint", [("client", "large")])
        #expect(await honest.ask("getCheckpoint", [("client", "small")])?.body.readableBytes ?? 0 > 100)
        let error = await refused?.error
        #expect(error?.code == 503 && error?.message.contains("limits.memory") == true, "\(String(describing: error))")
        // The refusal ends nothing else, and what waits continues when there is room.
        async let answered = greedy.ask("getCheckpoint", [("client", "large")])
        #expect(await honest.ask("getCheckpoint", [("client", "small")])?.error == nil)
        _ = others.hold(0, owedByPeer: 0)
        #expect(await answered?.body.readableBytes ?? 0 > 120_000)
        try await eventually("no memory is reserved for it any more") { memory.reserved == 0 }
        #expect(memory.highestReserved >= 120_000)
    }

    @Test func checkpointsThatAreRequestedAndNotRead() async throws {
        let database = try TestDatabase("hub")
        try await put(checkpoint: "large", bytes: 120_000, database)
        try await put(checkpoint: "small", bytes: 100, database)
        let memory = MemoryBudget(limit: 16 << 20)
        let hub = MemoryHub(database: database, memory: memory)
        let honest = try await Peer(hub.connect())
        let gate = await Gate.readers(database)
        var crowd: [Peer] = []
        for _ in 0..<240 {
            let transport = try await hub.connect()
            let peer = Peer(transport)
            transport.executionContext.execute { transport.setReading(false) }
            for _ in 0..<5 { peer.send(peer.request("getCheckpoint", [("client", "large")])) }
            crowd.append(peer)
        }
        gate.open()
        try await eventually("answers are read") { memory.highestReserved > 120_000 }
        #expect(await honest.ask("getCheckpoint", [("client", "small")])?.error == nil)
        try await eventually("all answers are read or refused") { memory.reserved == 0 }
        // All of the first answers would hold 44 MB. What an evicted connection holds counts until it is gone.
        let highest = memory.takeHighest()
        #expect(memory.highestReserved <= memory.workLimit && highest <= memory.limit + memory.limit / 2, "\(highest) of \(memory.limit)")
        for peer in crowd { peer.close() }
    }

    /// In memory, rows take twenty times the size of their text.
    @Test func listsThatTheStoreLooksUp() async throws {
        let database = try TestDatabase("hub")
        let memory = MemoryBudget(limit: 16 << 20)
        let hub = MemoryHub(database: database, memory: memory)
        let honest = try await Peer(hub.connect())
        let gate = await Gate.readers(database)
        let list = "[\((0..<1_000).map { "[\"d\($0)\",\"1-aa\"]" }.joined(separator: ","))]"
        let answers = Answers()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<40 {
                let peer = try await Peer(hub.connect())
                for _ in 0..<2 { group.addTask { answers.add(await peer.ask("proposeChanges", [], list, compressed: true)) } }
            }
            try await eventually("as many lists are read as there is room for") { memory.isShort }
            let proposed = Task { await honest.ask("proposeChanges", [], "[[\"mine\",\"1-aa\"]]") }
            gate.open()
            #expect(await proposed.value.map { $0.error == nil } == true)
            try await group.waitForAll()
        }
        // All of them together would hold 25 MB, on top of 11 MB for forty connections with compression.
        #expect(memory.takeHighest() <= memory.limit + memory.limit / 10)
        #expect(answers[0] >= 10 && answers[0] + answers[503] == 80, "\(answers.all)")
    }

    /// Others may have taken room between the request and the reading.
    @Test func aPageTakesTheRoomThereIsWhenItIsRead() async throws {
        let database = try TestDatabase("hub")
        for number in 0..<20 { try await database.put("doc-\(number)", "{\"text\":\"\(String(repeating: "x", count: 100_000))\"}") }
        let memory = MemoryBudget(limit: 64 << 20)
        let (session, client) = await MemoryHub(database: database, memory: memory).session()
        let gate = await Gate.readers(database)
        let peer = Peer(client) { _ in nil }
        #expect(await peer.ask("subChanges", [("continuous", "true")])?.error == nil)
        try await eventually("a page is due to be read") { await session.readsAPage }
        let others = memory.register { _ in }
        _ = others.hold(memory.limit / 4 * 3, owedByPeer: 0)
        gate.open()
        for await request in peer.requests where request.profile == "changes" {
            #expect(json(request.body)?.asArray?.count == 1)
            break
        }
        peer.close()
    }

    /// Otherwise pages for two hundred peers could be in memory before the first peer counts its own.
    @Test func aPageIsReservedInTheBudgetBeforeItIsRead() async throws {
        let database = try TestDatabase("hub")
        for number in 0..<20 { try await database.put("doc-\(number)", "{\"text\":\"\(String(repeating: "x", count: 100_000))\"}") }
        let memory = MemoryBudget(limit: 64 << 20)
        let peer = try await Peer(MemoryHub(database: database, memory: memory).connect()) { _ in nil }
        #expect(await peer.ask("subChanges", [("continuous", "true")])?.error == nil)
        for await request in peer.requests where request.profile == "changes" { break }
        #expect(memory.highestReserved >= StoreLimits.maxBodyBytesPerRead)
        try await eventually("the page is counted, and nothing else is reserved") { memory.reserved == 0 && memory.used >= 1_000_000 }
        peer.close()
    }

    /// A message holds another copy of the body and history: for a peer that wants a whole list and then does not read, all of them would be made in one turn.
    @Test("while memory is short, messages are made as the peer accepts them, otherwise all of a list at once", arguments: [true, false])
    func whileMemoryIsShortMessagesAreMadeAsThePeerAcceptsThem(_ isShort: Bool) async throws {
        let database = try TestDatabase("hub")
        for number in 0..<60 {
            // The text does not compress well, and shares nothing with the previous document.
            let text = (0..<1_200).map { _ in String(UInt64.random(in: 0 ... .max), radix: 36) }.joined()
            try await database.put("doc-\(number)", "{\"text\":\"\(text)\",\"n\":\(number)}")
        }
        let memory = MemoryBudget(limit: 64 << 20)
        let (session, client) = await MemoryHub(database: database, memory: memory).session()
        let peer = Peer(client) { $0.profile == "changes" ? nil : OutgoingReply() }
        #expect(await peer.ask("subChanges", [("continuous", "true")])?.error == nil)
        var list: UInt64?
        for await request in peer.requests where request.profile == "changes" && request.body.readableBytes > 4 {
            #expect(json(request.body)?.asArray?.count == 60)
            list = request.number
            break
        }
        let others = memory.register { _ in }
        if isShort { _ = others.hold(memory.limit - memory.used - (4 << 20), owedByPeer: 0) }
        #expect(memory.isShort == isShort)
        client.executionContext.execute { client.setReading(false) }
        peer.reply(to: try #require(list), OutgoingReply(json: "[" + Array(repeating: "[]", count: 60).joined(separator: ",") + "]"))
        try await eventually("all revisions are due to be sent") { await session.revisionsOnTheirWay == 60 }
        // The socket takes 128 KB at most; of the rest there is one message at a time, and not 900 KB of messages.
        try await eventually("as many messages have been made as are allowed") {
            let (made, waiting) = await (session.bytesOfMessagesMade, session.revisionsNotMade)
            return isShort ? waiting >= 30 : made > 500_000 && waiting == 0
        }
        #expect(await session.bytesOfMessagesMade < (isShort ? 40_000 : 1 << 20))
        // The others are made as it reads, even while memory is short.
        client.executionContext.execute { client.setReading(true) }
        var arrived: Set<String> = []
        for await request in peer.requests where request.profile == "rev" {
            arrived.insert(request.properties["id"] ?? "")
            if arrived.count == 60 { break }
        }
        #expect(arrived.count == 60)
        try await eventually("all revisions are acknowledged") { await session.revisionsOnTheirWay == 0 }
        peer.close()
    }

    /// A small frame may turn into megabytes while evicted connections still hold memory. Even if nothing is released, nobody waits for ever.
    @Test("while the budget is used up no frame is processed until some time has passed", arguments: [true, false])
    func usedUp(endsBeforeLong: Bool) async throws {
        let database = try TestDatabase("hub")
        let memory = MemoryBudget(limit: 16 << 20)
        let (session, client) = await MemoryHub(database: database, memory: memory).session()
        let peer = Peer(client)
        let others = memory.register { _ in }
        _ = others.hold(memory.limit + 1, owedByPeer: 0)
        async let answer = peer.ask("getCheckpoint", [("client", "cp")])
        try await eventually("the session waits with its frames") { await session.waitsWithFrames }
        if endsBeforeLong { _ = others.hold(0, owedByPeer: 0) }
        #expect(await answer != nil)
        withExtendedLifetime(others) {}
        peer.close()
    }

    /// Nine thousand names arrive as a few hundred kilobytes.
    @Test func namesOfBlobsWaitForRoomAndAreOnlyNamesUntilTheirTurn() async throws {
        let database = try TestDatabase("hub")
        let memory = MemoryBudget(limit: 16 << 20)
        let (session, client) = await MemoryHub(database: database, memory: memory).session()
        let peer = Peer(client) { _ in nil }
        await peer.begin()
        let before = memory.used
        let others = memory.register { _ in }
        _ = others.hold(memory.limit - before - (3 << 20), owedByPeer: 0)
        peer.send(peer.request("rev", [("collection", "0"), ("id", "many"), ("rev", "1-aa"), ("history", "")], HeldMemoryTests.naming(9_000)))
        try await eventually("the session looks at the revision") { await session.looksAtRevisions }
        _ = others.hold(0, owedByPeer: 0)
        for await request in peer.requests where request.profile == "getAttachment" { break }
        #expect(memory.takeHighest() <= memory.limit)
        // If all were fetched at once, they would hold six megabytes more.
        try await eventually("the memory reserved for the names is given back") { memory.reserved == 0 && memory.used - before < 5 << 20 }
        #expect(memory.used - before > 9_000 * HeldBytes.reference)
        peer.close()
    }

    @Test func aDocumentWithMoreBlobsThanAreUnderWayArrives() async throws {
        let database = try TestDatabase("hub")
        let contents = Dictionary(uniqueKeysWithValues: (0..<600).map { (BlobDigest.of(Array("\($0)".utf8)).text, "\($0)") })
        let memory = MemoryBudget(limit: 16 << 20)
        let peer = try await Peer(MemoryHub(database: database, memory: memory).connect()) { request in
            OutgoingReply(body: ByteBuffer(string: request.properties["digest"].flatMap { contents[$0] } ?? ""))
        }
        await peer.begin()
        let answer = await peer.ask("rev", [("collection", "0"), ("id", "many"), ("rev", "1-aa"), ("history", "")], HeldMemoryTests.naming(600))
        #expect(answer != nil && answer?.error == nil, "\(String(describing: answer?.error))")
        #expect(try await database.get("many") != nil)
        #expect(memory.takeHighest() <= memory.limit && memory.reserved == 0)
        peer.close()
    }

    /// Another subscription replaces one whose documents were wanted.
    @Test func revisionsWaitingToBeSentAreDroppedWithTheirPush() {
        var outgoing = OutgoingRevisions()
        for number in 0..<6 {
            outgoing.append(.init(slot: number % 2, generation: 1, document: outgoingDocument(number), delta: [UInt8](repeating: 0, count: 100)))
        }
        #expect(outgoing.bytes == 600 && outgoing.next()?.document.sequence == 0)
        outgoing.remove(slot: 0)
        #expect(outgoing.bytes == 300 && outgoing.count == 3)
        #expect([1, 3, 5].allSatisfy { outgoing.next()?.document.sequence == $0 })
        #expect(outgoing.next()?.document.sequence == nil && outgoing.bytes == 0 && outgoing.count == 0)
        // Peers that are gone take no room, however long this continues.
        for number in 0..<10_000 {
            outgoing.append(.init(slot: 0, generation: 1, document: outgoingDocument(number), delta: nil))
            if number > 0 { #expect(outgoing.next()?.document.sequence == SequenceNumber(number - 1)) }
        }
        #expect(outgoing.count == 1)
    }

    private func outgoingDocument(_ number: Int) -> OutgoingDocument { OutgoingDocument(sequence: SequenceNumber(number), id: doc("a"), version: rev("1-aa")) }

    /// A transport whose peer takes nothing, not even CLOSE; or takes all, and does not answer CLOSE.
    private final class StuckTransport: MessageTransport {
        let inner: InMemoryTransport
        let waitingBytes: Int
        init(_ inner: InMemoryTransport, waitingBytes: Int = 200_000) { (self.inner, self.waitingBytes) = (inner, waitingBytes) }
        var executionContext: any SerialContext { inner.executionContext }
        var isWritable: Bool { waitingBytes == 0 }
        func start(_ receiver: any MessageReceiver) { inner.start(receiver) }
        func write(_ messages: [ByteBuffer]) { inner.write(messages) }
        func setReading(_ enabled: Bool) { inner.setReading(enabled) }
        func close(code: UInt16, reason: String) {}
        func drop() { inner.drop() }
        var peerDescription: String { inner.peerDescription }
        var correlationID: String? { nil }
        var subprotocol: Subprotocol? { inner.subprotocol }
    }

    @Test func unreadDataCountsAfterItsSessionUntilTheConnectionIsGone() async throws {
        let database = try TestDatabase("hub")
        let memory = MemoryBudget(limit: 8 << 20)
        let (client, server) = InMemoryTransport.pair(loops.next(), loops.next())
        let session = ReplicationSession(
            transport: StuckTransport(server), role: .passive(PassiveConfiguration(listener: "hub", database: database.database)), environment: .system,
            memory: memory, logger: quietLogger())
        await session.start()
        await session.stop()
        #expect(memory.used == 200_000)
        // No other connection owes anything.
        let others = memory.register { _ in }
        _ = others.hold(memory.limit, owedByPeer: 0)
        try await eventually("the connection is dropped") { memory.used == memory.limit }
        others.giveUp()
        #expect(memory.used == 0)
        client.drop()
    }

    @Test func anEvictedPeerThatAnswersNoCloseCountsUntilItIsGone() async throws {
        let database = try TestDatabase("hub")
        let memory = MemoryBudget(limit: 8 << 20)
        let (client, server) = InMemoryTransport.pair(loops.next(), loops.next())
        let session = ReplicationSession(
            transport: StuckTransport(server, waitingBytes: 0), role: .passive(PassiveConfiguration(listener: "hub", database: database.database)),
            environment: .system, memory: memory, logger: quietLogger())
        await session.start()
        session.later { $0.accounts.stand(.evicted) }
        try await eventually("the session has ended, and the connection has not") { memory.used == 16 << 10 }
        let others = memory.register { _ in }
        _ = others.hold(memory.limit, owedByPeer: 0)
        try await eventually("the connection is dropped") { memory.used == memory.limit }
        others.giveUp()
        client.drop()
    }

    /// Otherwise what the socket has not taken would stay until CLOSE times out, and would not be counted anywhere.
    @Test func anEvictedPeerThatReadsNothingIsDropped() async throws {
        let database = try TestDatabase("hub")
        let body = Array("{\"text\":\"\(String(repeating: "x", count: 110_000))\"}".utf8)
        try await database.database.write {
            try $0.setPeerCheckpoint(
                CheckpointOwner(user: nil, listener: "hub"), id: "cp", body: body, expectedRevision: nil, within: CheckpointBounds(count: 1, bytes: 2 << 20))
        }
        let memory = MemoryBudget(limit: 64 << 20)
        let (session, client) = await MemoryHub(database: database, memory: memory).session()
        let peer = Peer(client)
        client.executionContext.execute { client.setReading(false) }
        peer.send(peer.request("getCheckpoint", [("client", "cp")]))
        let waiting = Mutex(0)
        try await eventually("the reply is waiting in the socket") {
            session.later { driver in waiting.withLock { $0 = driver.transport.waitingBytes } }
            return waiting.withLock { $0 } > 100_000 && memory.used > 120_000
        }
        session.later { $0.accounts.stand(.evicted) }
        for await end in peer.end { #expect(end.code == 1006) }
    }
}

extension ReplicationSession {
    fileprivate var revisionsOnTheirWay: Int { driver.links.first?.push?.ledger.inFlight ?? 0 }
    fileprivate var bytesOfMessagesMade: Int { driver.dialect.queuedBytes }
    fileprivate var waitsWithFrames: Bool { !driver.intake.isEmpty && driver.intake.isPaused }
    fileprivate var looksAtRevisions: Bool { driver.links.contains { !$0.unchecked.isEmpty } }
    fileprivate var revisionsNotMade: Int { driver.outgoing.count }
    fileprivate var readsAPage: Bool { if case .feed? = driver.links.first?.push?.feed.reading { true } else { false } }
}
