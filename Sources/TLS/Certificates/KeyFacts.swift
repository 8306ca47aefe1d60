import COpenSSL

/// The properties of a key.
package struct KeyFacts: Sendable, Equatable, CustomStringConvertible {
    package enum Kind: String, Sendable, CaseIterable {
        case ec
        case rsa
        case ed25519
        case ed448
        case unknown
    }

    package var kind: Kind
    /// The size of the modulus or the curve.
    package var bits: Int
    /// OpenSSL's name of the curve (`prime256v1`), otherwise of the algorithm.
    package var name: String
    /// The security strength according to NIST: RSA with 2,048 bits has 112. 0 if unknown.
    package var securityBits = 0

    init(kind: Kind, bits: Int, name: String) {
        self.kind = kind
        self.bits = bits
        self.name = name
    }

    /// - Parameter key: an `EVP_PKEY`.
    init(of key: OpaquePointer) {
        let algorithm = EVP_PKEY_get0_type_name(key).map { String(cString: $0) } ?? "unknown"
        switch algorithm {
        case "EC": kind = .ec
        case "RSA", "RSA-PSS": kind = .rsa
        case "ED25519": kind = .ed25519
        case "ED448": kind = .ed448
        default: kind = .unknown
        }
        bits = max(0, Int(EVP_PKEY_get_bits(key)))
        securityBits = max(0, Int(EVP_PKEY_get_security_bits(key)))
        name = algorithm
        if kind == .ec {
            var group = [CChar](repeating: 0, count: 64)
            var length = 0
            if EVP_PKEY_get_group_name(key, &group, group.count, &length) == 1, length > 0, length < group.count {
                name = String(decoding: group[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
            }
        }
        OpenSSLErrors.clear()
    }

    /// `EC prime256v1`, `RSA 2048`.
    package var description: String {
        switch kind {
        case .ec: "EC \(name)"
        case .rsa: "RSA \(bits)"
        case .ed25519: "Ed25519"
        case .ed448: "Ed448"
        case .unknown: name
        }
    }

    /// Keys with less than 112 bits of strength are refused by every current peer, including OpenSSL at its
    /// default level.
    package var isWeak: Bool { securityBits > 0 && securityBits < 112 }
}
