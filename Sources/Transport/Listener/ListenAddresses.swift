import Glibc
import HTTPServer
import Interfaces
import NIOCore
import NIOPosix

/// The addresses that a listener's `interface` stands for.
package enum ListenAddresses {
    /// - Throws: ``ReplicationError`` in the network domain, or the resolver's error.
    package static func resolve(interface: String?, port: Int) async throws -> [HTTPListener.Address] {
        try await find(interface: interface, port: port).addresses
    }

    /// The same, and whether they are the present addresses of a network interface.
    ///
    /// - Throws: ``ReplicationError`` in the network domain, or the resolver's error.
    static func find(interface: String?, port: Int) async throws -> (addresses: [HTTPListener.Address], areOfInterface: Bool) {
        guard (0...65535).contains(port) else {
            throw ReplicationError(network: .addressNotAvailable, message: "port \(port) is not between 0 and 65535")
        }
        guard let interface else {
            let all = [
                HTTPListener.Address(try SocketAddress(ipAddress: "0.0.0.0", port: port)),
                HTTPListener.Address(try SocketAddress(ipAddress: "::", port: port), isOptional: true),
            ]
            return (all, false)
        }
        let bare = interface.hasPrefix("[") && interface.hasSuffix("]") ? String(interface.dropFirst().dropLast()) : interface
        if let address = try? SocketAddress(ipAddress: bare, port: port) { return ([HTTPListener.Address(address)], false) }
        if NetworkInterfaces.exists(interface) {
            guard let addresses = try current(of: interface) else {
                throw addressesUnknown(interface)
            }
            let withPort = addresses.map { address in
                var address = address
                address.port = port
                return HTTPListener.Address(address)
            }
            return (withPort, true)
        }
        do {
            let addresses = try await NIOThreadPool.singleton.runIfActive { try SystemResolver.resolve(host: interface, port: port) }
            return (addresses.enumerated().map { HTTPListener.Address($1, isOptional: $0 > 0) }, false)
        } catch let error as ResolverError where !error.isTemporary || mayBeInterface(interface) {
            let known = NetworkInterfaces.all().map(\.interface).reduce(into: [String]()) { if !$0.contains($1) { $0.append($1) } }
            let others = "interfaces with an address are \(known.isEmpty ? "none" : known.joined(separator: ", "))"
            throw ReplicationError(
                network: .unknownInterface,
                message: error.isTemporary
                    ? "\(interface) is not a network interface at the moment, and whether it is a host name cannot be looked up (\(error.text)); \(others)"
                    : "\(interface) is not an address, host name or network interface; \(others)")
        }
    }

    /// In doubt, a word counts as the name of a missing interface rather than a host name.
    static func mayBeInterface(_ word: String) -> Bool { word.utf8.count < Int(IF_NAMESIZE) && !word.utf8.contains(UInt8(ascii: ".")) }

    static func addressesUnknown(_ interface: String) -> ReplicationError {
        ReplicationError(network: .addressNotAvailable, message: "the system does not say which addresses the network interface \(interface) has")
    }

    /// The present addresses of a network interface, at least one; nil if the system does not say.
    ///
    /// - Throws: ``ReplicationError`` 27 if there is no such interface, 25 if it has no address.
    static func current(of interface: String) throws(ReplicationError) -> [SocketAddress]? {
        guard let addresses = NetworkInterfaces.listedAddresses(of: interface) else { return nil }
        guard addresses.isEmpty else { return addresses }
        guard NetworkInterfaces.exists(interface) else {
            throw ReplicationError(network: .unknownInterface, message: "the network interface \(interface) is not there")
        }
        throw ReplicationError(network: .addressNotAvailable, message: "the network interface \(interface) has no address or is down")
    }

    /// Where peers can reach bound addresses: a wildcard address (0.0.0.0, ::) is replaced by the machine's addresses, or by loopback if there are no
    /// others.
    static func reachable(_ bound: [SocketAddress], at interfaces: [NetworkInterfaces.Entry]) -> [SocketAddress] {
        let outside = reachable(bound, through: interfaces.filter { !$0.isLoopback })
        return outside.isEmpty ? reachable(bound, through: interfaces) : outside
    }

    private static func reachable(_ bound: [SocketAddress], through interfaces: [NetworkInterfaces.Entry]) -> [SocketAddress] {
        var found: [SocketAddress] = []
        for address in bound {
            guard ["0.0.0.0", "::"].contains(address.ipAddress), let port = address.port else {
                found.append(address)
                continue
            }
            for entry in interfaces where entry.address.protocol == address.protocol && !entry.isLinkLocal {
                guard let ip = entry.address.ipAddress, let reachable = try? SocketAddress(ipAddress: ip, port: port) else { continue }
                if !found.contains(reachable) { found.append(reachable) }
            }
        }
        return found
    }
}
