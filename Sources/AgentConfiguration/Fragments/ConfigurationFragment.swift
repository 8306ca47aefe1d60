import Encodings

/// A part of a configuration that does not come from the operator's file, and may set only what that file allows.
package struct ConfigurationFragment: Sendable, Equatable {
    package var name: String
    package var version: Int64
    /// YAML, as in a file.
    package var text: [UInt8]

    package init(name: String, version: Int64, text: [UInt8]) { (self.name, self.version, self.text) = (name, version, text) }

    /// The file name shown in problems.
    package var file: String { "fleet/\(name).yaml" }

    /// What is wrong with it wherever it is used; nil if nothing is.
    package var problem: ConfigurationProblems? {
        var problems = ProblemList(file: file)
        _ = tree(&problems)
        return problems.error
    }

    /// Why every agent of this version would refuse it, whatever its own file contains and allows; nil if none would for such a reason. A particular
    /// agent may have further objections.
    package var refusal: ConfigurationProblems? {
        var problems = ProblemList(file: file)
        guard var root = tree(&problems) else { return problems.error }
        var entries = root.entries ?? []
        for entry in entries where SettingPattern.never.contains(entry.key) {
            problems.report(at: entry.keyPosition, "\"\(entry.key)\" belongs to each machine's own configuration: no agent lets a fleet set it")
        }
        entries.removeAll { SettingPattern.never.contains($0.key) }
        root.content = .mapping(entries)
        var reading = Reading(file: file, folder: "/", problems: problems)
        reading.isPartial = true
        _ = AgentSettings.read(root, &reading)
        return reading.problems.error
    }

    /// - Returns: nil if a problem was reported.
    func tree(_ problems: inout ProblemList) -> ConfigurationNode? {
        let before = problems.count
        guard let root = YAMLReader.read(text, file: file, problems: &problems) else {
            if problems.count == before { problems.report(file: "it is empty") }
            return nil
        }
        if root.entries?.isEmpty == true { problems.report(at: root.position, "it sets nothing") }
        if root.entries == nil { problems.report(at: root.position, "expected a mapping, as a configuration is") }
        Self.refuseReferences(root, &problems)
        return problems.count == before ? root : nil
    }

    /// What an operator's file expands are secrets of the machine, which are none of the fleet's business.
    private static func refuseReferences(_ node: ConfigurationNode, _ problems: inout ProblemList) {
        switch node.content {
        case .scalar(let scalar):
            if scalar.text.holds("${") { problems.report(at: node.position, "${…} stands for something on one machine, and may only be used in that machine's own file") }
        case .sequence(let elements):
            for element in elements { refuseReferences(element, &problems) }
        case .mapping(let entries):
            for entry in entries { refuseReferences(entry.value, &problems) }
        }
    }
}

/// A fragment that was left out because the resulting configuration was invalid.
package struct RefusedFragment: Sendable, Equatable {
    package var fragment: ConfigurationFragment
    package var problems: ConfigurationProblems
}

/// What a configuration was made from, kept if fragments may be added to it.
struct ConfigurationBase: Sendable {
    var file: String
    var folder: String
    var overrides: AgentSettings.Overrides
    /// With `${…}` expanded; nil for an empty file.
    var root: ConfigurationNode?
    /// Top-level keys in the file, whether or not they were read.
    var named: [String] = []
    var namesDatabases = false
}

extension AgentSettings {
    /// The file's settings, overlaid with these fragments in the order of their names: if two set the same key, the one with the later name wins. A
    /// fragment is used completely or not at all: it is left out if it sets what the file does not allow, or if the result is invalid.
    package func overlaid(with fragments: [ConfigurationFragment]) -> AgentSettings {
        guard let base else {
            var settings = self
            settings.fragments = []
            settings.refusedFragments = fragments.map { fragment in
                RefusedFragment(
                    fragment: fragment,
                    problems: ConfigurationProblems([
                        ConfigurationProblem(file: fragment.file, line: 0, column: 0, message: "fleet.accept_config does not allow it to set anything")
                    ]))
            }
            return settings
        }
        let accepted = (fleet?.acceptConfig ?? []).map { SettingPattern($0.value) }
        var (settings, _) = base.settings(ProblemList(file: base.file))
        var used: [ConfigurationFragment] = []
        var refused: [RefusedFragment] = []
        var root = base.root
        for fragment in fragments.sorted(by: { $0.name < $1.name }) {
            var overlay = Overlay(accepted: accepted, problems: ProblemList(file: fragment.file))
            var next = base
            next.root = fragment.tree(&overlay.problems).map { overlay.lay($0, over: root, .keys(AgentSettings.shape), []) }
            if let error = overlay.problems.error {
                refused.append(RefusedFragment(fragment: fragment, problems: error))
                continue
            }
            let (changed, problems) = next.settings(ProblemList(file: base.file))
            if let problems {
                refused.append(RefusedFragment(fragment: fragment, problems: problems))
                continue
            }
            (settings, root) = (changed, next.root)
            used.append(fragment)
        }
        settings.base = base
        settings.fragments = used
        settings.refusedFragments = refused
        return settings
    }
}

