import Environment
import HTTPServer
import Synchronization
import TestSupport
import Testing

@testable import CouchDBServer

/// Which reader is dropped if there is no room for a response.
@Suite struct AnswerMemoryTests {
    private static let limit = 64 << 20

    /// Each sleep is over at once, and the time that it took is over.
    private final class QuickTime: TimeSource {
        private let now = Mutex<UInt64>(1)

        func wallSeconds() -> Int64 { 1_800_000_000 }
        func monotonicNanoseconds() -> UInt64 { now.withLock { $0 } }
        func sleep(nanoseconds: UInt64) async throws { now.withLock { $0 += nanoseconds } }
        func pass(seconds: UInt64) { now.withLock { $0 += seconds * 1_000_000_000 } }
    }

    /// Each sleep takes a moment, in which others go on, and then its time is over.
    private final class SteppingTime: TimeSource {
        private let state = Mutex<(now: UInt64, sleeps: Int)>((1, 0))

        var sleeps: Int { state.withLock { $0.sleeps } }
        func wallSeconds() -> Int64 { 1_800_000_000 }
        func monotonicNanoseconds() -> UInt64 { state.withLock { $0.now } }
        func sleep(nanoseconds: UInt64) async throws {
            state.withLock { $0.sleeps += 1 }
            try await SystemTime().sleep(nanoseconds: 10_000_000)
            state.withLock { $0.now += nanoseconds }
        }
    }

    /// Records which reader was cut off, and that this released what it held.
    private final class Cuts: Sendable {
        let names = Mutex<[String]>([])
        let answers = Mutex<[String: AnswerMemory.Answer]>([:])

        func answer(_ name: String, of origin: String = "", _ memory: AnswerMemory) -> AnswerMemory.Answer {
            let answer = memory.answer(of: origin) { [self] in
                names.withLock { $0.append(name) }
                _ = answers.withLock { $0.removeValue(forKey: name) }
            }
            answers.withLock { $0[name] = answer }
            return answer
        }

        var all: [String] { names.withLock { $0 } }
    }

    private static func name(_ shortage: AnswerMemory.Shortage) -> String {
        switch shortage {
        case .cut: "cut"
        case .refused: "refused"
        }
    }

    /// How many are at it at the same time.
    private final class Inside: Sendable {
        private let state = Mutex((now: 0, most: 0, used: 0))
        var found: (now: Int, most: Int, used: Int) { state.withLock { $0 } }
        func enter(_ used: Int) { state.withLock { $0 = ($0.now + 1, max($0.most, $0.now + 1), max($0.used, used)) } }
        func leave() { state.withLock { $0.now -= 1 } }
    }

    @Test("a feed that waits for hours is not cut for an answer that nobody reads")
    func feeds() async throws {
        let time = QuickTime()
        let (memory, cuts) = (AnswerMemory(MemoryBudget(limit: Self.limit, time: time), time: time), Cuts())
        let feed = cuts.answer("feed", memory)
        feed.reserveForRequest(4 << 20)
        feed.hold(64 << 10, isOwed: false)
        time.pass(seconds: 36_000)
        cuts.answer("slow", memory).hold(28 << 20)
        cuts.answer("slower", memory).hold(30 << 20)
        time.pass(seconds: 6)
        let next = cuts.answer("next", memory)
        _ = try await next.reading(8 << 20) { ((), bytes: 0) }
        let cut = cuts.all
        #expect(!cut.isEmpty && Set(cut).isSubset(of: ["slow", "slower"]), "\(cut)")
        withExtendedLifetime(feed) {}
    }

    @Test("room for what is read is taken before it is read, and given back for what was read")
    func room() async throws {
        let budget = MemoryBudget(limit: Self.limit)
        let memory = AnswerMemory(budget, time: QuickTime())
        let (first, second) = (memory.answer {}, memory.answer {})
        first.hold(1 << 20)
        let inside = try await second.reading(30 << 20) { (budget.used, bytes: 2 << 20) }
        #expect(inside == 31 << 20 && budget.used == 3 << 20 && budget.takeHighest() == 31 << 20)
        withExtendedLifetime((first, second)) {}
    }

    @Test("work that needs all of its part of the memory does not wait until a client has read the answer that is compressed for it", .timeLimit(.minutes(5)))
    func packers() async throws {
        let budget = MemoryBudget(limit: Self.limit)
        let made = AnswerMemory(budget, time: QuickTime()).packer()
        let packer = try #require(made)
        let room = await budget.reserve(budget.workLimit)
        #expect(room != nil && budget.used == budget.workLimit + Gzip.memory)
        withExtendedLifetime((packer, room)) {}
    }

