/// What a reload has to change.
package struct SettingsDifference: Sendable, Equatable {
    /// A section that is in both configurations, with different settings.
    package struct Change: Sendable, Equatable {
        package var name: String
        /// The keys whose values differ, in the order of the reference.
        package var keys: [String]

        package init(name: String, keys: [String]) {
            self.name = name
            self.keys = keys
        }
    }

    /// Named sections of one kind.
    package struct Changes: Sendable, Equatable {
        package var added: [String] = []
        package var removed: [String] = []
        package var changed: [Change] = []

        package init() {}

        package var isEmpty: Bool { added.isEmpty && removed.isEmpty && changed.isEmpty }
    }

    /// Sections that occur once.
    package enum GlobalSection: String, Sendable, CaseIterable { case data, plugins, admin, log, limits, disk, fleet }

    package var databases = Changes()
    package var listeners = Changes()
    package var replicators = Changes()
    /// By plugin name.
    package var pluginLimits = Changes()
    package var global: Set<GlobalSection> = []

    package init() {}

    package var isEmpty: Bool {
        databases.isEmpty && listeners.isEmpty && replicators.isEmpty && pluginLimits.isEmpty && global.isEmpty
    }
}

extension AgentSettings {
    /// The differences from an older configuration. Only values count, not how or where they are written: moving,
    /// reformatting or writing out a default changes nothing; a changed file behind `${file:…}` changes what uses it.
    package func difference(from old: AgentSettings) -> SettingsDifference {
        var difference = SettingsDifference()
        difference.databases = Self.changes(databases, old.databases, \.name.value)
        difference.listeners = Self.changes(listeners, old.listeners, \.name.value)
        difference.replicators = Self.changes(replicators, old.replicators, \.name.value)
        difference.pluginLimits = Self.changes(pluginLimits, old.pluginLimits, \.name.value)
        // Every key is a named section or a global one; `GlobalSection` uses the names from the same table.
        for key in Self.keys where !key.isSame(self, old) {
            if let section = SettingsDifference.GlobalSection(rawValue: key.name) { difference.global.insert(section) }
        }
        return difference
    }

    private static func changes<Section: ConfigurationSection>(
        _ new: [Section], _ old: [Section], _ name: (Section) -> String
    ) -> SettingsDifference.Changes {
        var changes = SettingsDifference.Changes()
        var before: [String: Section] = [:]
        for section in old { before[name(section)] = section }
        for section in new {
            guard let earlier = before.removeValue(forKey: name(section)) else {
                changes.added.append(name(section))
                continue
            }
            let keys = Section.keys.filter { !$0.isSame(section, earlier) }.map(\.name)
            if !keys.isEmpty { changes.changed.append(.init(name: name(section), keys: keys)) }
        }
        changes.removed = old.map(name).filter { before[$0] != nil }
        return changes
    }
}
