/// A place that uses a plugin: `NAME`, or `{ plugin: NAME, params: {…}, shadow: … }`.
package struct PluginReference: Sendable, ConfigurationSection {
    package var plugin = Located("")
    /// The plugin's `ctx.params`: a mapping; nil if there is none. To be checked against the plugin's declarations; every node has its position.
    package var params: ConfigurationNode?
    /// A second plugin that is given the same input, and whose differing results are only counted. Resolvers, filters and sync functions only.
    package var shadow: ShadowReference?
    /// What happens to a conflict for which the resolver fails. Resolvers only.
    package var onFailure = Located(ResolverFailure.pending)
    package internal(set) var position = SourcePosition.none

    package init() {}

    package init(plugin: String) { self.plugin = Located(plugin) }

    static let sectionName = "plugin"
    static let keys: [Key<PluginReference>] = [
        Key("plugin", \.plugin, Form.text(.plugin).located, required: true, "Name of the plugin."),
        Key("params", optional: \.params, .params, "Parameters that the plugin declares."),
        Key(
            "shadow", optional: \.shadow, .shadow,
            "Of a resolver, a filter or a sync function: a plugin that is asked the same afterwards, and whose differences are only counted."),
        Key("on_failure", \.onFailure, Form<ResolverFailure>.choice.located,
            "For a conflict_resolver: whether a conflict on which it fails waits until the resolver is fixed (pending), or is decided as if there were no resolver "
                + "(default_rule). A save is refused in either case."),
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }
}

/// What happens to a conflict for which its resolver fails.
package enum ResolverFailure: String, Sendable, CaseIterable {
    /// It waits until the plugin is fixed.
    case pending
    /// It is resolved as if there were no resolver.
    case defaultRule = "default_rule"
}

/// The plugin in `shadow:`: `NAME` or `{ plugin: NAME, params: {…} }`.
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

    /// Transforms and observers: their effects cannot be compared without taking place, so they have no shadow.
    static let plugin = Form<PluginReference>(
        shape: judge.shape, expected: judge.expected,
        read: { node, reading in
            guard let reference = judge.read(node, &reading) else { return nil }
            if let shadow = reference.shadow {
                reading.report(
                    at: shadow.position, "a shadow runs beside a conflict_resolver, a filter or a sync function only; remove the key \"shadow\"")
            }
            return reference
        })

    /// Filters and sync functions.
    static let judge = Form<PluginReference>(
        shape: resolver.shape, expected: resolver.expected,
        read: { node, reading in
            guard let reference = resolver.read(node, &reading) else { return nil }
            if reference.onFailure.value != .pending {
                reading.report(at: reference.onFailure.position, "only conflicts can be decided by another rule: remove the key \"on_failure\"")
            }
            return reference
        })
}
