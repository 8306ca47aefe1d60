import Encodings

/// The text of a configuration with nothing in it that must stay here: for a bundle that goes to somebody else.
package struct RedactedConfiguration: Sendable {
    /// YAML of what the file says. Values of keys that hold secrets, of plugins' parameters and of unknown keys are removed; comments too.
    package var text = ""
    /// What was removed, as far as it could be recognised elsewhere: texts to take out of whatever goes along.
    package var secrets: [String] = []

    /// Of no file.
    package init() {}

    private init(text: String, secrets: [String]) {
        self.text = text
        self.secrets = secrets
    }

    /// In the place of a value.
    package static let mark = "(removed)"
    /// A shorter one would be found in words that mean nothing.
    private static let shortestSecret = 5

    /// - Parameter environment: what `${NAME}` looks up; nil: the process's environment.
    /// - Throws: what keeps the file from being read as YAML.
    package static func read(path: String, environment: [String: String]? = nil) throws(ConfigurationProblems) -> RedactedConfiguration {
        let bytes: [UInt8]
        do { bytes = try SmallFile.read(path, limit: Limits.fileBytes, regularOnly: false) } catch {
            throw ConfigurationProblems([
                ConfigurationProblem(file: path, line: 0, column: 0, message: "cannot be read: \(error.text(limit: Limits.fileBytes))")
            ])
        }
        return try read(bytes, file: path, folder: Paths.folder(of: path), environment: environment)
    }

    /// The same of a file that is in memory.
    package static func read(
        _ bytes: [UInt8], file: String, folder: String, environment: [String: String]? = nil
    ) throws(ConfigurationProblems) -> RedactedConfiguration {
        var problems = ProblemList(file: file)
        guard var node = YAMLReader.read(bytes, file: file, problems: &problems) else {
            if let error = problems.error { throw error }
            return RedactedConfiguration()
        }
        // What expansion cannot find stays as it is written.
        var ignored = ProblemList(file: file)
        var expansion = Expansion(environment: environment, folder: folder)
        expansion.expand(&node, &ignored)
        var writer = Writer()
        writer.write(node, .section(AgentSettings.shape), indent: "")
        let secrets = Set(writer.secrets.filter { $0.utf8.count >= shortestSecret })
        // The longest first: one may be a part of another.
        return RedactedConfiguration(text: writer.text, secrets: secrets.sorted { ($0.utf8.count, $0) > ($1.utf8.count, $1) })
    }

    /// Takes the secrets out of a text.
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
                    // The key of an unknown section may be anything, but what an operator names is needed to read the rest.
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
                // Where it comes from is no secret, and often the answer.
                if scalar.isExpanded, Self.isReference(written) { return JSONString.quoted(written) }
                return "\"\(RedactedConfiguration.mark)\""
            }
            if scalar.style == .plain, !scalar.isExpanded, written.utf8.allSatisfy({ $0.isDigit || $0 == UInt8(ascii: ".") }) { return written }
            return JSONString.quoted(shown(written, expanded: scalar.text))
        }

        /// Commands and addresses can carry what should not be in them.
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

        /// `${NAME}` alone, without a text around it.
        private static func isReference(_ text: String) -> Bool {
            text.hasPrefix("${") && text.hasSuffix("}") && text.utf8.count { $0 == UInt8(ascii: "$") } == 1
                && text.utf8.count { $0 == UInt8(ascii: "}") } == 1
        }
    }
}

extension Shape {
    /// A value of this shape may be shown.
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

    /// What stands under a key; nil where the key is not known, or nobody knows what it means.
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
