/// What a server's chain must contain.
package enum PinnedCertificate: Sendable, Equatable {
    /// A file (absolute path) with one or more certificates, PEM or DER.
    case file(Located<String>)
    /// `sha256/BASE64`: the SHA-256 of a certificate's public key (SubjectPublicKeyInfo), in the form used by curl and HPKP.
    case publicKey(Located<String>)

    package var position: SourcePosition {
        switch self {
        case .file(let path): path.position
        case .publicKey(let pin): pin.position
        }
    }

    private static let prefix = "sha256/"

    /// 32 bytes are 43 characters and one `=`; the last of the 43 has two unused bits, which are zero.
    private static func isPin(_ text: String) -> Bool {
        let digits = Array(text.utf8.dropFirst(prefix.utf8.count))
        guard digits.count == 44, digits[43] == UInt8(ascii: "="), "AEIMQUYcgkosw048".utf8.contains(digits[42]) else { return false }
        return digits[..<43].allSatisfy { Bytes.isAlphanumeric($0) || $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "/") }
    }

    static func read(_ node: ConfigurationNode, _ reading: inout Reading) -> PinnedCertificate? {
        guard var text = Form<String>.text("a path or sha256/BASE64").read(node, &reading) else { return nil }
        guard text.utf8.starts(with: prefix.utf8) else {
            return .file(Located(Paths.resolve(text, in: reading.folder), at: node.position))
        }
        // curl's form has two slashes. With a single slash, the digest has only 44 characters, so this is unambiguous.
        if text.utf8.count == prefix.utf8.count + 45, text.hasPrefix("sha256//") { text = prefix + text.dropFirst(8) }
        guard isPin(text) else {
            reading.report(
                at: node.position,
                "\(ValueQuoting.quoted(text)) is not a pin; expected sha256/ and the base64 of 32 bytes, as \"nightjar identity show\" prints it")
            return nil
        }
        return .publicKey(Located(text, at: node.position))
    }
}

extension Form where Value == [PinnedCertificate] {
    /// One or several: the old and the new one while a server's certificate is being replaced.
    static let pins: Form<[PinnedCertificate]> = {
        let element = Form<PinnedCertificate>(shape: .text(pattern: nil), expected: "a path or sha256/BASE64", read: PinnedCertificate.read)
        let list = element.list(atLeast: 1, of: "paths and pins")
        return Form<[PinnedCertificate]>(
            shape: .anyOf([element.shape, list.shape]), expected: "\(element.expected), or a list of them",
            read: { node, reading in node.elements == nil ? element.read(node, &reading).map { [$0] } : list.read(node, &reading) })
    }()
}