    @Test("what is small is read at once, whoever holds how much: as much of a larger page, too")
    func small() async throws {
        let time = QuickTime()
        let (memory, cuts) = (AnswerMemory(MemoryBudget(limit: Self.limit, time: time), time: time), Cuts())
        for name in ["slow", "slower"] { cuts.answer(name, memory).hold(30 << 20) }
        let (began, next) = (time.monotonicNanoseconds(), cuts.answer("next", memory))
        let small = try await next.reading(CouchLimits.smallAnswer) { (true, bytes: 100) }
        let few = try await next.reading(2 << 20, orFew: true) { bytes in (bytes, bytes: 100) }
        #expect(small && few == CouchLimits.smallAnswer && time.monotonicNanoseconds() == began && cuts.all.isEmpty, "\(few), \(cuts.all)")
        let large = try await cuts.answer("large", memory).reading(2 << 20) { (true, bytes: 0) }
        #expect(large && cuts.all.count == 1, "\(cuts.all)")
        let all = try await next.reading(2 << 20, orFew: true) { bytes in (bytes, bytes: 100) }
        #expect(all == 2 << 20)
    }

    @Test("a request is owed by the client that does not read its answer, and as many are cut at once as it takes")
    func owedRequests() async throws {
        let time = QuickTime()
        let (memory, cuts) = (AnswerMemory(MemoryBudget(limit: Self.limit, time: time), time: time), Cuts())
        for number in 0..<20 {
            let answer = cuts.answer("\(number)", memory)
            answer.reserveForRequest(2 << 20)
            answer.hold(1 << 10)
        }
        time.pass(seconds: 10)
        let (began, next) = (time.monotonicNanoseconds(), cuts.answer("next", memory))
        _ = try await next.reading(30 << 20) { ((), bytes: 0) }
        let waited = time.monotonicNanoseconds() - began
        // 22 of the 40 MB have to go.
        #expect((11...12).contains(cuts.all.count), "\(cuts.all)")
        #expect(waited < (CouchLimits.answerPatience + 200) * 1_000_000, "\(waited)")
    }

    @Test("a client that reads on is not cut before one that reads nothing, though it has more to read")
    func readsOn() async throws {
        let time = QuickTime()
        let (memory, cuts) = (AnswerMemory(MemoryBudget(limit: Self.limit, time: time), time: time), Cuts())
        let reader = cuts.answer("reader", memory)
        reader.hold(22 << 20)
        cuts.answer("idle", memory).hold(18 << 20)
        for _ in 0..<11 {
            time.pass(seconds: 1)
            reader.notePaid(2 << 20)
        }
        _ = try await cuts.answer("next", memory).reading(20 << 20) { ((), bytes: 0) }
        #expect(cuts.all == ["idle"], "\(cuts.all)")
    }

    @Test("answers to an address that holds too much are cut sooner, for another address that holds little")
    func addresses() async throws {
        // A request of the same address waits longer, and until there are no restrictions.
        for (origin, limit, count) in [("127.0.0.2", CouchLimits.answerHaste, 1), ("127.0.0.1", CouchLimits.answerPatience, 5)] {
            let time = QuickTime()
            let (memory, cuts) = (AnswerMemory(MemoryBudget(limit: Self.limit, time: time), time: time), Cuts())
            for number in 0..<15 { cuts.answer("\(number)", of: "127.0.0.1", memory).hold(4 << 20) }
            time.pass(seconds: 20)
            let (began, next) = (time.monotonicNanoseconds(), cuts.answer("next", of: origin, memory))
            _ = try await next.reading(8 << 20) { ((), bytes: 0) }
            let waited = (time.monotonicNanoseconds() - began) / 1_000_000
            #expect(cuts.all.count == count && !cuts.all.contains("next") && waited > limit && waited < limit + 200, "\(origin): \(cuts.all) after \(waited) ms")
        }
    }

    @Test("a request of an address that holds little does not wait until there are no restrictions, which others could prevent for ever")
    func despiteRestrictions() async throws {
        let time = QuickTime()
        let budget = MemoryBudget(limit: Self.limit, time: time)
        let (memory, cuts) = (AnswerMemory(budget, time: time), Cuts())
        for number in 0..<13 { cuts.answer("\(number)", of: "127.0.0.1", memory).hold(4 << 20) }
        let began = time.monotonicNanoseconds()
        let used = try await cuts.answer("next", of: "127.0.0.2", memory).reading(8 << 20) { (budget.used, bytes: 0) }
        #expect(used == 60 << 20 && time.monotonicNanoseconds() == began && cuts.all.isEmpty, "\(used), \(cuts.all)")
    }

