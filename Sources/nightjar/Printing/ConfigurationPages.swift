import AgentConfiguration
import Encodings

/// The configuration reference as pages: for people who read the repository, and for man(5).
enum ConfigurationPages {
    /// In Markdown: a table for each mapping.
    static func markdown() -> String {
        let sections = ConfigurationReference.sections()
        var text = """
            # Configuration: every key

            Made by `nightjar config reference`; `nightjar config schema` is the same for editors, and `nightjar manual` makes a manual page,
            nightjar.yaml(5). Unknown keys and invalid values are refused with line and column. Where a value is text, it may also be an
            environment variable `${NAME}`, a file `${file:PATH}` or a systemd credential `${credential:NAME}`.

            """
        for section in sections {
            text += "\n## \(title(section))\n\n"
            if section.paths.count > 1 { text += "Also at \(section.paths.dropFirst().map { "`\($0)`" }.joined(separator: ", ")).\n\n" }
            text += "| key | value | default | meaning |\n| --- | --- | --- | --- |\n"
            for key in section.keys {
                let cells = ["`\(key.name)`", markdown(key.value, sections), absence(key).map { $0.isCode ? "`\($0.text)`" : $0.text } ?? "", key.documentation]
                text += "| \(cells.map { $0.with("|", replacedBy: "\\|") }.joined(separator: " | ")) |\n"
            }
        }
        return text
    }

    /// nightjar.yaml(5) in man(7) format.
    static func manualPage(version: String) -> String {
        let sections = ConfigurationReference.sections()
        var text = ".TH NIGHTJAR.YAML 5 \"\" \"nightjar \(version)\"\n.SH NAME\nnightjar.yaml \\- configuration of nightjar\n.SH DESCRIPTION\n"
        text += ManualPages.escaped(
            """
            Unknown keys and invalid values are refused with line and column. Where a value is text, it may also be an environment variable \
            ${NAME}, a file ${file:PATH} or a systemd credential ${credential:NAME}.
            """) + "\n"
        for section in sections {
            text += ".SH \(ManualPages.escaped(title(section, isPlain: true).uppercased()))\n"
            if section.paths.count > 1 { text += "Also at \(ManualPages.escaped(section.paths.dropFirst().joined(separator: ", "))).\n" }
            for key in section.keys {
                let rest = [plain(key.value, sections), absence(key).map { $0.isCode ? "default \($0.text)" : $0.text }].compactMap { $0 }
                text += ".TP\n\\fB\(ManualPages.escaped(key.name))\\fR (\(ManualPages.escaped(rest.joined(separator: "; "))))\n"
                text += "\(ManualPages.escaped(key.documentation))\n"
            }
        }
        return text + ".SH SEE ALSO\n.BR nightjar (1)\n"
    }

    private static func title(_ section: ConfigurationReference.Section, isPlain: Bool = false) -> String {
        guard let path = section.paths.first, !path.isEmpty else { return "The file" }
        return isPlain ? path : "`\(path)`"
    }

    private static func absence(_ key: ConfigurationReference.Key) -> (text: String, isCode: Bool)? {
        key.isRequired ? ("required", false) : key.defaultJSON.map { ($0, true) }
    }

    private static func markdown(_ value: ConfigurationReference.Value, _ sections: [ConfigurationReference.Section]) -> String {
        switch value {
        case .plain(let words): words
        case .words(let words): words.map { "`\($0)`" }.joined(separator: ", ")
        case .list(let element): "list of \(markdown(element, sections))"
        case .mapping(let element): "by name: \(markdown(element, sections))"
        case .section(let name): "[\(place(name, sections))](#\(anchor(place(name, sections))))"
        case .either(let values): values.map { markdown($0, sections) }.joined(separator: "; or ")
        }
    }

    private static func plain(_ value: ConfigurationReference.Value, _ sections: [ConfigurationReference.Section]) -> String {
        switch value {
        case .plain(let words): words
        case .words(let words): words.joined(separator: ", ")
        case .list(let element): "list of \(plain(element, sections))"
        case .mapping(let element): "by name: \(plain(element, sections))"
        case .section(let name): "see \(place(name, sections))"
        case .either(let values): values.map { plain($0, sections) }.joined(separator: "; or ")
        }
    }

    private static func place(_ name: String, _ sections: [ConfigurationReference.Section]) -> String {
        sections.first { $0.name == name }?.paths.first ?? name
    }

    /// The anchor that Markdown sites derive from a heading: lower-case letters, digits, hyphens and underscores.
    private static func anchor(_ heading: String) -> String {
        String(heading.lowercased().filter { $0.isLetter || $0.isNumber || $0 == "_" || $0 == "-" })
    }
}
