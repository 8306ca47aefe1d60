/// What follows the hash in a line of a users file: `read_only`, `channels=NAME,NAME` and `roles=NAME,NAME`, with colons between them. The plugin
/// `password-file` reads it in the same way.
package struct UserOptions: Sendable, Equatable {
    /// What the plugin would reject.
    struct Problem: Error {
        /// The characters before it in the text.
        var offset: Int
        var reason: String
    }

    static let readOnly = "read_only"
    /// Bytes in the name of a channel or role: what a sync function accepts.
    static let longestName = 250

    /// The user may pull but not push.
    package var isReadOnly = false
    /// What the user may pull, beside what documents grant.
    package var channels: [String] = []
    package var roles: [String] = []

    package init() {}

    init(parsing text: String) throws(Problem) {
        guard !text.utf8.isEmpty else { return }
        var offset = 0
        for part in text.utf8.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false) {
            let option = String(Substring(part))
            try add(option, at: offset)
            offset += option.unicodeScalars.count + 1
        }
    }

    /// As it is written behind the hash and a colon; empty if nothing is.
    var text: String {
        var parts = isReadOnly ? [Self.readOnly] : []
        if !channels.isEmpty { parts.append("channels=\(channels.joined(separator: ","))") }
        if !roles.isEmpty { parts.append("roles=\(roles.joined(separator: ","))") }
        return parts.joined(separator: ":")
    }

    /// Why nobody could log in with these, as given on a command line; nil if all is well.
    package var problem: String? {
        if let wrong = channels.first(where: { !Self.isChannel($0) }) { return Self.words(wrong, "channel") }
        return roles.first { !Self.isName($0) }.map { Self.words($0, "role") }
    }

    private mutating func add(_ option: String, at offset: Int) throws(Problem) {
        let parts = option.utf8.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false).map { String(Substring($0)) }
        switch (parts[0], parts.count) {
        case (Self.readOnly, 1): isReadOnly = true
        case ("channels", 2): channels += try Self.names(parts[1], "channel", at: offset + 9, Self.isChannel)
        case ("roles", 2): roles += try Self.names(parts[1], "role", at: offset + 6, Self.isName)
        default: throw Problem(offset: offset, reason: "unknown option; expected \(Self.readOnly), channels=NAME,NAME or roles=NAME,NAME")
        }
    }

    private static func names(_ list: String, _ kind: String, at start: Int, _ isRight: (String) -> Bool) throws(Problem) -> [String] {
        var names: [String] = []
        var offset = start
        for part in list.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) {
            let name = String(Substring(part))
            guard isRight(name) else { throw Problem(offset: offset, reason: words(name, kind)) }
            names.append(name)
            offset += name.unicodeScalars.count + 1
        }
        return names
    }

    private static func words(_ name: String, _ kind: String) -> String {
        "\"\(name)\" is no name of a \(kind); expected letters, digits and -+=/_.@, at most \(longestName) bytes, and commas between names"
    }

    private static func isChannel(_ name: String) -> Bool { name.utf8.elementsEqual("*".utf8) || name.utf8.elementsEqual("!".utf8) || isName(name) }

    private static func isName(_ name: String) -> Bool {
        1...longestName ~= name.utf8.count && name.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"), 0x80...: true
            default: "-+=/_.@".utf8.contains(byte)
            }
        }
    }
}
