/// The options after the "?" in a `unix:`, `serial:` or `discover:` target.
struct EndpointOptions: Sendable, Hashable {
    /// Speed of a serial device in bits per second.
    var speed = 115_200
    /// The remote database; nil if it has only one.
    var database: String?
    /// discover: false for a listener without TLS. Never determined by the announcement, because anybody can announce anything.
    var usesTLS = true
    /// discover: any announced listener of this group.
    var group: String?

    static let speeds = [
        300, 600, 1200, 2400, 4800, 9600, 19_200, 38_400, 57_600, 115_200, 230_400, 460_800, 500_000, 576_000, 921_600, 1_000_000, 1_500_000,
        2_000_000, 3_000_000, 4_000_000,
    ]

    init() {}

    init(removedFrom path: inout Substring, _ scheme: ReplicatorTarget.Scheme) throws(ReplicatorTarget.Invalid) {
        guard let mark = path.lastIndex(of: "?") else { return }
        let query = path[path.index(after: mark)...]
        path = path[..<mark]
        for part in query.split(separator: "&") {
            let pair = part.split(separator: "=", maxSplits: 1).map(String.init)
            switch pair.first {
            case "speed" where scheme == .serial && pair.count == 2:
                guard let value = Int(pair[1]), Self.speeds.contains(value) else {
                    throw ReplicatorTarget.Invalid(
                        description: "\(ValueQuoting.quoted(pair[1])) is not a speed of a serial device: \(Self.speeds.map(String.init).joined(separator: ", "))")
                }
                speed = value
            case "database" where pair.count == 2:
                guard TextSyntax.database.accepts(pair[1]) else {
                    throw ReplicatorTarget.Invalid(description: "expected \(TextSyntax.database.expected), found \(ValueQuoting.quoted(pair[1]))")
                }
                database = pair[1]
            case "tls" where scheme == .discover && pair.count == 2:
                guard pair[1] == "on" || pair[1] == "off" else {
                    throw ReplicatorTarget.Invalid(description: "tls is on or off, not \(ValueQuoting.quoted(pair[1]))")
                }
                usesTLS = pair[1] == "on"
            case "group" where scheme == .discover && pair.count == 2:
                guard TextSyntax.name.accepts(pair[1]) else {
                    throw ReplicatorTarget.Invalid(description: "group: expected \(TextSyntax.name.expected), found \(ValueQuoting.quoted(pair[1]))")
                }
                group = pair[1]
            default:
                let known = scheme == .serial ? "speed=BITS and database=NAME" : scheme == .discover ? "group=NAME, database=NAME and tls=off" : "database=NAME"
                throw ReplicatorTarget.Invalid(description: "unknown option \(ValueQuoting.quoted(String(part))) of a \(scheme.rawValue): target; known: \(known)")
            }
        }
    }
}

/// Splits a command into words without a shell: blanks separate words; single or double quotes keep them together; a backslash escapes the next
/// character, but not within single quotes. Nothing is expanded.
enum CommandWords {
    /// Nil if a quote is not closed, or there is no program.
    static func split(_ text: String) -> [String]? {
        var words: [String] = []
        var word: String?
        var quote: Character?
        var rest = text[...]
        while let character = rest.popFirst() {
            switch (character, quote) {
            case ("\\", nil), ("\\", "\""):
                guard let next = rest.popFirst() else { return nil }
                word = (word ?? "") + String(next)
            case ("'", nil), ("\"", nil):
                quote = character
                word = word ?? ""
            case (_, .some(let open)) where character == open: quote = nil
            case (_, nil) where character.isWhitespace:
                if let done = word { words.append(done) }
                word = nil
            default: word = (word ?? "") + String(character)
            }
        }
        guard quote == nil else { return nil }
        if let word { words.append(word) }
        return words.first?.isEmpty == false ? words : nil
    }
}
