import NIOCore

extension SocketAddress {
    /// `10.0.0.7:4984`, `[fe80::1]:4984` or a socket's path.
    package var shown: String {
        switch self {
        case .v4: "\(ipAddress ?? "?"):\(port ?? 0)"
        case .v6:
            if let address = ipAddress, address.utf8.starts(with: "::ffff:".utf8), address.utf8.contains(UInt8(ascii: ".")) {
                "\(address.dropFirst(7)):\(port ?? 0)"
            } else {
                "[\(ipAddress ?? "?")]:\(port ?? 0)"
            }
        case .unixDomainSocket: pathname ?? "unix"
        }
    }

    /// The origin for limits: an IPv4 address, or the first 64 bits of an IPv6 address, which is the least that a provider
    /// assigns to a customer.
    package var origin: String {
        guard case .v6(let address) = self else { return ipAddress ?? pathname ?? "" }
        let bytes = withUnsafeBytes(of: address.address.sin6_addr) { Array($0) }
        // An IPv4-mapped IPv6 address (RFC 4291, section 2.5.5.2).
        if bytes[..<10].allSatisfy({ $0 == 0 }), bytes[10] == 0xFF, bytes[11] == 0xFF {
            return bytes[12...].map { "\($0)" }.joined(separator: ".")
        }
        let groups = stride(from: 0, to: 8, by: 2).map { String(UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]), radix: 16) }
        return groups.joined(separator: ":") + "::/64"
    }
}

extension TimeAmount {
    /// `10 s` or `250 ms`, for sentences about limits.
    var shown: String {
        nanoseconds % 1_000_000_000 == 0 ? "\(nanoseconds / 1_000_000_000) s" : "\(nanoseconds / 1_000_000) ms"
    }
}
