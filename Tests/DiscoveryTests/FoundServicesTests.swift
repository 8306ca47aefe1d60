import Testing

@testable import Discovery

/// What a search makes of the announcements that it hears.
@Suite struct FoundServicesTests {
    private static func service(_ name: String, _ address: String) throws -> FoundService {
        try #require(
            FoundService(resolved: [
                .int32(2), .int32(0), .text(name), .text(FoundService.type), .text("local"), .text("hub.local"), .int32(0), .text(address), .number(4984),
                .array([]), .number(0),
            ]))
    }

    @Test("the addresses of a name come together, IPv4 first, and a name that was taken back is gone")
    func names() throws {
        let found = try [Self.service("b", "2001:db8::1"), Self.service("b", "192.0.2.1"), Self.service("a", "192.0.2.2"), Self.service("gone", "192.0.2.3")]
        let services = ServiceLookup.merged(found, gone: [Array("gone".utf8)], local: [Array("a".utf8)])
        #expect(services.map(\.name) == ["a", "b"] && services.map(\.isLocal) == [true, false])
        #expect(services.last?.addresses == ["192.0.2.1", "2001:db8::1"])
    }

    @Test("a name that only looks like another one neither takes it back, nor changes its address, nor makes it this machine's")
    func lookAlikes() throws {
        let (hub, other) = ("hub-\u{E9}", "hub-e\u{301}")
        let found = try [Self.service(other, "192.0.2.66"), Self.service(hub, "192.0.2.1")]
        #expect(Set(ServiceLookup.merged(found, gone: [], local: []).map(\.addresses)) == [["192.0.2.1"], ["192.0.2.66"]])
        let left = ServiceLookup.merged(found, gone: [Array(other.utf8)], local: [Array(other.utf8)])
        #expect(left.map(\.addresses) == [["192.0.2.1"]] && left.first?.isLocal == false)
    }
}
