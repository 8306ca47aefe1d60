import Glibc

/// The properties of a new identity.
package struct IdentityRequest: Sendable, Equatable {
    package enum KeyKind: String, Sendable, CaseIterable {
        case p256, p384, rsa2048, rsa3072, rsa4096, ed25519
    }

    /// Host names and addresses of this side, which peers verify.
    package var names: AlternativeNames
    /// The subject; nil for the first name, or the label if there are none.
    package var commonName: String?
    package var validityDays: Int
    package var key: KeyKind

    /// The default validity of an identity in days: the longest that current Apple systems accept for a server.
    package static let defaultValidityDays = 825
    /// A hundred years.
    package static let longestValidityDays = 36_525

    package init(
        names: AlternativeNames = AlternativeNames(), commonName: String? = nil, validityDays: Int = defaultValidityDays, key: KeyKind = .p256
    ) {
        self.names = names
        self.commonName = commonName
        self.validityDays = validityDays
        self.key = key
    }

    /// The anonymous identity: this host's name and the loopback addresses.
    package static var anonymous: IdentityRequest {
        var names = AlternativeNames(dns: ["localhost"], ip: ["127.0.0.1", "::1"])
        var room = [CChar](repeating: 0, count: 256)
        if gethostname(&room, room.count - 1) == 0 {
            let host = String(decoding: room.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            if host != "localhost", HostName.isValid(host) { names.dns.insert(host, at: 0) }
        }
        return IdentityRequest(names: names, commonName: "Nightjar anonymous")
    }

    /// - Throws: ``TLSFileError`` of kind `invalid` that names the label and the problem.
    func check(_ label: IdentityLabel) throws(TLSFileError) {
        func refuse(_ reason: String) -> TLSFileError { TLSFileError(.invalid, path: label.text, reason: reason) }
        guard (1...Self.longestValidityDays).contains(validityDays) else {
            throw refuse("a validity of \(validityDays) days is not from 1 to \(Self.longestValidityDays)")
        }
        for name in names.dns where !HostName.isValid(name) {
            throw refuse("\"\(name.prefix(TLSLimits.quotedCharacters))\" is not a host name (letters, digits, \"-\" and \".\"; others in punycode)")
        }
        for address in names.ip where IPAddress.bytes(address) == nil {
            throw refuse("\"\(address.prefix(TLSLimits.quotedCharacters))\" is not an IP address")
        }
        guard names.uri.isEmpty, names.email.isEmpty else { throw refuse("a new identity has host names and IP addresses only") }
        guard names.dns.count + names.ip.count <= TLSLimits.alternativeNames else {
            throw refuse("more than alternativeNames = \(TLSLimits.alternativeNames) names")
        }
        if let commonName, !Self.isCommonName(commonName) { throw refuse("a common name has 1 to 64 characters and no control characters") }
    }

    func subject(_ label: IdentityLabel) -> String {
        commonName ?? (names.dns + names.ip).first { $0.utf8.count <= 64 } ?? String(label.text.prefix(64))
    }
}

extension IdentityRequest {
    /// Copies the names of `old`, as far as a new certificate can have them; also its subject, unless a different one is given.
    ///
    /// - Returns: names of `old` that a self-signed certificate made here cannot have.
    package mutating func keepNames(of old: Certificate) -> [String] {
        let found = old.alternativeNames
        names = AlternativeNames(dns: found.dns.filter(HostName.isValid), ip: found.ip)
        if commonName == nil, let subject = old.commonName, Self.isCommonName(subject) { commonName = subject }
        return found.dns.filter { !HostName.isValid($0) } + found.uri + found.email
    }

    // 64 is X.520's upper bound.
    private static func isCommonName(_ text: String) -> Bool {
        (1...64).contains(text.unicodeScalars.count) && text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
    }
}

extension Identity {
    /// The kind of its key, if a renewal can keep that key because nobody else has certified it.
    package var renewableKey: IdentityRequest.KeyKind? {
        leaf.isSelfSigned ? IdentityRequest.KeyKind.allCases.first { key.facts.isOf($0) } : nil
    }

    /// Its key, for a renewal: if it is self-signed and its key is of this kind.
    func keyToKeep(as kind: IdentityRequest.KeyKind) -> PrivateKey? { leaf.isSelfSigned && key.facts.isOf(kind) ? key : nil }
}

extension KeyFacts {
    func isOf(_ wanted: IdentityRequest.KeyKind) -> Bool {
        switch wanted {
        case .p256: kind == .ec && name == "prime256v1"
        case .p384: kind == .ec && name == "secp384r1"
        case .rsa2048: kind == .rsa && bits == 2048
        case .rsa3072: kind == .rsa && bits == 3072
        case .rsa4096: kind == .rsa && bits == 4096
        case .ed25519: kind == .ed25519
        }
    }
}

/// Host names in certificates.
enum HostName {
    /// Labels of letters, digits, `-` and `_`, with at most 253 bytes in total; the first label may be `*`.
    static func isValid(_ name: String) -> Bool {
        guard (1...253).contains(name.utf8.count) else { return false }
        let labels = name.split(separator: ".", omittingEmptySubsequences: false)
        guard labels.first != "*" || labels.count > 2 else { return false }
        for (index, label) in labels.enumerated() {
            if index == 0, label == "*" { continue }
            guard (1...63).contains(label.utf8.count), label.first != "-", label.last != "-",
                label.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x7A).contains($0 | 0x20) || $0 == 0x2D || $0 == 0x5F })
            else { return false }
        }
        // Digits and dots alone would be an address.
        return !name.utf8.allSatisfy { (0x30...0x39).contains($0) || $0 == 0x2E }
    }
}
