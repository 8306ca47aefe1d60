import Glibc

/// A syntax for texts, defined once for the check, the message and the schema.
struct TextSyntax: Sendable {
    /// For "expected …".
    let expected: String
    /// The same as an ECMA 262 regular expression; nil if it cannot be expressed that way.
    let pattern: String?
    let accepts: @Sendable (String) -> Bool

    /// As in CouchDB, but without characters that would need escaping in a path or folder name.
    static let database = TextSyntax(
        expected: "a database name (a lower case letter, then up to 238 lower case letters, digits, _ or -)",
        pattern: "^[a-z][a-z0-9_-]{0,238}$",
        accepts: { Bytes.matches($0, first: Bytes.isLower, rest: { Bytes.isLower($0) || Bytes.isDigit($0) || Bytes.isDash($0) }, 1...239) })

    static let plugin = TextSyntax(
        expected: "the name of a plugin (lower case letters, digits, _ and -)",
        pattern: "^[a-z0-9][a-z0-9_-]{0,127}$",
        accepts: {
            Bytes.matches(
                $0, first: { Bytes.isLower($0) || Bytes.isDigit($0) },
                rest: { Bytes.isLower($0) || Bytes.isDigit($0) || Bytes.isDash($0) }, 1...128)
        })

    /// Names of listeners and replicators, which are used in URLs, metrics and command lines.
    static let name = TextSyntax(
        expected: "a name (a letter or digit, then up to 127 letters, digits, ., _ or -)",
        pattern: "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$",
        accepts: {
            Bytes.matches($0, first: Bytes.isAlphanumeric, rest: { Bytes.isAlphanumeric($0) || Bytes.isDash($0) || $0 == UInt8(ascii: ".") }, 1...128)
        })

    /// A DNS-SD instance name: one label, any text. A question mark would begin the options of a target.
    static let serviceName = TextSyntax(
        expected: "the name of a service (up to 63 bytes, no question mark, no control character)",
        pattern: #"^[^?\u0000-\u001f\u007f]{1,63}$"#,
        accepts: { name in
            (1...63).contains(name.utf8.count) && name.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F && $0 != UInt8(ascii: "?") }
        })

    /// Identities: a label, which is also a file name, or a provider's URI.
    static let identity = TextSyntax(
        expected: "a label in the key store (a letter or digit, then up to 127 letters, digits, ., _ or -) or a pkcs11: URI",
        pattern: "^([A-Za-z0-9][A-Za-z0-9._-]{0,127}|\(ProviderURI.pattern))$",
        accepts: { name.accepts($0) || ProviderURI.isOne($0) })

    /// See `CollectionReference`.
    static let collection = TextSyntax(
        expected: "a collection as scope.collection (letters, digits, _, - and %, not beginning with _ or %; or _default)",
        pattern: "^(_default|[A-Za-z0-9-][A-Za-z0-9_%-]{0,250}|(_default|[A-Za-z0-9-][A-Za-z0-9_%-]{0,250})\\.[A-Za-z0-9-][A-Za-z0-9_%-]{0,250}|_default\\._default)$",
        accepts: { CollectionReference(parsing: $0) != nil })

    /// In `subChanges`, channels are separated by commas.
    static let channel = TextSyntax(
        expected: "a channel (up to 250 bytes, no comma, no blank, no control character)",
        pattern: #"^[^,\s\u0000-\u001f\u007f]{1,250}$"#,
        accepts: { channel in
            (1...250).contains(channel.utf8.count) && channel.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F && $0 != UInt8(ascii: ",") }
        })

    static let interface = TextSyntax(
        expected: "the name of a network interface or an IP address",
        pattern: nil,
        accepts: { Address.isIP($0) || Address.isInterfaceName($0) })

    static let address = TextSyntax(
        expected: "an IP address or localhost",
        pattern: nil,
        accepts: { $0 == "localhost" || Address.isIP($0) })

    /// A Host header, without its port.
    static let host = TextSyntax(
        expected: "a host name or an IP address, without a port, a scheme or a wildcard",
        pattern: nil,
        accepts: { Address.isIP($0) || Address.isHostName($0) })

    static let headerName = TextSyntax(
        expected: "the name of an HTTP header",
        pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}$",
        accepts: {
            (1...256).contains($0.utf8.count)
                && $0.utf8.allSatisfy { Bytes.isAlphanumeric($0) || "!#$%&'*+.^_`|~-".utf8.contains($0) }
        })
}

