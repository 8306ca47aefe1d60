/// A place that uses a plugin: `NAME`, or `{ plugin: NAME, params: {…}, shadow: … }`.
package struct PluginReference: Sendable, ConfigurationSection {
    package var plugin = Located("")
    /// What the plugin gets as `ctx.params`: a mapping, nil where none was written. To be checked against what the plugin
    /// declares; every node has its position.
    package var params: ConfigurationNode?
    /// A second resolver that runs on every conflict and only has its differences recorded. Resolvers only.
    package var shadow: ShadowReference?
    package internal(set) var position = SourcePosition.none

    package init() {}

    package init(plugin: String) { self.plugin = Located(plugin) }

    static let sectionName = "plugin"
    static let keys: [Key<PluginReference>] = [
        Key("plugin", \.plugin, Form.text(.plugin).located, required: true, "Name of the plugin."),
        Key("params", optional: \.params, .params, "Parameters that the plugin declares."),
        Key("shadow", optional: \.shadow, .shadow, "Resolver that runs beside this one and only has its differences recorded."),
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }
}

/// The resolver in `shadow:`: `NAME` or `{ plugin: NAME, params: {…} }`.
package struct ShadowReference: Sendable, ConfigurationSection {
    package var plugin = Located("")
    package var params: ConfigurationNode?
    package internal(set) var position = SourcePosition.none

    package init() {}

    static let sectionName = "shadow"
    static let keys: [Key<ShadowReference>] = [
        Key("plugin", \.plugin, Form.text(.plugin).located, required: true, "Name of the plugin."),
        Key("params", optional: \.params, .params, "Parameters that the plugin declares."),
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }
}

extension Form where Value == ConfigurationNode {
    static let params = Form<ConfigurationNode>(
        shape: .params, expected: "a mapping of parameters", allowsNothing: true,
        read: { node, reading in
            guard node.entries != nil else {
                reading.reportMismatch(node, expected: "a mapping of parameters")
                return nil
            }
            return node
        })
}

extension Form where Value == ShadowReference {
    static let shadow = Form<String>.text(.plugin).map { name, node in
        var reference = ShadowReference()
        reference.plugin = Located(name, at: node.position)
        reference.position = node.position
        return reference
    }.or(ShadowReference.self) { reference, _ in reference }
}

extension Form where Value == PluginReference {
    static let resolver = Form<String>.text(.plugin).map { name, node in
        var reference = PluginReference()
        reference.plugin = Located(name, at: node.position)
        reference.position = node.position
        return reference
    }.or(PluginReference.self) { reference, _ in reference }

    /// Filters, authenticators and sync functions: all that has no shadow.
    static let plugin = Form<PluginReference>(
        shape: resolver.shape, expected: resolver.expected,
        read: { node, reading in
            guard let reference = resolver.read(node, &reading) else { return nil }
            if let shadow = reference.shadow {
                reading.report(at: shadow.position, "a shadow runs beside a conflict_resolver only; remove the key \"shadow\"")
            }
            return reference
        })
}
