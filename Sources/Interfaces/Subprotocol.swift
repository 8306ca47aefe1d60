/// The supported WebSocket subprotocols, in our order of preference.
public enum Subprotocol: String, CaseIterable, Sendable {
    /// Couchbase Lite 3 and Sync Gateway 3.
    case generation3 = "BLIP_3+CBMobile_3"
    /// Couchbase Lite 2 and Sync Gateway 2.
    case generation2 = "BLIP_3+CBMobile_2"
    /// Couchbase Lite 4 and Sync Gateway 4: revisions are named by version vectors.
    case generation4 = "BLIP_3+CBMobile_4"

    /// The name without the common part: `CBMobile_3`.
    public var name: String { String(rawValue.drop { $0 != "+" }.dropFirst()) }

    public static let names = allCases.map(\.rawValue)
    /// For a side whose database has version vectors.
    public static let namesVersionsFirst = [generation4.rawValue] + names.filter { $0 != generation4.rawValue }

    /// Chooses among the protocols offered by a peer. The peer's order decides, except for generation 4: a peer that also offers others may have a
    /// database with revision trees, so version vectors are used with it only if it says that it prefers them.
    public static func choose(of offered: [String], spoken: [String] = names, prefersVersions: Bool = false) -> String? {
        let common = offered.filter { token in spoken.contains { $0.utf8.elementsEqual(token.utf8) } }
        let versions = common.first { $0 == generation4.rawValue }
        if prefersVersions, let versions { return versions }
        return common.first { $0 != generation4.rawValue } ?? versions
    }

    /// The header of an upgrade request by which a Nightjar replicator says that its database has both kinds of revisions. Whichever side has version
    /// vectors prefers them.
    public static let versionsHeader = "X-Version-Vectors"
    public static let versionsSupported = "supported"
    public static let versionsPreferred = "preferred"
}
