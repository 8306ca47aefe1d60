/// A setting that a fragment may set, as named in `fleet.accept_config`: `log.level`, `replicators.*.collections.*.push_filter`. It includes
/// everything below it. `*` stands for any name that the operator has chosen, never for a key.
struct SettingPattern: Sendable {
    private let parts: [String]

    init(_ text: String) { parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init) }

    func covers(_ path: [String]) -> Bool {
        !Self.isOfMachine(path) && parts.count <= path.count && zip(parts, path).allSatisfy { $0 == "*" || $0.utf8.elementsEqual($1.utf8) }
    }

    /// Where a fragment could do more than its operator may have intended: read its own keys, provide its own plugins folder, open a port.
    static let never: Set<String> = ["data", "plugins", "admin", "fleet"]
    /// The same for settings within an allowed section: files on the machine, such as a database, that could be moved.
    private static func isOfMachine(_ path: [String]) -> Bool { path.starts(with: ["log", "file"]) }
    /// Sections that a fragment may change but neither add nor remove: a pattern must name a key within them.
    private static let ofOperator: Set<String> = ["databases", "listeners", "replicators"]

    /// Why it does not name anything that a fragment may set; nil if it does.
    var problem: String? {
        guard let root = parts.first, !Self.never.contains(root) else { return "\"\(parts.first ?? "")\" belongs in this machine's own configuration" }
        if Self.isOfMachine(parts) { return "\"log.file\" belongs in this machine's own configuration" }
        if Self.ofOperator.contains(root), parts.count < 3 {
            return "\"\(root)\" has sections that a fleet neither adds nor takes out: name a key, as in \(root).*.KEY"
        }
        var level = SettingLevel.keys(AgentSettings.shape)
        for (index, part) in parts.enumerated() {
            switch level {
            case .keys(let section):
                let keys = section.keys()
                guard let key = keys.first(where: { $0.name == part }) else {
                    return "unknown key \(ValueQuoting.quoted(part))" + NearestName.hint(for: part, among: keys.map(\.name), otherwise: "valid keys")
                        + (index > 1 ? "; a name with a dot in it is written as *" : "")
                }
                level = SettingLevel(key.shape)
            case .names(let value): level = SettingLevel(value)
            case .elements(let section): level = .keys(section)
            case .value: return "\(ValueQuoting.quoted(parts[..<index].joined(separator: "."))) is set as a whole"
            }
        }
        return nil
    }
}

/// How two files' settings at the same place are combined.
enum SettingLevel {
    /// Key by key.
    case keys(SectionShape)
    /// Entry by entry, with names that the operator chooses.
    case names(Shape)
    /// A list of sections, matched by `name`.
    case elements(SectionShape)
    /// One replaces the other.
    case value

    init(_ shape: Shape) {
        switch shape {
        case .section(let section): self = .keys(section)
        case .map(_, let value): self = .names(value)
        case .list(.section(let section), _) where section.keys().contains(where: { $0.name == "name" && $0.isRequired }): self = .elements(section)
        default: self = .value
        }
    }
}
