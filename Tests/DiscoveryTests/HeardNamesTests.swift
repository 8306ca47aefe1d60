import Testing

@testable import Discovery

/// What a search makes of the announcements that it hears.
@Suite struct HeardNamesTests {
    private static func service(_ name: String, _ address: String) throws -> FoundService {
        try #require(
            FoundService(resolved: [
                .int32(2), .int32(0), .text(name), .text(FoundService.type), .text("local"), .text("hub.local"), .int32(0), .text(address), .number(4984),
                .array([]), .number(0),
            ]))
    }

    @Test("the addresses of a name come together, IPv4 first, and a name that was taken back is gone until it is announced again")
    func names() throws {
        var heard = HeardNames()
        for (name, version) in [("b", 1), ("b", 0), ("a", 0), ("gone", 0)] as [(String, Int32)] {
            let added1 = heard.add(name, interface: 2, version: version, isLocal: name == "a")
            #expect(added1)
        }
        let added2 = heard.add("b", interface: 2, version: 0, isLocal: false)
        #expect(!added2 && heard.count == 4)
        heard.remove("gone")
        let found = try [Self.service("b", "2001:db8::1"), Self.service("b", "192.0.2.1"), Self.service("a", "192.0.2.2"), Self.service("gone", "192.0.2.3")]
        let services = heard.services(found)
        #expect(services.map(\.name) == ["a", "b"] && services.map(\.isLocal) == [true, false])
        #expect(services.last?.addresses == ["192.0.2.1", "2001:db8::1"])
        let added3 = heard.add("gone", interface: 2, version: 0, isLocal: false)
        #expect(!added3)
        #expect(heard.services(found).map(\.name) == ["a", "b", "gone"])
    }

    @Test("a name that only looks like another one neither hides it nor takes it back, nor changes its address, nor makes it this machine's")
    func lookAlikes() throws {
        let (hub, other) = ("hub-\u{E9}", "hub-e\u{301}")
        var heard = HeardNames()
        let added4 = heard.add(other, interface: 2, version: 0, isLocal: true)
        #expect(added4)
        let added5 = heard.add(hub, interface: 2, version: 0, isLocal: false)
        #expect(added5)
        let found = try [Self.service(other, "192.0.2.66"), Self.service(hub, "192.0.2.1")]
        #expect(Set(heard.services(found).map(\.addresses)) == [["192.0.2.1"], ["192.0.2.66"]])
        heard.remove(other)
        let left = heard.services(found)
        #expect(left.map(\.addresses) == [["192.0.2.1"]] && left.first?.isLocal == false)
    }
}