    @Test("an address that holds most of the memory with connections of another kind gives some of it up for one that holds little", arguments: [true, false])
    func otherConnections(_ isOwed: Bool) async throws {
        let time = QuickTime()
        let budget = MemoryBudget(limit: Self.limit, time: time)
        let (memory, cuts) = (AnswerMemory(budget, time: time), Cuts())
        let peers = Mutex<[Int: MemoryBudget.Share]>([:])
        for number in 0..<3 {
            let share = budget.register(origin: "127.0.0.1") { standing in
                if standing == .evicted { _ = peers.withLock { $0.removeValue(forKey: number) } }
            }
            _ = share.hold(20 << 20, owedByPeer: isOwed ? 20 << 20 : 0, isQuiet: !isOwed)
            peers.withLock { $0[number] = share }
        }
        // An answer that somebody reads, so that there is something to wait for.
        let reader = cuts.answer("reader", of: "127.0.0.3", memory)
        reader.hold(1 << 20)
        let began = time.monotonicNanoseconds()
        _ = try await cuts.answer("next", of: "127.0.0.2", memory).reading(8 << 20) { ((), bytes: 0) }
        let waited = (time.monotonicNanoseconds() - began) / 1_000_000
        let left = peers.withLock { $0.count }
        #expect(left == 2 && cuts.all.isEmpty, "\(left), \(cuts.all)")
        #expect(waited > CouchLimits.answerHaste && waited < CouchLimits.answerHaste + 200, "\(waited)")
        withExtendedLifetime(reader) {}
    }

    @Test("a request that is being answered does not give way to one that waits for just that")
    func answered() async throws {
        let time = SteppingTime()
        let memory = AnswerMemory(MemoryBudget(limit: Self.limit, time: time), time: time)
        let (large, feed) = (memory.answer(of: "127.0.0.1") {}, memory.answer(of: "127.0.0.2") {})
        try await large.asking(32 << 20) {}
        feed.reserveForRequest(24 << 20)
        let next = Task { try await memory.answer(of: "127.0.0.3") {}.asking(10 << 20) {} }
        try await eventually("the next one waits") { time.sleeps > 0 }
        let began = time.monotonicNanoseconds()
        let read = try await large.reading(2 << 20) { (true, bytes: 0) }
        #expect(read && time.monotonicNanoseconds() - began < CouchLimits.answerPatience * 1_000_000)
        large.reserveForRequest(0)
        try await next.value
        withExtendedLifetime((large, feed)) {}
    }

    @Test("the listener is told whose answers are cut, and whose requests are refused")
    func told() async throws {
        let time = QuickTime()
        let (found, cuts) = (Cuts(), Cuts())
        let memory = AnswerMemory(MemoryBudget(limit: Self.limit, time: time), time: time) { shortage, origin in
            found.names.withLock { $0.append("\(Self.name(shortage)) \(origin)") }
        }
        for name in ["slow", "slower"] { cuts.answer(name, of: "127.0.0.1", memory).hold(22 << 20) }
        time.pass(seconds: 10)
        _ = try await cuts.answer("next", of: "127.0.0.2", memory).reading(8 << 20) { ((), bytes: 0) }
        let feeds = [cuts.answer("feed", memory), cuts.answer("other feed", memory)]
        for feed in feeds { feed.reserveForRequest(20 << 20) }
        time.pass(seconds: 10)
        _ = await #expect(throws: HTTPError.self) { try await cuts.answer("last", of: "127.0.0.3", memory).asking(26 << 20) {} }
        #expect(found.all == ["cut 127.0.0.1", "cut 127.0.0.1", "refused 127.0.0.3"], "\(found.all)")
        withExtendedLifetime(feeds) {}
    }

    @Test("an answer is cut, and counts, once, although it goes on holding memory; so does one that the budget ends")
    func once() async throws {
        let time = QuickTime()
        let found = Cuts()
        let cuts = Mutex(0)
        let memory = AnswerMemory(MemoryBudget(limit: Self.limit, time: time), time: time) { shortage, origin in
            found.names.withLock { $0.append("\(Self.name(shortage)) \(origin)") }
        }
        func answer(_ origin: String) -> AnswerMemory.Answer { memory.answer(of: origin) { cuts.withLock { $0 += 1 } } }
        let (slow, next) = (answer("127.0.0.1"), answer("127.0.0.2"))
        // Its memory is not given back.
        for bytes in [32 << 20, 31 << 20] {
            slow.hold(bytes)
            time.pass(seconds: 10)
            _ = try await next.reading(20 << 20) { ((), bytes: 0) }
            #expect(found.all == ["cut 127.0.0.1"], "\(found.all)")
        }
        let (third, fourth, fifth) = (answer("127.0.0.3"), answer("127.0.0.4"), answer("127.0.0.5"))
        third.hold(20 << 20)
        time.pass(seconds: 11)
        // More than there is, twice: the budget ends the first one, which counts already, and then another one.
        fourth.hold(20 << 20)
        #expect(found.all == ["cut 127.0.0.1"], "\(found.all)")
        fifth.hold(32 << 20)
        #expect(found.all == ["cut 127.0.0.1", "cut 127.0.0.3"] && cuts.withLock { $0 } == 2, "\(found.all)")
        withExtendedLifetime((slow, third, fourth, fifth)) {}
    }

