import Glibc

/// A listener found on the local network, described in its own words.
package struct FoundService: Sendable, Equatable {
    /// The service type of Couchbase Lite's replication protocol over WebSockets.
    static let type = "_blipsync._tcp"

    package var name: String
    /// The name of its host, such as `hub.local`.
    package var host: String
    /// IPv4 first; link-local addresses only if there are no others, and then with the interface (`fe80::1%eth0`).
    package var addresses: [String]
    package var port: Int
    package var text: ServiceText
    /// Whether this machine announces it.
    package var isLocal = false

    /// The body of ResolveService's reply.
    init?(resolved body: [BusValue]) {
        guard body.count == 11, let name = body[2].text, let host = body[5].text, let address = body[7].text, let port = body[8].number, port > 0,
            let text = body[9].array
        else { return nil }
        self.name = name
        self.host = host
        self.port = Int(port)
        self.text = ServiceText(strings: text.compactMap(\.bytes))
        addresses = [Self.scoped(address, interface: body[0].int32 ?? -1)]
    }

    private static func scoped(_ address: String, interface: Int32) -> String {
        var parsed = in6_addr()
        guard inet_pton(AF_INET6, address, &parsed) == 1 else { return address }
        let isOfLink = withUnsafeBytes(of: parsed) { $0[0] == 0xFE && $0[1] & 0xC0 == 0x80 }
        guard isOfLink, interface > 0 else { return address }
        var name = [CChar](repeating: 0, count: Int(IF_NAMESIZE))
        guard if_indextoname(UInt32(interface), &name) != nil else { return address }
        return "\(address)%\(String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self))"
    }

    /// Puts the addresses that are most likely reachable first.
    mutating func add(_ other: FoundService) {
        for address in other.addresses where !addresses.contains(address) { addresses.append(address) }
        func rank(_ address: String) -> Int { address.contains("%") ? 2 : address.contains(":") ? 1 : 0 }
        addresses = addresses.enumerated().sorted { (rank($0.element), $0.offset) < (rank($1.element), $1.offset) }.map(\.element)
    }
}
