import Glibc
import NIOCore

/// The addresses of this machine's network interfaces.
public enum NetworkInterfaces {
    /// One address of one interface; the port is 0.
    public struct Entry: Sendable {
        public var interface: String
        public var address: SocketAddress
        public var isLoopback: Bool
        /// A link-local IPv6 address.
        public var isLinkLocal: Bool
    }

    /// All addresses of interfaces that are up; empty if the system does not say.
    public static func all() -> [Entry] { listed() ?? [] }

    /// All addresses of interfaces that are up; nil if the system does not say, for example for lack of a file descriptor.
    private static func listed() -> [Entry]? {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return nil }
        defer { freeifaddrs(list) }
        var entries: [Entry] = []
        var next = list
        while let item = next {
            next = item.pointee.ifa_next
            guard item.pointee.ifa_flags & UInt32(IFF_UP) != 0, let raw = item.pointee.ifa_addr, let address = SocketAddress(raw) else { continue }
            var isLinkLocal = false
            if case .v6(let v6) = address {
                isLinkLocal = withUnsafeBytes(of: v6.address.sin6_addr) { $0[0] == 0xFE && $0[1] & 0xC0 == 0x80 }
            }
            entries.append(
                Entry(
                    interface: String(cString: item.pointee.ifa_name), address: address,
                    isLoopback: item.pointee.ifa_flags & UInt32(IFF_LOOPBACK) != 0, isLinkLocal: isLinkLocal
                )
            )
        }
        return entries
    }

    /// The addresses of the interface with that name, IPv4 first; link-local ones only if there are no others. Empty if there is no such
    /// interface.
    public static func addresses(of interface: String) -> [SocketAddress] { listedAddresses(of: interface) ?? [] }

    /// The same; nil if the system does not say.
    static func listedAddresses(of interface: String) -> [SocketAddress]? {
        guard let entries = listed()?.filter({ $0.interface.utf8.elementsEqual(interface.utf8) }) else { return nil }
        let general = entries.filter { !$0.isLinkLocal }
        let addresses = (general.isEmpty ? entries : general).map(\.address)
        return addresses.filter { $0.protocol == .inet } + addresses.filter { $0.protocol == .inet6 }
    }

    static func exists(_ interface: String) -> Bool {
        interface.utf8.count < Int(IF_NAMESIZE) && if_nametoindex(interface) != 0
    }
}
