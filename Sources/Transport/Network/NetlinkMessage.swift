/// The messages of Linux's routing socket that say that there is a network connection, or a different one.
enum NetlinkMessage {
    /// For one read: more than the size of any single kernel message.
    static let bufferSize = 32 << 10

    /// `sockaddr_nl`, subscribed to links, addresses and routes.
    struct SocketAddress {
        var family: UInt16 = 16
        var padding: UInt16 = 0
        var process: UInt32 = 0
        /// RTMGRP_LINK, _IPV4_IFADDR, _IPV4_ROUTE, _IPV6_IFADDR, _IPV6_ROUTE.
        var groups: UInt32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400
    }

    private static let newLink: UInt16 = 16
    private static let deletedLink: UInt16 = 17
    private static let newAddress: UInt16 = 20
    private static let deletedAddress: UInt16 = 21
    private static let newRoute: UInt16 = 24

    /// What messages report.
    enum News: Int, Comparable {
        case nothing
        /// An interface is no longer running, or has lost an address.
        case loss
        /// Something that may let a connection succeed that failed before: a link that came up, an address or a
        /// route.
        case gain

        static func < (one: News, other: News) -> Bool { one.rawValue < other.rawValue }
    }

    /// The running interfaces, as far as the kernel has reported them.
    struct Links {
        /// `network_links`: interfaces that are tracked separately.
        private static let limit = 1_024
        private var running: Set<UInt32> = []

        /// The best that one read reports. Bytes that are not messages report nothing.
        mutating func news(_ bytes: some RandomAccessCollection<UInt8>) -> News {
            var news = News.nothing
            var rest = bytes[...]
            // Length, type, flags, sequence number, process; then the body.
            while rest.count >= 16 {
                let length = Int(integer(rest, 0, 4))
                guard length >= 16, length <= rest.count else { break }
                let message = rest.prefix(length)
                news = max(news, note(UInt16(integer(message, 4, 2)), message.dropFirst(16)))
                rest = rest.dropFirst((length + 3) & ~3)
            }
            return news
        }

        private mutating func note(_ type: UInt16, _ body: some RandomAccessCollection<UInt8>) -> News {
            switch type {
            case NetlinkMessage.newAddress: return .gain
            case NetlinkMessage.deletedAddress: return .loss
            case NetlinkMessage.newRoute:
                // struct rtmsg: the main table, and a unicast route.
                return body.count >= 12 && integer(body, 4, 1) == 254 && integer(body, 7, 1) == 1 ? .gain : .nothing
            case NetlinkMessage.newLink, NetlinkMessage.deletedLink:
                // struct ifinfomsg: the index at offset 4, the flags at 8. Wireless links are reported at every
                // scan.
                guard body.count >= 16 else { return .nothing }
                let index = UInt32(integer(body, 4, 4))
                let isRunning = type == NetlinkMessage.newLink && integer(body, 8, 4) & 0x41 == 0x41
                guard isRunning else {
                    running.remove(index)
                    return .loss
                }
                if running.count >= Self.limit { running = [] }
                return running.insert(index).inserted ? .gain : .nothing
            default: return .nothing
            }
        }

        /// In the machine's byte order, which is little-endian wherever this runs.
        private func integer(_ bytes: some RandomAccessCollection<UInt8>, _ offset: Int, _ size: Int) -> UInt64 {
            bytes.dropFirst(offset).prefix(size).reversed().reduce(0) { $0 << 8 | UInt64($1) }
        }
    }
}
