import Testing

@testable import CouchDBServer

/// Whose answers are cut, and who goes first.
@Suite struct AnswerHoldingsTests {
    /// Stands for an answer.
    private final class Key {}

    private static let share = 12 << 20
    private static let millisecond: UInt64 = 1_000_000

    private static func held(_ origin: String, page: Int, question: Int = 0) -> AnswerHoldings.Held {
        AnswerHoldings.Held(origin: origin, bytes: page + question, owed: page > 0 ? page + question : 0, question: question, cut: {})
    }

    /// Whose answers are cut for a request that has waited for this long: at its address nothing is held.
    private static func cut(_ holdings: AnswerHoldings, for bytes: Int = 2 << 20, waited milliseconds: UInt64, _ now: UInt64) -> [String] {
        var holdings = holdings
        let next = Key()
        holdings.wait(ObjectIdentifier(next), of: "next", for: bytes)
        return holdings.cutting(for: ObjectIdentifier(next), lacking: .max, waited: milliseconds * millisecond, share: share, now).map(\.origin)
    }

    @Test("an address that holds and wants too much lets another one go first, unless that wants more than its share, too")
    func givesWay() {
        let (old, new, other) = (Key(), Key(), Key())
        var holdings = AnswerHoldings()
        func givesWay(_ bytes: Int) -> Bool { holdings.givesWay(ObjectIdentifier(new), of: "much", for: bytes, share: 8) }
        holdings.note(ObjectIdentifier(old), .init(origin: "much", bytes: 6, owed: 6, question: 0, cut: {}), 0)
        #expect(!givesWay(3))
        holdings.wait(ObjectIdentifier(other), of: "little", for: 8)
        #expect(givesWay(3) && !givesWay(2))
        #expect(!holdings.givesWay(ObjectIdentifier(other), of: "little", for: 8, share: 8))
        holdings.wait(ObjectIdentifier(other), of: "little", for: 9)
        #expect(!givesWay(3))
        // What waits already is not counted twice.
        holdings.wait(ObjectIdentifier(other), of: "little", for: 1)
        holdings.wait(ObjectIdentifier(new), of: "much", for: 2)
        #expect(!givesWay(2))
        holdings.wait(ObjectIdentifier(new), of: "much", for: 3)
        #expect(givesWay(3))
        holdings.stopWaiting(ObjectIdentifier(other))
        #expect(!givesWay(3))
        withExtendedLifetime((old, new, other)) {}
    }

    @Test("a request is owed until its whole answer has been read, although the client reads a little each second")
    func slowly() {
        let answer = Key()
        var holdings = AnswerHoldings()
        var now: UInt64 = 1
        holdings.note(ObjectIdentifier(answer), Self.held("much", page: 0, question: 30 << 20), now)
        for _ in 0..<10 {
            holdings.note(ObjectIdentifier(answer), Self.held("much", page: 16 << 10, question: 30 << 20), now)
            now += 900 * Self.millisecond
            holdings.pay(ObjectIdentifier(answer), 16 << 10, now)
            holdings.note(ObjectIdentifier(answer), Self.held("much", page: 0, question: 30 << 20), now)
        }
        // There is nothing to read just now.
        #expect(Self.cut(holdings, waited: 6_000, now).isEmpty)
        holdings.note(ObjectIdentifier(answer), Self.held("much", page: 16 << 10, question: 30 << 20), now)
        #expect(Self.cut(holdings, waited: 1_100, now) == ["much"])
        withExtendedLifetime(answer) {}
    }

    @Test("a request that waited for hours for something to read is as young as what there is to read, and a page is as young as itself")
    func feeds() {
        let (feed, pages) = (Key(), Key())
        var holdings = AnswerHoldings()
        holdings.note(ObjectIdentifier(feed), Self.held("feed", page: 0, question: 30 << 20), 1)
        holdings.note(ObjectIdentifier(pages), Self.held("pages", page: 20 << 20), 1)
        let now = 36_000_000 * Self.millisecond
        holdings.note(ObjectIdentifier(feed), Self.held("feed", page: 1 << 20, question: 30 << 20), now)
        holdings.note(ObjectIdentifier(pages), Self.held("pages", page: 21 << 20), now)
        #expect(Self.cut(holdings, waited: 6_000, now + 900 * Self.millisecond).isEmpty)
        #expect(Set(Self.cut(holdings, waited: 6_000, now + 1_100 * Self.millisecond)) == ["feed", "pages"])
        withExtendedLifetime((feed, pages)) {}
    }

