/// How one kind of value is read, and what it looks like. Both are defined only here, so that the reader and the schema cannot diverge.
struct Form<Value: Sendable>: Sendable {
    let shape: Shape
    /// For "expected …".
    let expected: String
    /// Whether a key without a value counts as absent.
    var allowsNothing = false
    /// Returns nil if a problem was reported.
    let read: @Sendable (ConfigurationNode, inout Reading) -> Value?
    /// The value as JSON, for defaults in the schema; nil to show none.
    var json: @Sendable (Value) -> String? = { _ in nil }

    func map<Other: Sendable>(
        _ transform: @escaping @Sendable (Value, ConfigurationNode) -> Other, json: @escaping @Sendable (Other) -> String? = { _ in nil }
    ) -> Form<Other> {
        let read = read
        return Form<Other>(
            shape: shape, expected: expected, allowsNothing: allowsNothing,
            read: { node, reading in read(node, &reading).map { transform($0, node) } }, json: json)
    }

    /// Substitutes a value for one that could not be read, so that checks across sections do not use the default instead.
    func failing(as value: Value) -> Form<Value> {
        let read = read
        return Form<Value>(
            shape: shape, expected: expected, allowsNothing: allowsNothing, read: { node, reading in read(node, &reading) ?? value }, json: json)
    }

    /// The value together with its position.
    var located: Form<Located<Value>> {
        let json = json
        return map({ Located($0, at: $1.position) }, json: { json($0.value) })
    }
}

/// A row in a section's table: a key, where its value is stored, its form and its documentation.
struct Key<Section: Sendable>: Sendable {
    let name: String
    let documentation: String
    let isRequired: Bool
    let shape: Shape
    let read: @Sendable (ConfigurationNode, inout Section, inout Reading) -> Void
    let isSame: @Sendable (Section, Section) -> Bool
    let defaultJSON: @Sendable (Section) -> String?

    init<Value: Sendable & Equatable>(
        _ name: String, _ path: any WritableKeyPath<Section, Value> & Sendable, _ form: Form<Value>, required: Bool = false,
        _ documentation: String
    ) {
        self.name = name
        self.documentation = documentation
        isRequired = required
        shape = form.shape
        read = { node, section, reading in
            if form.allowsNothing, Form<Value>.isNothing(node) { return }
            if let value = form.read(node, &reading) { section[keyPath: path] = value }
        }
        isSame = { $0[keyPath: path] == $1[keyPath: path] }
        defaultJSON = { section in
            if required { return nil }
            return form.json(section[keyPath: path])
        }
    }

    /// A key that is nil if absent.
    init<Value: Sendable & Equatable>(
        _ name: String, optional path: any WritableKeyPath<Section, Value?> & Sendable, _ form: Form<Value>, _ documentation: String
    ) {
        self.name = name
        self.documentation = documentation
        isRequired = false
        shape = form.shape
        read = { node, section, reading in
            if form.allowsNothing, Form<Value>.isNothing(node) { return }
            if let value = form.read(node, &reading) { section[keyPath: path] = value }
        }
        isSame = { $0[keyPath: path] == $1[keyPath: path] }
        defaultJSON = { section in
            guard let value = section[keyPath: path] else { return nil }
            return form.json(value)
        }
    }
}

extension Form {
    static func isNothing(_ node: ConfigurationNode) -> Bool {
        guard let scalar = node.scalar, !scalar.isUnresolved else { return false }
        return scalar.value == .null
    }
}

/// A mapping with known keys.
protocol ConfigurationSection: Sendable, Equatable {
    /// All defaults.
    init()
    /// Its name in the schema.
    static var sectionName: String { get }
    static var keys: [Key<Self>] { get }
    /// Where the section begins.
    var position: SourcePosition { get set }
    /// Checks across keys; called if all keys were read without a problem.
    func check(_ reading: inout Reading)
}

extension ConfigurationSection {
    func check(_ reading: inout Reading) {}

    /// Equality according to the table: the section's position does not count.
    static func areSame(_ left: Self, _ right: Self) -> Bool { keys.allSatisfy { $0.isSame(left, right) } }

    static var shape: SectionShape {
        SectionShape(
            name: sectionName,
            keys: {
                let defaults = Self()
                return keys.map { key in
                    KeyShape(
                        name: key.name, documentation: key.documentation, isRequired: key.isRequired, shape: key.shape,
                        defaultJSON: key.defaultJSON(defaults))
                }
            },
            mayBeEmpty: !keys.contains { $0.isRequired })
    }

    /// Reads the keys of a mapping. nil only if the node is not a mapping.
    static func read(_ node: ConfigurationNode, _ reading: inout Reading) -> Self? {
        var section = Self()
        section.position = node.position
        guard let entries = node.entries else {
            if Form<Self>.isNothing(node), !keys.contains(where: \.isRequired) { return section }
            reading.reportMismatch(node, expected: "a mapping with the keys \(keys.map(\.name).joined(separator: ", "))")
            return nil
        }
        let before = reading.failures
        var missing = keys.filter(\.isRequired).map(\.name)
        for entry in entries {
            missing.removeAll { $0 == entry.key }
            guard let key = keys.first(where: { $0.name == entry.key }) else {
                reading.report(
                    at: entry.keyPosition,
                    "unknown key \(ValueQuoting.quoted(entry.key))"
                        + NearestName.hint(for: entry.key, among: keys.map(\.name), otherwise: "valid keys"))
                continue
            }
            reading.within(key: key.name) { key.read(entry.value, &section, &$0) }
        }
        // A part without its name cannot be matched with anything to overlay.
        for name in missing where !reading.isPartial || name == "name" { reading.report(at: node.position, "the key \"\(name)\" is missing") }
        if reading.failures == before, !reading.isPartial { section.check(&reading) }
        return section
    }
}
