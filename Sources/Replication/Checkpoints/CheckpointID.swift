import Digests
import Encodings
import Interfaces

extension ReplicatorConfiguration {
    /// An id that is stable for the same database, remote, collection, directions and selection, and differs otherwise.
    package func checkpointID(of wanted: CollectionReplication, privateUUID: String) -> String {
        var parts = [privateUUID, remoteKey, wanted.collection.description, type.rawValue]
        if let ids = wanted.documentIDs { parts.append("ids " + ids.map(\.text).sorted().joined(separator: "\u{1}")) }
        if let channels = wanted.channels { parts.append("channels " + channels.sorted().joined(separator: "\u{1}")) }
        if let filter = wanted.sourceFilter { parts.append(filter.identity) }
        if let filter = wanted.pullFilter { parts.append((filter.changesBodies ? "pull_transform " : "pull_filter ") + filter.pluginName) }
        return "cp-" + Base64.encode(SHA1.hash(Array(parts.joined(separator: "\u{0}").utf8)))
    }
}