    @Test("if answers use up the budget, those to the address with most of them are cut, though one to another address is larger")
    func crowd() async throws {
        let time = QuickTime()
        let (memory, cuts) = (AnswerMemory(MemoryBudget(limit: Self.limit, time: time), time: time), Cuts())
        cuts.answer("honest", of: "127.0.0.1", memory).hold(3 << 20)
        for number in 0..<40 { cuts.answer("crowd \(number)", of: "127.0.0.2", memory).hold(3 << 19) }
        time.pass(seconds: 2)
        let next = cuts.answer("next", of: "127.0.0.3", memory)
        next.hold(4 << 20)
        // Three megabytes too many.
        #expect(cuts.all.count == 2 && cuts.all.allSatisfy { $0.hasPrefix("crowd") }, "\(cuts.all)")
        withExtendedLifetime(next) {}
    }

    @Test("waiting feeds that use up the memory make room for one that has something to read, and their clients are not said to read nothing")
    func quietFeeds() async throws {
        let budget = MemoryBudget(limit: 4 << 20)
        let told = Mutex(0)
        let memory = AnswerMemory(budget, time: QuickTime()) { _, _ in told.withLock { $0 += 1 } }
        let cuts = Cuts()
        let feeds = (0..<64).map { cuts.answer("feed \($0)", memory) }
        for feed in feeds { feed.hold(64 << 10, isOwed: false, waitsForChanges: true) }
        #expect(cuts.all.isEmpty && budget.used == 4 << 20)
        let active = cuts.answer("active", memory)
        active.hold(32 << 10)
        #expect(cuts.all.count == 1 && cuts.all != ["active"] && told.withLock { $0 } == 0, "\(cuts.all)")
        withExtendedLifetime((feeds, active)) {}
    }

    @Test("requests that wait for memory, and hold most of it, give way to an answer whose client reads")
    func waitingRequests() async throws {
        let time = SteppingTime()
        let budget = MemoryBudget(limit: Self.limit, time: time)
        let told = Mutex<[String]>([])
        let memory = AnswerMemory(budget, time: time) { shortage, origin in told.withLock { $0.append("\(shortage) \(origin)") } }
        let cuts = Cuts()
        let crowd = (0..<2).map { cuts.answer("waiting \($0)", of: "127.0.0.3", memory) }
        for each in crowd { each.reserveForRequest(30 << 20) }
        let reader = cuts.answer("reader", of: "127.0.0.2", memory)
        reader.hold(1 << 20)
        await withTaskGroup(of: Void.self) { group in
            for each in crowd { group.addTask { _ = try? await each.reading(2 << 20) { ((), bytes: 0) } } }
            while time.sleeps < 4 { await Task.yield() }
            reader.hold(5 << 20)
            #expect(cuts.all.count == 1 && cuts.all.first?.hasPrefix("waiting") == true, "\(cuts.all)")
            #expect(told.withLock { $0 } == ["refused 127.0.0.3"])
            group.cancelAll()
        }
        withExtendedLifetime((crowd, reader)) {}
    }

    @Test("large requests do not cut each other off: one for which there is no room comes back later")
    func questions() async throws {
        let time = QuickTime()
        let (memory, cuts) = (AnswerMemory(MemoryBudget(limit: Self.limit, time: time), time: time), Cuts())
        let (first, second, third) = (cuts.answer("first", memory), cuts.answer("second", memory), cuts.answer("third", memory))
        try await first.asking(20 << 20) {}
        try await second.asking(20 << 20) {}
        time.pass(seconds: 6)
        let error = await #expect(throws: HTTPError.self) { try await third.asking(20 << 20) {} }
        #expect(error?.status == 503 && error?.reason.contains("limits.memory") == true)
        // Those that are in are answered, though their questions leave little room.
        let read = try await first.reading(12 << 20) { (true, bytes: 1 << 20) }
        #expect(read && cuts.all.isEmpty, "\(cuts.all)")
        withExtendedLifetime((first, second, third)) {}
    }

    @Test("large requests are stored one at a time, and what they are taken apart into counts meanwhile")
    func largeWrites() async throws {
        let budget = MemoryBudget(limit: Self.limit)
        let memory = AnswerMemory(budget, time: QuickTime())
        let inside = Inside()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    try await memory.writing(8 << 20) {
                        inside.enter(budget.used)
                        for _ in 0..<20 { await Task.yield() }
                        inside.leave()
                    }
                }
            }
            try await group.waitForAll()
        }
        let found = inside.found
        #expect(found.most == 1 && found.used == 8 << 20 && budget.used == 0, "\(found)")
    }
}
