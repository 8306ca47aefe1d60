import AgentConfiguration

/// What may be done on the admin API.
typealias AdminRole = AdminTokenSettings.Role

extension AdminTokenSettings.Role {
    /// Whether this role includes everything the other one may do.
    func covers(_ other: Self) -> Bool { Self.allCases.firstIndex(of: self) ?? 0 >= Self.allCases.firstIndex(of: other) ?? .max }

    /// The role that a route needs. Decided by the route's pattern, not by how a request spells the path.
    static func needed(_ method: String, _ pattern: String) -> Self {
        let parts = pattern.split(separator: "/")
        if ["GET", "HEAD"].contains(method) { return parts == ["api", "audit"] ? .operate : .read }
        guard parts.count > 1, parts[0] == "api", parts[1] == "databases" else { return .operate }
        return parts.count == 4 && ["check", "compact", "resync"].contains(parts[3]) ? .operate : .edit
    }
}
