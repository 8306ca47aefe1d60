import Encodings

/// The text of a configuration without anything confidential: for a bundle that is given to somebody else.
package struct RedactedConfiguration: Sendable {
    /// The file's contents as YAML. Without comments, and without the values of keys that contain secrets, of plugins' parameters and of
    /// unknown keys.
    package var text = ""
    /// What was removed, as far as it can be recognised elsewhere: texts to be removed from everything else in the bundle.
    package var secrets: [String] = []

    /// Without a file.
    package init() {}

    private init(text: String, secrets: [String]) {
        self.text = text
        self.secrets = secrets
    }

    /// Replaces a value.
    package static let mark = "(removed)"
    /// A shorter secret would also match unrelated words.
    private static let shortestSecret = 5

    /// - Parameter environment: used for `${NAME}`; nil for the process's environment.
    /// - Throws: why the file cannot be read as YAML.
    package static func read(path: String, environment: [String: String]? = nil) throws(ConfigurationProblems) -> RedactedConfiguration {
        let bytes: [UInt8]
        do { bytes = try SmallFile.read(path, limit: Limits.fileBytes, regularOnly: false) } catch {
            throw ConfigurationProblems([
                ConfigurationProblem(file: path, line: 0, column: 0, message: "cannot be read: \(error.text(limit: Limits.fileBytes))")
            ])
        }
        return try read(bytes, file: path, folder: Paths.folder(of: path), environment: environment)
    }

    /// The same for a file in memory.
    package static func read(
        _ bytes: [UInt8], file: String, folder: String, environment: [String: String]? = nil
    ) throws(ConfigurationProblems) -> RedactedConfiguration {
        var problems = ProblemList(file: file)
        guard var node = YAMLReader.read(bytes, file: file, problems: &problems) else {
            if let error = problems.error { throw error }
            return RedactedConfiguration()
        }
        // References that cannot be expanded stay as written.
        var ignored = ProblemList(file: file)
        var expansion = Expansion(environment: environment, folder: folder)
        expansion.expand(&node, &ignored)
        var writer = Writer()
        writer.write(node, .section(AgentSettings.shape), indent: "")
        let secrets = Set(writer.secrets.filter { $0.utf8.count >= shortestSecret })
        // Longest first, because one may be part of another.
        return RedactedConfiguration(text: writer.text, secrets: secrets.sorted { ($0.utf8.count, $0) > ($1.utf8.count, $1) })
    }

    /// Removes the secrets from a text.
    package func scrub(_ text: String) -> String {
        secrets.reduce(text) { text, secret in text.with(secret, replacedBy: Self.mark) }
    }

    private struct Writer {
        var text = ""
        var secrets: [String] = []

        mutating func write(_ node: ConfigurationNode, _ shape: Shape?, indent: String) {
            switch node.content {
            case .scalar(let scalar): text += " \(value(scalar, shape))\n"
            case .sequence(let elements):
                text += elements.isEmpty ? " []\n" : "\n"
                for element in elements {
                    text += "\(indent)-"
                    write(element, shape?.element, indent: indent + "  ")
                }
            case .mapping(let entries):
                text += entries.isEmpty ? " {}\n" : indent.isEmpty && text.isEmpty ? "" : "\n"
                for entry in entries {
                    // An unknown section's key could be anything, but names chosen by an operator are needed to understand the rest.
                    text += "\(indent)\(JSONString.isPlainName(entry.key) ? entry.key : JSONString.quoted(entry.key)):"
                    write(entry.value, shape?.value(of: entry.key), indent: indent + "  ")
                }
            }
        }

        private mutating func value(_ scalar: ConfigurationNode.Scalar, _ shape: Shape?) -> String {
            if scalar.style == .plain, ["", "~", "null", "true", "false"].contains(scalar.text) { return scalar.text }
            let written = scalar.source ?? scalar.text
            guard let shape, shape.isShown else {
                secrets.append(scalar.text)
                // The source of a value is not secret, and often explains a problem.
                if scalar.isExpanded, Self.isReference(written) { return JSONString.quoted(written) }
                return "\"\(RedactedConfiguration.mark)\""
            }
            if scalar.style == .plain, !scalar.isExpanded, written.utf8.allSatisfy({ $0.isDigit || $0 == UInt8(ascii: ".") }) { return written }
            return JSONString.quoted(shown(written, expanded: scalar.text))
        }

        /// Commands and addresses may contain credentials.
        private mutating func shown(_ written: String, expanded: String) -> String {
            if written.hasPrefix("exec:") {
                let words = written.split(separator: " ", maxSplits: 1)
                guard words.count == 2 else { return written }
                secrets += expanded.split(separator: " ").dropFirst().filter { $0.utf8.count > 11 }.map(String.init)
                return "\(words[0]) \(RedactedConfiguration.mark)"
            }
            guard let scheme = written.place(of: "://") else { return written }
            var rest = written[scheme.upperBound...]
            var end = ""
            if let query = rest.firstIndex(where: { $0 == "?" || $0 == "#" }) {
                secrets.append(String(rest[rest.index(after: query)...]))
                end = "?\(RedactedConfiguration.mark)"
                rest = rest[..<query]
            }
            let authority = rest.prefix { $0 != "/" }
            if let at = authority.lastIndex(of: "@") {
                secrets += authority[..<at].split(separator: ":").map(String.init)
                rest = rest[rest.index(after: at)...]
                return "\(written[..<scheme.upperBound])\(RedactedConfiguration.mark)@\(rest)\(end)"
            }
            return "\(written[..<scheme.upperBound])\(rest)\(end)"
        }

        /// Whether the text is a `${NAME}` reference and nothing else.
        private static func isReference(_ text: String) -> Bool {
            text.hasPrefix("${") && text.hasSuffix("}") && text.utf8.count { $0 == UInt8(ascii: "$") } == 1
                && text.utf8.count { $0 == UInt8(ascii: "}") } == 1
        }
    }
}

extension Shape {
    /// Whether values of this shape may be shown.
    fileprivate var isShown: Bool {
        switch self {
        case .text, .integer, .byteSize, .boolean, .choice: true
        case .anyOf(let shapes): shapes.contains(where: \.isShown) && !shapes.contains(where: \.isSecret)
        case .secret, .params, .list, .map, .section: false
        }
    }

    private var isSecret: Bool {
        switch self {
        case .secret, .params: true
        case .anyOf(let shapes): shapes.contains(where: \.isSecret)
        default: false
        }
    }

    fileprivate var element: Shape? {
        switch self {
        case .list(let element, _): element
        case .anyOf(let shapes): shapes.compactMap(\.element).first
        default: nil
        }
    }

    /// The shape of a key's value; nil if the key is unknown, or the value could be anything.
    fileprivate func value(of key: String) -> Shape? {
        switch self {
        case .section(let section): section.keys().first { $0.name.utf8.elementsEqual(key.utf8) }?.shape
        case .map(_, let value): value
        case .anyOf(let shapes): shapes.compactMap { $0.value(of: key) }.first
        default: nil
        }
    }
}

extension JSONString {
    fileprivate static func isPlainName(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { $0.isDigit || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: ".")
            || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }
            && !text.hasPrefix("-")
    }
}

extension UInt8 {
    fileprivate var isDigit: Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self) }
}
