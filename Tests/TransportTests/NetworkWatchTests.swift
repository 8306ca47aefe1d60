import Testing

@testable import Transport

/// What the kernel says of the network, as bytes of the routing socket.
struct NetworkWatchTests {
    private func message(_ type: UInt16, _ body: [UInt8]) -> [UInt8] {
        let length = UInt32(16 + body.count)
        let head = (0..<4).map { UInt8(truncatingIfNeeded: length >> ($0 * 8)) } + [UInt8(type), 0] + [UInt8](repeating: 0, count: 10)
        return head + body + [UInt8](repeating: 0, count: (4 - body.count % 4) % 4)
    }

    private func link(_ index: UInt8, running: Bool) -> [UInt8] {
        message(16, [0, 0, 1, 0, index, 0, 0, 0, running ? 0x43 : 0x03, 0, 1, 0, 0, 0, 0, 0, 7])
    }

    private func route(table: UInt8, type: UInt8) -> [UInt8] { message(24, [2, 24, 0, 0, table, 0, 0, type, 0, 0, 0, 0]) }

    @Test func newsAreWhatLetsAConnectionSucceed() {
        var links = NetlinkMessage.Links()
        func isNews(_ bytes: [UInt8]) -> Bool { links.news(bytes) == .gain }
        #expect(!isNews(link(2, running: false)))
        #expect(isNews(link(2, running: true)))
        // Wireless interfaces are reported at every scan.
        #expect(!isNews(link(2, running: true)))
        #expect(!isNews(link(2, running: false)))
        #expect(isNews(link(3, running: false) + link(2, running: true)))
        #expect(isNews(message(20, [2, 8, 0, 0, 1, 0, 0, 0])))
        #expect(!isNews(message(21, [2, 8, 0, 0, 1, 0, 0, 0])))
        #expect(isNews(route(table: 254, type: 1)))
        // The local table, and a route that drops.
        #expect(!isNews(route(table: 255, type: 1)) && !isNews(route(table: 254, type: 6)))
    }

    /// They are nothing to try again for; a listener has to leave what its interface has lost.
    @Test func lossesAreToldApart() {
        var links = NetlinkMessage.Links()
        func news(_ bytes: [UInt8]) -> NetlinkMessage.News { links.news(bytes) }
        let deletedAddress = message(21, [2, 8, 0, 0, 1, 0, 0, 0])
        #expect(news(deletedAddress) == .loss)
        #expect(news(link(2, running: false)) == .loss)
        #expect(news(deletedAddress + link(2, running: true)) == .gain)
        #expect(news(message(17, [0, 0, 1, 0, 2, 0, 0, 0, 0x43, 0, 1, 0, 0, 0, 0, 0])) == .loss)
        #expect(news(route(table: 255, type: 1)) == .nothing)
    }

    @Test func bytesThatAreNoMessagesAreNoNews() {
        var links = NetlinkMessage.Links()
        func isNews(_ bytes: [UInt8]) -> Bool { links.news(bytes) != .nothing }
        let whole = link(2, running: true)
        for count in 0..<16 { #expect(!isNews(Array(whole.prefix(count)))) }
        #expect(!isNews([UInt8](repeating: 0xFF, count: 1_000)) && !isNews([UInt8](repeating: 0, count: 1_000)))
        #expect(!isNews([0xFF, 0xFF, 0xFF, 0x7F] + whole))
    }
}
