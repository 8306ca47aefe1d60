import Encodings
import Glibc
import Interfaces

/// On whose behalf a call is made.
extension CallContext {
    /// With whom its failures are counted: a user, or else an address without its port (of IPv6, the /64 network, as one machine has that many). Empty on a
    /// replicator, which has only one remote, and where no peer causes the call.
    var peer: String {
        guard replicator == nil else { return "" }
        if let user { return "user \(user)" }
        guard let remote, !remote.isEmpty, remote != PolicyContext.ownSave, remote != PolicyContext.ownRouting else { return "" }
        return "address \(Self.host(of: remote))"
    }

    private static func host(of remote: String) -> String {
        let host: Substring
        if remote.utf8.first == UInt8(ascii: "["), let end = remote.firstIndex(of: "]") {
            host = remote[..<end].dropFirst()
        } else if remote.utf8.count(where: { $0 == UInt8(ascii: ":") }) == 1, let colon = remote.firstIndex(of: ":") {
            return String(remote[..<colon])
        } else {
            host = remote[...]
        }
        var address = in6_addr()
        let words = String(host.prefix { $0 != "%" })
        guard inet_pton(AF_INET6, words, &address) == 1 else { return words }
        return NetworkOrigin.text(ofIPv6: withUnsafeBytes(of: &address) { Array($0) })
    }
}
