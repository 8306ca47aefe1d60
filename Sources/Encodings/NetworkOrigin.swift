/// The origin of a connection, as far as limits are concerned: all of a customer's addresses count together.
public enum NetworkOrigin {
    /// - Parameter bytes: the sixteen bytes of an IPv6 address.
    /// - Returns: its first 64 bits, which is the least that a provider assigns to a customer, as `2001:db8:0:0::/64`; of an IPv4-mapped address
    ///   (RFC 4291, section 2.5.5.2) the IPv4 address.
    public static func text(ofIPv6 bytes: [UInt8]) -> String {
        if bytes[..<10].allSatisfy({ $0 == 0 }), bytes[10] == 0xFF, bytes[11] == 0xFF {
            return bytes[12...].map { "\($0)" }.joined(separator: ".")
        }
        let groups = stride(from: 0, to: 8, by: 2).map { String(UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]), radix: 16) }
        return groups.joined(separator: ":") + "::/64"
    }
}
