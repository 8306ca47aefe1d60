/// The keys of `nightjar.yaml` for documentation, derived from the tables that are used to read it.
package enum ConfigurationReference {
    /// A mapping of the configuration.
    package struct Section: Sendable {
        /// Its name in the JSON Schema.
        package var name: String
        /// Where it occurs: `replicators[].collections.NAME`.
        package var paths: [String]
        package var keys: [Key]
    }

    /// One key of a section.
    package struct Key: Sendable {
        package var name: String
        package var documentation: String
        package var isRequired: Bool
        /// As JSON; nil if there is no default value to show.
        package var defaultJSON: String?
        /// The possible values.
        package var value: Value
    }

    /// The possible values of a key.
    package indirect enum Value: Sendable {
        /// In words.
        case plain(String)
        /// One of these.
        case words([String])
        case list(of: Value)
        /// With names that the operator chooses.
        case mapping(of: Value)
        /// The section with this name.
        case section(String)
        case either([Value])
    }

    /// Every section once, in the order in which they occur in the file.
    package static func sections() -> [Section] {
        var sections: [Section] = []
        collect(AgentSettings.shape, at: "", &sections)
        return sections
    }

    /// Every possible key of a configuration, with its path: `replicators[].collections.NAME.push_filter`.
    package static func keys() -> [(path: String, key: Key)] {
        sections().flatMap { section in
            section.paths.flatMap { path in section.keys.map { (path.isEmpty ? $0.name : "\(path).\($0.name)", $0) } }
        }
    }

    private static func collect(_ shape: SectionShape, at path: String, _ sections: inout [Section]) {
        let keys = shape.keys()
        if let known = sections.firstIndex(where: { $0.name == shape.name }) {
            sections[known].paths.append(path)
        } else {
            sections.append(
                Section(
                    name: shape.name, paths: [path],
                    keys: keys.map {
                        Key(
                            name: $0.name, documentation: $0.documentation, isRequired: $0.isRequired, defaultJSON: $0.defaultJSON,
                            value: value($0.shape))
                    }))
        }
        for key in keys { collect(key.shape, at: path.isEmpty ? key.name : "\(path).\(key.name)", &sections) }
    }

    private static func collect(_ shape: Shape, at path: String, _ sections: inout [Section]) {
        switch shape {
        case .section(let section): collect(section, at: path, &sections)
        case .list(let element, _): collect(element, at: "\(path)[]", &sections)
        case .map(_, let value): collect(value, at: "\(path).NAME", &sections)
        case .anyOf(let shapes): for shape in shapes { collect(shape, at: path, &sections) }
        default: break
        }
    }

    private static func value(_ shape: Shape) -> Value {
        switch shape {
        case .text: .plain("text")
        case .secret: .plain("secret")
        case .integer(let range):
            // The largest representable number is not a meaningful limit for operators.
            .plain(range.upperBound >= Int(Int32.max) ? "number from \(range.lowerBound)" : "number, \(range.lowerBound) to \(range.upperBound)")
        case .byteSize(let range):
            .plain(range.lowerBound == 0 ? "size, up to \(ByteSize.text(range.upperBound))" : "size, \(ByteSize.text(range.lowerBound)) to \(ByteSize.text(range.upperBound))")
        case .boolean: .plain("true or false")
        case .choice(let words): .words(words)
        case .list(let element, _): .list(of: value(element))
        case .map(_, let element): .mapping(of: value(element))
        case .section(let section): .section(section.name)
        case .anyOf(let shapes): .either(shapes.map(value))
        case .params: .plain("what the plugin declares")
        }
    }
}