/// Overlays a configuration with a fragment.
private struct Overlay {
    let accepted: [SettingPattern]
    var problems: ProblemList

    private func covers(_ path: [String]) -> Bool { accepted.contains { $0.covers(path) } }

    private mutating func refuse(_ path: [String], at position: SourcePosition) {
        let names = path.joined(separator: ".")
        problems.report(at: position, "\(names): fleet.accept_config of this agent does not name it")
    }

    mutating func lay(_ fragment: ConfigurationNode, over base: ConfigurationNode?, _ level: SettingLevel, _ path: [String]) -> ConfigurationNode {
        // An empty section may enable something with its defaults.
        if let entries = fragment.entries, entries.isEmpty {
            if !covers(path) { refuse(path, at: fragment.position) }
            return base ?? fragment
        }
        switch level {
        case .keys(let section):
            guard let entries = fragment.entries else { break }
            return merge(entries, base, at: fragment.position) { overlay, entry, below in
                guard let key = section.keys().first(where: { $0.name == entry.key }) else {
                    overlay.problems.report(
                        at: entry.keyPosition,
                        "unknown key \(ValueQuoting.quoted(entry.key))"
                            + NearestName.hint(for: entry.key, among: section.keys().map(\.name), otherwise: "valid keys"))
                    return entry.value
                }
                return overlay.lay(entry.value, over: below, SettingLevel(key.shape), path + [entry.key])
            }
        case .names(let value):
            guard let entries = fragment.entries else { break }
            return merge(entries, base, at: fragment.position) { overlay, entry, below in
                let path = path + [entry.key]
                guard below != nil || overlay.covers(path) else {
                    overlay.problems.report(at: entry.keyPosition, "\(path.joined(separator: ".")): this agent's file has none of that name, and a fragment cannot add one")
                    return entry.value
                }
                return overlay.lay(entry.value, over: below, SettingLevel(value), path)
            }
        case .elements(let section):
            guard let elements = fragment.elements else { break }
            return lay(elements, over: base, section, path, at: fragment.position)
        case .value: break
        }
        if !covers(path) { refuse(path, at: fragment.position) }
        return fragment
    }

    private mutating func merge(
        _ entries: [ConfigurationNode.Entry], _ base: ConfigurationNode?, at position: SourcePosition,
        _ each: (inout Overlay, ConfigurationNode.Entry, ConfigurationNode?) -> ConfigurationNode
    ) -> ConfigurationNode {
        var merged = base?.entries ?? []
        for var entry in entries {
            let known = merged.firstIndex { $0.key.utf8.elementsEqual(entry.key.utf8) }
            entry.value = each(&self, entry, known.map { merged[$0].value })
            if let known { merged[known] = entry } else { merged.append(entry) }
        }
        return ConfigurationNode(.mapping(merged), at: base?.position ?? position)
    }

    /// Elements of a list are matched by name.
    private mutating func lay(
        _ elements: [ConfigurationNode], over base: ConfigurationNode?, _ section: SectionShape, _ path: [String], at position: SourcePosition
    ) -> ConfigurationNode {
        var merged = base?.elements ?? []
        for element in elements {
            guard let entries = element.entries, let name = element["name"]?.scalar?.text else {
                problems.report(at: element.position, "\(path.joined(separator: ".")): expected a mapping with the \"name\" of one in this agent's file")
                continue
            }
            let path = path + [name]
            guard let index = merged.firstIndex(where: { $0["name"]?.scalar?.text.utf8.elementsEqual(name.utf8) ?? false }) else {
                problems.report(at: element.position, "\(path.joined(separator: ".")): this agent's file has none of that name")
                continue
            }
            let changes = ConfigurationNode(.mapping(entries.filter { $0.key != "name" }), at: element.position)
            merged[index] = lay(changes, over: merged[index], .keys(section), path)
        }
        return ConfigurationNode(.sequence(merged), at: base?.position ?? position)
    }
}