    @Test("one who asks for more than the share of an address does not drive out slow readers that are content with theirs, only dead ones")
    func immodest() {
        let (slow, much) = (Key(), Key())
        var holdings = AnswerHoldings()
        holdings.note(ObjectIdentifier(slow), Self.held("slow", page: 2 << 20), 0)
        holdings.note(ObjectIdentifier(much), Self.held("much", page: 20 << 20), 0)
        let now = 8_000 * Self.millisecond
        #expect(Set(Self.cut(holdings, for: 2 << 20, waited: 6_000, now)) == ["slow", "much"])
        #expect(Self.cut(holdings, for: 20 << 20, waited: 6_000, now) == ["much"])
        #expect(Set(Self.cut(holdings, for: 20 << 20, waited: 6_000, 2 * now)) == ["slow", "much"])
        withExtendedLifetime((slow, much)) {}
    }

    @Test("an address with many slow readers loses some of them before another one loses a reader that owes more than each of these")
    func crowd() {
        let (reader, crowd) = (Key(), (0..<40).map { _ in Key() })
        var holdings = AnswerHoldings()
        holdings.note(ObjectIdentifier(reader), Self.held("reader", page: 3 << 20), 0)
        for key in crowd { holdings.note(ObjectIdentifier(key), Self.held("crowd", page: 1 << 20), 0) }
        let (next, now) = (Key(), 8_000 * Self.millisecond)
        // Each of them has been owed for so long that it may be cut.
        holdings.wait(ObjectIdentifier(next), of: "next", for: 2 << 20)
        let cut = holdings.cutting(for: ObjectIdentifier(next), lacking: 13 << 20, waited: 6_000 * Self.millisecond, share: Self.share, now)
        #expect(cut.map(\.origin) == Array(repeating: "crowd", count: 13))
        withExtendedLifetime((reader, crowd, next)) {}
    }

    @Test("an address whose answers are all new loses some of them before another one loses an older reader, unless that reads nothing", arguments: [14, 20])
    func newCrowd(_ seconds: UInt64) {
        let (reader, crowd) = (Key(), (0..<20).map { _ in Key() })
        var holdings = AnswerHoldings()
        let now = seconds * 1_000 * Self.millisecond
        holdings.note(ObjectIdentifier(reader), Self.held("reader", page: 4 << 20), 0)
        for key in crowd { holdings.note(ObjectIdentifier(key), Self.held("crowd", page: 1 << 20), now - 1_100 * Self.millisecond) }
        let next = Key()
        // The request is patient enough for the reader to be due as well.
        holdings.wait(ObjectIdentifier(next), of: "next", for: 2 << 20)
        let cut = holdings.cutting(for: ObjectIdentifier(next), lacking: 1, waited: 6_000 * Self.millisecond, share: Self.share, now)
        #expect(cut.map(\.origin) == [seconds > 15 ? "reader" : "crowd"])
        withExtendedLifetime((reader, crowd, next)) {}
    }

    @Test("of addresses that hold no more than their share, the reader that owes the most goes first", arguments: [0, 1, 2])
    func fewReaders(_ others: Int) {
        let (reader, crowd) = (Key(), (0..<others).map { _ in Key() })
        var holdings = AnswerHoldings()
        for key in crowd { holdings.note(ObjectIdentifier(key), Self.held("crowd", page: 2 << 20), 0) }
        holdings.note(ObjectIdentifier(reader), Self.held("reader", page: 3 << 20), 0)
        let (next, now) = (Key(), 8_000 * Self.millisecond)
        holdings.wait(ObjectIdentifier(next), of: "next", for: 2 << 20)
        let cut = holdings.cutting(for: ObjectIdentifier(next), lacking: 1, waited: 6_000 * Self.millisecond, share: Self.share, now)
        #expect(cut.map(\.origin) == ["reader"])
        withExtendedLifetime((reader, crowd, next)) {}
    }

    @Test("an address is forgotten with the last that it holds and waits for")
    func forgetting() {
        let (answer, other) = (Key(), Key())
        var holdings = AnswerHoldings()
        holdings.note(ObjectIdentifier(answer), Self.held("much", page: 20 << 20), 0)
        holdings.note(ObjectIdentifier(answer), Self.held("much", page: 1 << 20), 0)
        holdings.wait(ObjectIdentifier(other), of: "little", for: 1)
        #expect(!holdings.givesWay(ObjectIdentifier(answer), of: "much", for: 1, share: Self.share))
        holdings.note(ObjectIdentifier(answer), Self.held("much", page: 13 << 20), 0)
        #expect(holdings.givesWay(ObjectIdentifier(answer), of: "much", for: 1, share: Self.share))
        holdings.forget(ObjectIdentifier(answer))
        #expect(!holdings.givesWay(ObjectIdentifier(answer), of: "much", for: 1, share: Self.share))
        holdings.note(ObjectIdentifier(answer), Self.held("much", page: 13 << 20), 0)
        holdings.forget(ObjectIdentifier(other))
        #expect(!holdings.givesWay(ObjectIdentifier(answer), of: "much", for: 1, share: Self.share))
        withExtendedLifetime((answer, other)) {}
    }
}
