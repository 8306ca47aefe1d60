/// What a service says of itself beside its address: the TXT record of DNS-SD (RFC 6763), `key=value` of at most 255 bytes each.
///
/// Nothing in it is vouched for: whoever is on the local network may say anything.
package struct ServiceText: Sendable, Equatable {
    /// Which agent it is: made once, and the same for all its listeners.
    package var peer: String?
    package var databases: [String] = []
    package var usesTLS = false
    /// `sha256/…` of the public key, to be compared with what the operator of that agent says.
    package var pin: String?
    /// Of the key that is to follow.
    package var nextPin: String?

    package init() {}

    /// The strings of the record. Databases that do not fit are left out: whoever asks for one of them has to name it.
    var strings: [[UInt8]] {
        var list = "db="
        for name in databases {
            let more = list == "db=" ? name : ",\(name)"
            guard list.utf8.count + more.utf8.count <= 255 else { break }
            list += more
        }
        var strings = ["txtvers=1", list, "tls=\(usesTLS ? 1 : 0)"]
        if let peer { strings.append("id=\(peer)") }
        if let pin { strings.append("pin=\(pin)") }
        if let nextPin { strings.append("nextpin=\(nextPin)") }
        return strings.map { Array($0.utf8) }.filter { $0.count <= 255 }
    }

    /// Of keys that stand twice the first counts, as the RFC has it; what is no text is passed over.
    init(strings: [[UInt8]]) {
        var seen: Set<String> = []
        for string in strings {
            guard let text = String(validating: string, as: UTF8.self), let mark = text.firstIndex(of: "=") else { continue }
            let key = text[..<mark].lowercased()
            let value = String(text[text.index(after: mark)...])
            guard seen.insert(key).inserted else { continue }
            switch key {
            case "id": peer = value
            case "db": databases = value.split(separator: ",").map(String.init)
            case "tls": usesTLS = value == "1"
            case "pin": pin = value
            case "nextpin": nextPin = value
            default: break
            }
        }
    }
}
