/// A setting that a fragment may set, as `fleet.accept_config` names it: `log.level`, `replicators.*.collections.*.push_filter`. It stands for
/// all that is below it. `*` is any name that the operator has chosen, never a key.
struct SettingPattern: Sendable {
    private let parts: [String]

    init(_ text: String) { parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init) }

    func covers(_ path: [String]) -> Bool {
        !Self.isOfMachine(path) && parts.count <= path.count && zip(parts, path).allSatisfy { $0 == "*" || $0.utf8.elementsEqual($1.utf8) }
    }

    /// Where a fragment could do more than its operator may have meant: read keys of its own, make itself a folder of plugins, open a port.
    static let never: Set<String> = ["data", "plugins", "admin", "fleet"]
    /// The same below a section that it may set: files of the machine that would be moved, such as a database.
    private static func isOfMachine(_ path: [String]) -> Bool { path.starts(with: ["log", "file"]) }
    /// Sections that a fragment may change and neither add nor take out: a key in them has to be named.
    private static let ofOperator: Set<String> = ["databases", "listeners", "replicators"]

    /// Why it names nothing that a fragment may set; nil: it does.
    var problem: String? {
        guard let root = parts.first, !Self.never.contains(root) else { return "\"\(parts.first ?? "")\" is for this machine's own configuration" }
        if Self.isOfMachine(parts) { return "\"log.file\" is for this machine's own configuration" }
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

/// How two files' settings at one place come together.
enum SettingLevel {
    /// Key by key.
    case keys(SectionShape)
    /// By names that the operator chooses.
    case names(Shape)
    /// A list of sections, by their `name`.
    case elements(SectionShape)
    /// One takes the place of the other.
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
