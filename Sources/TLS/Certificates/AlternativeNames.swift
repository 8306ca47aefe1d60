import COpenSSL
import Glibc

/// The names for which a certificate is issued, besides its subject.
package struct AlternativeNames: Sendable, Equatable {
    /// Host names, possibly with `*` as the first label. As they appear in the certificate, not validated.
    package var dns: [String] = []
    /// Addresses as text.
    package var ip: [String] = []
    package var uri: [String] = []
    package var email: [String] = []

    package init(dns: [String] = [], ip: [String] = [], uri: [String] = [], email: [String] = []) {
        self.dns = dns
        self.ip = ip
        self.uri = uri
        self.email = email
    }

    package var isEmpty: Bool { dns.isEmpty && ip.isEmpty && uri.isEmpty && email.isEmpty }
}

extension Certificate {
    /// The first ``TLSLimits/alternativeNames`` of them; omits unused kinds of names.
    package var alternativeNames: AlternativeNames {
        var names = AlternativeNames()
        guard let found = nightjar_alternative_names(handle) else {
            OpenSSLErrors.clear()
            return names
        }
        defer { nightjar_general_names_free(found) }
        for index in 0..<min(nightjar_general_names_count(found), Int32(TLSLimits.alternativeNames)) {
            var data: UnsafePointer<UInt8>?
            var count: Int32 = 0
            let kind = nightjar_general_name(found, index, &data, &count)
            let bytes = UnsafeBufferPointer(start: data, count: Int(count))
            switch kind {
            case GEN_DNS: names.dns.append(String(decoding: bytes, as: UTF8.self))
            case GEN_EMAIL: names.email.append(String(decoding: bytes, as: UTF8.self))
            case GEN_URI: names.uri.append(String(decoding: bytes, as: UTF8.self))
            case GEN_IPADD: if let text = IPAddress.text(Array(bytes)) { names.ip.append(text) }
            default: break
            }
        }
        return names
    }
}

/// Converts IP addresses between text and bytes.
enum IPAddress {
    /// - Parameter bytes: 4 or 16; any other number returns nil.
    static func text(_ bytes: [UInt8]) -> String? {
        guard bytes.count == 4 || bytes.count == 16 else { return nil }
        var room = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        guard inet_ntop(bytes.count == 4 ? AF_INET : AF_INET6, bytes, &room, socklen_t(room.count)) != nil else { return nil }
        return String(decoding: room.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// nil unless `text` is an IPv4 or IPv6 address.
    static func bytes(_ text: String) -> [UInt8]? {
        var four = in_addr()
        if inet_pton(AF_INET, text, &four) == 1 { return withUnsafeBytes(of: four) { Array($0) } }
        var six = in6_addr()
        if inet_pton(AF_INET6, text, &six) == 1 { return withUnsafeBytes(of: six) { Array($0) } }
        return nil
    }
}
