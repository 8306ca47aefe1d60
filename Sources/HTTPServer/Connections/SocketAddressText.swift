import Encodings
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

    /// The origin for limits: an IPv4 address, or the first 64 bits of an IPv6 address.
    package var origin: String {
        guard case .v6(let address) = self else { return ipAddress ?? pathname ?? "" }
        return NetworkOrigin.text(ofIPv6: withUnsafeBytes(of: address.address.sin6_addr) { Array($0) })
    }
}

extension TimeAmount {
    /// `10 s` or `250 ms`, for sentences about limits.
    var shown: String {
        nanoseconds % 1_000_000_000 == 0 ? "\(nanoseconds / 1_000_000_000) s" : "\(nanoseconds / 1_000_000) ms"
    }
}
