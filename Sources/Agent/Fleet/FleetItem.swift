import PluginHost

/// A plugin or a configuration fragment of a fleet, independent of its version.
package struct FleetItem: Sendable, Hashable, Comparable, CustomStringConvertible {
    package enum Kind: String, Sendable, CaseIterable, Comparable {
        case plugin, config

        /// Plugins first: a fragment may name one that comes with it.
        package static func < (left: Kind, right: Kind) -> Bool { left == .plugin && right == .config }
    }

    package var kind: Kind
    package var name: String

    package init(_ kind: Kind, _ name: String) { (self.kind, self.name) = (kind, name) }

    package static func < (left: FleetItem, right: FleetItem) -> Bool { (left.kind, left.name) < (right.kind, right.name) }

    package var description: String { kind == .plugin ? "plugin \(name)" : "configuration \(name)" }

    /// The document's id.
    package func id(_ version: Int64) -> String { "\(kind.rawValue):\(name):\(version)" }

    /// What a document id claims to be; nil for ids of other documents.
    package static func claim(_ id: String) -> (item: FleetItem, version: Int64)? {
        let parts = id.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3, let kind = Kind(rawValue: parts[0]), SuppliedPlugin.isName(parts[1]), let version = Int64(parts[2]),
            String(version) == parts[2], (1...FleetDocument.Limits.version).contains(version)
        else { return nil }
        return (FleetItem(kind, parts[1]), version)
    }

    /// The name in the store's file, which once contained only plugins.
    var stored: String { kind == .plugin ? name : "\(kind.rawValue):\(name)" }

    init?(stored: String) {
        let parts = stored.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
        switch parts.count {
        case 1: self.init(.plugin, stored)
        case 2:
            guard let kind = Kind(rawValue: parts[0]) else { return nil }
            self.init(kind, parts[1])
        default: return nil
        }
    }
}
