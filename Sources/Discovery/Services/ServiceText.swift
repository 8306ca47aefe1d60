/// A service's description of itself beyond its address: the TXT record of DNS-SD (RFC 6763), `key=value` of at most 255 bytes
/// each.
///
/// None of it is authenticated: anybody on the local network can claim anything.
package struct ServiceText: Sendable, Equatable {
    /// Identifies the agent: generated once, and the same for all its listeners.
    package var peer: String?
    package var databases: [String] = []
    package var usesTLS = false
    /// `sha256/…` of the public key, to be compared with what that agent's operator says.
    package var pin: String?
    /// The pin of the next key.
    package var nextPin: String?
    /// Listeners of one group are interchangeable: a replicator for the group may connect to any of them.
    package var group: String?

    package init() {}

    /// The record's strings. Databases that do not fit are omitted: a client that wants one of those has to name it.
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
        if let group { strings.append("group=\(group)") }
        return strings.map { Array($0.utf8) }.filter { $0.count <= 255 }
    }

    /// If a key occurs twice, the first one counts, according to the RFC; strings that are not valid text are ignored.
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
            case "group": group = value
            default: break
            }
        }
    }
}