enum Bytes {
    static func isLower(_ byte: UInt8) -> Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) }
    static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
    static func isAlphanumeric(_ byte: UInt8) -> Bool { isLower(byte | 0x20) || isDigit(byte) }
    static func isDash(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "_") || byte == UInt8(ascii: "-") }

    static func matches(_ text: String, first: (UInt8) -> Bool, rest: (UInt8) -> Bool, _ length: ClosedRange<Int>) -> Bool {
        let bytes = text.utf8
        guard length.contains(bytes.count), let head = bytes.first, first(head) else { return false }
        return bytes.dropFirst().allSatisfy(rest)
    }
}

/// IP addresses and interfaces.
enum Address {
    static func isIPv4(_ text: String) -> Bool {
        var address = in_addr()
        return inet_pton(AF_INET, text, &address) == 1
    }

    /// With or without a zone (`fe80::1%eth0`).
    static func isIPv6(_ text: String) -> Bool {
        var address = in6_addr()
        guard let percent = text.utf8.firstIndex(of: UInt8(ascii: "%")) else { return inet_pton(AF_INET6, text, &address) == 1 }
        return inet_pton(AF_INET6, String(text[..<percent]), &address) == 1 && isInterfaceName(String(text[text.utf8.index(after: percent)...]))
    }

    /// Letters, digits, `-` and `_` in labels of up to 63 bytes. Digits and dots alone are a mistyped address.
    static func isHostName(_ text: String) -> Bool {
        (1...253).contains(text.utf8.count)
            && !text.utf8.allSatisfy { Bytes.isDigit($0) || $0 == UInt8(ascii: ".") }
            && text.split(separator: ".", omittingEmptySubsequences: false).allSatisfy {
                (1...63).contains($0.utf8.count) && $0.utf8.allSatisfy { Bytes.isAlphanumeric($0) || Bytes.isDash($0) }
            }
    }

    static func isIP(_ text: String) -> Bool { isIPv4(text) || isIPv6(text) }

    /// As allowed by Linux: up to 15 bytes, no space, no slash. Digits and dots alone are a mistyped address.
    static func isInterfaceName(_ text: String) -> Bool {
        (1...15).contains(text.utf8.count)
            && text.utf8.allSatisfy { Bytes.isAlphanumeric($0) || Bytes.isDash($0) || ".:@".utf8.contains($0) }
            && !text.utf8.allSatisfy { Bytes.isDigit($0) || $0 == UInt8(ascii: ".") }
            && text != "." && text != ".."
    }

    static func isLoopback(_ text: String) -> Bool {
        if text == "localhost" { return true }
        var four = in_addr()
        if inet_pton(AF_INET, text, &four) == 1 { return UInt32(bigEndian: four.s_addr) >> 24 == 127 }
        var six = in6_addr()
        guard inet_pton(AF_INET6, text, &six) == 1 else { return false }
        return withUnsafeBytes(of: six) { bytes in
            bytes[15] == 1 && bytes[..<15].allSatisfy { $0 == 0 }
        }
    }
}

/// Sizes in bytes.
enum ByteSize {
    private static let units: [(suffix: String, factor: Int)] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("B", 1)]

    static func parse(_ text: String) -> Int? {
        for unit in units where text.hasSuffix(unit.suffix) {
            var digits = Substring(text).dropLast(unit.suffix.count)
            while digits.last == " " { digits.removeLast() }
            return number(digits).flatMap { value in
                let product = value.multipliedReportingOverflow(by: unit.factor)
                return product.overflow ? nil : product.partialValue
            }
        }
        return number(Substring(text))
    }

    private static func number(_ text: Substring) -> Int? {
        guard !text.isEmpty, text.utf8.allSatisfy(Bytes.isDigit) else { return nil }
        return Int(text)
    }

    static func text(_ bytes: Int) -> String {
        for unit in units.prefix(3).reversed() where bytes >= unit.factor && bytes % unit.factor == 0 {
            return "\(bytes / unit.factor)\(unit.suffix)"
        }
        return "\(bytes)B"
    }
}
