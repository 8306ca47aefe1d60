import Environment
import Synchronization
import TestRandomness
import Testing

@testable import Discovery

/// What a search makes of the announcements that it hears.
@Suite struct HeardNamesTests {
    private final class Lots: RandomSource {
        private let generator = Mutex(SeededGenerator(seed: 7))

        func next() -> UInt64 { generator.withLock { $0.next() } }
    }

    private static func service(_ name: String, _ address: String) throws -> FoundService {
        try #require(
            FoundService(resolved: [
                .int32(2), .int32(0), .text(name), .text(FoundService.type), .text("local"), .text("hub.local"), .int32(0), .text(address), .number(4984),
                .array([]), .number(0),
            ]))
    }

    private static func names(proven: Set<String> = []) -> HeardNames { HeardNames(random: Lots()) { proven.contains($0) } }

    /// Resolves what waits.
    private static func resolve(_ heard: inout HeardNames, _ addresses: (HeardNames.Heard) -> String?) throws {
        while let next = heard.next() {
            let service = try addresses(next).map { try Self.service(next.name, $0) }
            heard.answer(next, service)
        }
    }

    @Test("the addresses of a name come together, IPv4 first, and a name that was taken back is gone until it is announced again")
    func names() throws {
        var heard = Self.names()
        for (name, version) in [("b", 1), ("b", 0), ("a", 0), ("gone", 0), ("b", 0)] as [(String, Int32)] {
            heard.add(name, interface: 2, version: version, isLocal: name == "a")
        }
        let count = heard.count
        #expect(count == 4)
        heard.remove("gone")
        try Self.resolve(&heard) { $0.name == "b" ? $0.version == 1 ? "2001:db8::1" : "192.0.2.1" : "192.0.2.2" }
        let services = heard.services()
        #expect(services.map(\.name) == ["a", "b"] && services.map(\.isLocal) == [true, false])
        #expect(services.last?.addresses == ["192.0.2.1", "2001:db8::1"])
        heard.add("gone", interface: 2, version: 0, isLocal: false)
        let again = heard.next()
        #expect(again == nil && heard.services().map(\.name) == ["a", "b", "gone"])
    }

    @Test("a name that only looks like another one neither hides it nor takes it back, nor changes its address, nor makes it this machine's")
    func lookAlikes() throws {
        let (hub, other) = ("hub-\u{E9}", "hub-e\u{301}")
        var heard = Self.names()
        heard.add(other, interface: 2, version: 0, isLocal: true)
        heard.add(hub, interface: 2, version: 0, isLocal: false)
        try Self.resolve(&heard) { $0.name.utf8.elementsEqual(hub.utf8) ? "192.0.2.1" : "192.0.2.66" }
        #expect(Set(heard.services().map(\.addresses)) == [["192.0.2.1"], ["192.0.2.66"]])
        heard.remove(other)
        let left = heard.services()
        #expect(left.map(\.addresses) == [["192.0.2.1"]] && left.first?.isLocal == false)
    }

    @Test("one address with very many names, however early, takes no room from others")
    func oneAddress() throws {
        var heard = Self.names()
        for number in 0..<HeardNames.most + 200 {
            heard.add("x\(number)", interface: 2, version: 0, isLocal: false)
            try Self.resolve(&heard) { _ in "192.0.2.66" }
        }
        for number in 0..<20 {
            heard.add("hub-\(number)", interface: 2, version: 0, isLocal: false)
            try Self.resolve(&heard) { _ in "192.0.2.\(number)" }
        }
        for number in 0..<200 {
            heard.add("y\(number)", interface: 2, version: 0, isLocal: false)
            try Self.resolve(&heard) { _ in "192.0.2.66" }
        }
        let services = heard.services()
        #expect(services.count == HeardNames.most && heard.count == HeardNames.most)
        #expect(services.filter { $0.name.hasPrefix("hub-") }.count == 20)
    }

    @Test("a listener that was reached before is found however much else is announced, and is resolved first")
    func proven() throws {
        var heard = Self.names(proven: ["hub", "old"])
        heard.add("old", interface: 2, version: 0, isLocal: false)
        try Self.resolve(&heard) { _ in "192.0.2.1" }
        for number in 0..<2 * HeardNames.most { heard.add("x\(number)", interface: 2, version: 0, isLocal: false) }
        heard.add("hub", interface: 2, version: 0, isLocal: false)
        for number in 0..<2 * HeardNames.most { heard.add("y\(number)", interface: 2, version: 0, isLocal: false) }
        let count = heard.count
        #expect(count == HeardNames.most)
        let next = heard.next()
        let first = try #require(next)
        #expect(first.name == "hub")
        heard.answer(first, try Self.service("hub", "192.0.2.66"))
        try Self.resolve(&heard) { _ in "192.0.2.66" }
        for number in 0..<100 {
            heard.add("z\(number)", interface: 2, version: 0, isLocal: false)
            try Self.resolve(&heard) { _ in "192.0.2.66" }
        }
        let names = Set(heard.services().map(\.name))
        #expect(names.isSuperset(of: ["hub", "old"]) && names.count == HeardNames.most)
    }

    @Test("where nothing was resolved yet, those that come later have a chance, too")
    func waiting() throws {
        var heard = Self.names()
        for number in 0..<2 * HeardNames.most { heard.add("x\(number)", interface: 2, version: 0, isLocal: false) }
        try Self.resolve(&heard) { _ in "192.0.2.66" }
        let late = heard.services().filter { Int($0.name.dropFirst()) ?? 0 >= HeardNames.most }
        // Half of them, give or take; whoever came first would have taken all places.
        #expect((1..<HeardNames.most).contains(late.count))
    }

    @Test("so many are resolved at a time, and one that could not be resolved leaves its place")
    func limit() throws {
        var heard = Self.names(proven: ["hub"])
        for number in 0..<100 { heard.add("x\(number)", interface: 2, version: 0, isLocal: false) }
        var asked: [HeardNames.Heard] = []
        while let next = heard.next() { asked.append(next) }
        #expect(asked.count == HeardNames.mostAsked && Set(asked).count == asked.count)
        heard.answer(asked[0], nil)
        let one = heard.next()
        let another = heard.next()
        #expect(one != nil && another == nil && heard.count == 99 && heard.services().isEmpty)
        // One that was reached before does not wait for the others.
        heard.add("hub", interface: 2, version: 0, isLocal: false)
        let hub = heard.next()
        #expect(hub?.name == "hub")
    }
}
